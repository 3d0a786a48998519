//! What comes of preloading the probe: the tracer asks before it starts the command, the probe before
//! its program executes another one.

/// What comes of preloading the probe into a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preloading {
    /// The program loads it. So do scripts, as far as is known here, and what cannot be read.
    Works,
    /// It is ignored: a statically linked program has no dynamic linker (PT_INTERP, elf(5)), and that
    /// of a program that runs as another user ignores the variable (ld.so(8)).
    IsIgnored,
    /// The program would not be what it is without: a 32-bit one's dynamic linker complains on its
    /// stderr, that of another C library or a sanitizer's runtime ends it.
    DoesHarm,
}

/// Runtimes that end a program, or crash, where a library with a `malloc` comes before them (gcc's;
/// clang links its own statically).
const SANITIZERS: [&[u8]; 3] = [b"libasan.so", b"libhwasan.so", b"libtsan.so"];

/// True if the name of a library, as programs ask for it (DT_NEEDED, elf(5)), is the runtime of a
/// sanitizer that suffers from the probe.
pub fn is_sanitizer(library: &[u8]) -> bool {
    SANITIZERS.iter().any(|name| library.starts_with(name))
}

/// Dynamic linkers of C libraries that lack what the probe calls of glibc, by the beginning of their
/// file's name.
const OTHER_LINKERS: [(&[u8], &str); 3] =
    [(b"ld-musl-", "musl"), (b"ld64-uClibc", "uClibc"), (b"linker64", "Bionic")];

/// The C library that a program is linked with by its dynamic linker's path (PT_INTERP, elf(5));
/// `None` if that is glibc, or an unknown one.
pub fn other_c_library(linker: &[u8]) -> Option<&'static str> {
    let name = linker.rsplit(|byte| *byte == b'/').next()?;
    OTHER_LINKERS.iter().find(|(beginning, _)| name.starts_with(beginning)).map(|(_, library)| *library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_c_library_is_known_by_its_dynamic_linker() {
        assert_eq!(other_c_library(b"/lib/ld-musl-x86_64.so.1\0"), Some("musl"));
        assert_eq!(other_c_library(b"/lib/ld64-uClibc.so.0"), Some("uClibc"));
        assert_eq!(other_c_library(b"/system/bin/linker64"), Some("Bionic"));
        for glibc in [b"/lib64/ld-linux-x86-64.so.2".as_slice(), b"/opt/ld-musl-/ld.so", b"", b"/"] {
            assert_eq!(other_c_library(glibc), None);
        }
    }
}
