//! Zstandard for page bodies.

use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, compress_bound, get_error_name};

/// The lowest level with an entropy coder. Higher ones find hardly more in columns, and cost a multiple.
const LEVEL: i32 = 1;

/// What the library says went wrong.
pub(crate) struct Failed(pub(super) &'static str);

/// A compressor whose tables are made once.
pub(crate) struct Squeezer {
    context: CCtx<'static>,
}

impl Squeezer {
    pub(crate) fn new() -> Result<Squeezer, Failed> {
        let mut context = CCtx::create();
        context.set_parameter(CParameter::CompressionLevel(LEVEL)).map_err(|code| Failed(get_error_name(code)))?;
        Ok(Squeezer { context })
    }

    /// Puts one frame with `bytes` into `out`. A block ends after each `stretch` bytes: it has one code for all its
    /// bytes, so what is distributed differently belongs into different ones.
    pub(crate) fn squeeze(&mut self, bytes: &[u8], stretch: usize, out: &mut Vec<u8>) -> Result<(), Failed> {
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
            let left = self.context.compress_stream2(&mut output, &mut input, end).map_err(|code| Failed(get_error_name(code)))?;
            if left > 0 {
                return Err(Failed("a compressed page is larger than can be"));
            }
        }
        Ok(())
    }
}
