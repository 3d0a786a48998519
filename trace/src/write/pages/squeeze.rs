//! Zstandard for page bodies.

use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ParamSwitch, compress_bound, get_error_name};

/// The lowest level with an entropy coder. Higher ones find hardly more in columns, and cost a
/// multiple.
const LEVEL: i32 = 1;

/// What the library says went wrong.
pub(crate) struct Failed(pub(super) &'static str);

/// How hard to search for repetitions where there are hardly any: practically never, but Huffman's
/// code still serves.
const HASTE: u32 = 1024;

/// Compressors that keep their tables.
pub(crate) struct Squeezer {
    /// For what a program does again and again.
    repeating: CCtx<'static>,
    /// For times: some values are more frequent than others, but they do not come back in the same
    /// order.
    noisy: CCtx<'static>,
}

/// What a page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Stretches of bytes that come back.
    Repeating,
    /// No such stretches.
    Noisy,
}

impl Squeezer {
    pub(crate) fn new() -> Result<Squeezer, Failed> {
        let compressor = |parameters: &[CParameter]| {
            let mut context = CCtx::create();
            for parameter in parameters {
                context.set_parameter(*parameter).map_err(|code| Failed(get_error_name(code)))?;
            }
            Ok(context)
        };
        Ok(Squeezer {
            repeating: compressor(&[CParameter::CompressionLevel(LEVEL)])?,
            noisy: compressor(&[
                CParameter::CompressionLevel(LEVEL),
                CParameter::TargetLength(HASTE),
                CParameter::LiteralCompressionMode(ParamSwitch::Enable),
            ])?,
        })
    }

    /// Puts one frame with `bytes` into `out`. A block ends after each `stretch` bytes: it has one
    /// code for all its bytes, so what is distributed differently belongs into different ones.
    pub(crate) fn squeeze(
        &mut self,
        content: Content,
        bytes: &[u8],
        stretch: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Failed> {
        let context = match content {
            Content::Repeating => &mut self.repeating,
            Content::Noisy => &mut self.noisy,
        };
        let stretch = stretch.max(1);
        out.clear();
        out.reserve(compress_bound(bytes.len()) + bytes.len() / stretch * 16);
        let mut output = OutBuffer::around(out);
        let mut stretches = bytes.chunks(stretch).peekable();
        while let Some(stretch) = stretches.next() {
            let end = match stretches.peek() {
                Some(_) => ZSTD_EndDirective::ZSTD_e_flush,
                None => ZSTD_EndDirective::ZSTD_e_end,
            };
            let mut input = InBuffer::around(stretch);
            let left = context
                .compress_stream2(&mut output, &mut input, end)
                .map_err(|code| Failed(get_error_name(code)))?;
            if left > 0 {
                return Err(Failed("a compressed page is larger than can be"));
            }
        }
        Ok(())
    }
}
