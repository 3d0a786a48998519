//! What is exchanged over the socket before memory is shared: the probe sends a [`Hello`], the tracer
//! answers with a [`Welcome`] that carries the descriptors of the settings and of a segment of the
//! image's own (SCM_RIGHTS).

use crate::layout::{FIRST, FURTHER, Geometry, MAGIC, VERSION};

/// Variable that names the tracer's socket.
pub const SOCKET_VARIABLE: &str = "MEMTRACE_SOCKET";
/// Variable with the token, 32 hex digits: who can read the recorded
/// program's environment may join.
pub const TOKEN_VARIABLE: &str = "MEMTRACE_TOKEN";

/// How long each side waits for the other's words: as long as a program waits for room in a ring. A
/// tracer that is short of processor time is late by seconds.
pub const PATIENCE_SECONDS: usize = 30;

/// Probe to tracer.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// Process id in the sender's own namespace.
    pub pid: u32,
    /// The image's first stamp, as in its slots.
    pub image: u64,
    /// The token.
    pub token: [u8; 16],
    /// Which segment it is about.
    pub wants: Wants,
}

/// The segment that a probe asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Wants {
    /// The image's first.
    First = 0,
    /// One more, because all slots that it has are taken.
    Further = 1,
}

impl Wants {
    /// How large it is.
    pub const fn geometry(self) -> Geometry {
        match self {
            Wants::First => FIRST,
            Wants::Further => FURTHER,
        }
    }
}

/// Tracer to probe; followed by the two descriptors if `accepted` is 1.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// 1, or 0 for a version or token that does not fit.
    pub accepted: u32,
}

impl Hello {
    /// Bytes on the socket.
    pub const BYTES: usize = size_of::<Hello>();

    /// A hello of this version.
    pub fn new(pid: u32, image: u64, token: [u8; 16], wants: Wants) -> Hello {
        Hello { magic: MAGIC, version: VERSION, pid, image, token, wants }
    }

    /// To bytes.
    pub fn encode(&self) -> [u8; Hello::BYTES] {
        let mut out = [0; Hello::BYTES];
        out[0..8].copy_from_slice(&self.magic.to_le_bytes());
        out[8..12].copy_from_slice(&self.version.to_le_bytes());
        out[12..16].copy_from_slice(&self.pid.to_le_bytes());
        out[16..24].copy_from_slice(&self.image.to_le_bytes());
        out[24..40].copy_from_slice(&self.token);
        out[40..48].copy_from_slice(&(self.wants as u64).to_le_bytes());
        out
    }

    /// From bytes; `None` if the magic is missing (the version is for the caller to judge).
    pub fn decode(bytes: &[u8; Hello::BYTES]) -> Option<Hello> {
        let mut token = [0; 16];
        token.copy_from_slice(&bytes[24..40]);
        let wants = match u64::from_le_bytes(*bytes[40..].first_chunk()?) {
            0 => Wants::First,
            1 => Wants::Further,
            _ => return None,
        };
        let hello = Hello {
            magic: u64::from_le_bytes(*bytes.first_chunk()?),
            version: u32::from_le_bytes(*bytes[8..].first_chunk()?),
            pid: u32::from_le_bytes(*bytes[12..].first_chunk()?),
            image: u64::from_le_bytes(*bytes[16..].first_chunk()?),
            token,
            wants,
        };
        (hello.magic == MAGIC).then_some(hello)
    }
}

impl Welcome {
    /// Bytes on the socket.
    pub const BYTES: usize = size_of::<Welcome>();

    /// To bytes.
    pub fn encode(accepted: bool) -> [u8; Welcome::BYTES] {
        let mut out = [0; Welcome::BYTES];
        out[0..8].copy_from_slice(&MAGIC.to_le_bytes());
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&u32::from(accepted).to_le_bytes());
        out
    }

    /// True if these bytes accept a probe of this version.
    pub fn accepts(bytes: &[u8; Welcome::BYTES]) -> bool {
        *bytes == Welcome::encode(true)
    }
}

/// Reads a token of 32 hex digits.
pub fn parse_token(text: &[u8]) -> Option<[u8; 16]> {
    let digit = |c: u8| (c as char).to_digit(16).map(|d| d as u8);
    let text: &[u8; 32] = text.try_into().ok()?;
    let mut token = [0; 16];
    for (byte, pair) in token.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(token)
}
