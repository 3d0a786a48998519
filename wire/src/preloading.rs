//! Programs that run without the probe, whoever starts them: the tracer the command, the probe what
//! its program executes.

/// Runtimes that end a program, or crash, where a library with a `malloc` comes before them (gcc's;
/// clang links its own statically).
const SANITIZERS: [&[u8]; 3] = [b"libasan.so", b"libhwasan.so", b"libtsan.so"];

/// True if the name of a library, as programs ask for it (DT_NEEDED, elf(5)), is the runtime of a
/// sanitizer that suffers from the probe.
pub fn is_sanitizer(library: &[u8]) -> bool {
    SANITIZERS.iter().any(|name| library.starts_with(name))
}
