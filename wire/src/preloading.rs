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
    /// stderr, a sanitizer's runtime ends it.
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
