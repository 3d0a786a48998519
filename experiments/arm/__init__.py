"""memtrace for 64-bit Arm: built on x86-64 and tested under qemu, in user mode and in a guest."""
