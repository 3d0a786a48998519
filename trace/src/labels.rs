//! Text and dictionary keys of [`Kind`] and [`Role`].

use std::fmt;
use std::str::FromStr;

use crate::rows::{Kind, Role};

/// A text that is none of the values its type knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a known value")]
pub struct UnknownLabel(pub String);

/// A closed set of values stored as dictionary-encoded text; the key is the place in `ALL` and `TEXTS`.
pub(crate) trait Label: Copy + 'static {
    const ALL: &'static [Self];
    const TEXTS: &'static [&'static str];

    fn parse(text: &str) -> Result<Self, UnknownLabel> {
        let found = Self::TEXTS.iter().position(|known| *known == text);
        found.map(|key| Self::ALL[key]).ok_or_else(|| UnknownLabel(text.to_owned()))
    }
}

impl Label for Kind {
    const ALL: &'static [Kind] = &[
        Kind::Malloc,
        Kind::Calloc,
        Kind::Realloc,
        Kind::Aligned,
        Kind::MapAnonymous,
        Kind::MapShared,
        Kind::MapFile,
        Kind::MapReserved,
        Kind::MapBreak,
        Kind::MapArena,
        Kind::Cuda,
        Kind::CudaPitch,
        Kind::CudaManaged,
        Kind::CudaHost,
        Kind::CudaRegistered,
        Kind::CudaArray,
        Kind::CudaMipmap,
        Kind::CudaPool,
        Kind::CudaPhysical,
        Kind::CudaImportedPhysical,
        Kind::CudaIpc,
        Kind::CudaImportedPool,
        Kind::CudaGraph,
        Kind::CudaMapped,
        Kind::TorchBlock,
        Kind::PoolBlock,
    ];

    const TEXTS: &'static [&'static str] = &[
        "malloc",
        "calloc",
        "realloc",
        "aligned",
        "map_anonymous",
        "map_shared",
        "map_file",
        "map_reserved",
        "map_break",
        "map_arena",
        "cuda",
        "cuda_pitch",
        "cuda_managed",
        "cuda_host",
        "cuda_registered",
        "cuda_array",
        "cuda_mipmap",
        "cuda_pool",
        "cuda_physical",
        "cuda_imported_physical",
        "cuda_ipc",
        "cuda_imported_pool",
        "cuda_graph",
        "cuda_mapped",
        "torch_block",
        "pool_block",
    ];
}

impl Label for Role {
    const ALL: &'static [Role] = &[Role::None, Role::Input, Role::Output, Role::Temporary, Role::Once];
    const TEXTS: &'static [&'static str] = &["none", "input", "output", "temporary", "once"];
}

macro_rules! text_conversions {
    ($label:ty) => {
        impl $label {
            /// The text in the tables.
            pub fn as_str(self) -> &'static str {
                Self::TEXTS[self as usize]
            }
        }

        impl fmt::Display for $label {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $label {
            type Err = UnknownLabel;

            fn from_str(text: &str) -> Result<Self, UnknownLabel> {
                <$label as Label>::parse(text)
            }
        }
    };
}

text_conversions!(Kind);
text_conversions!(Role);

#[cfg(test)]
mod tests {
    use super::*;

    /// The writer uses a value's discriminant as its key.
    #[test]
    fn keys_are_discriminants_and_texts_come_back() {
        for (key, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, key);
            assert_eq!(kind.as_str().parse(), Ok(*kind));
        }
        for (key, role) in Role::ALL.iter().enumerate() {
            assert_eq!(*role as usize, key);
            assert_eq!(role.as_str().parse(), Ok(*role));
        }
        assert_eq!("mallox".parse::<Kind>(), Err(UnknownLabel("mallox".into())));
    }
}
