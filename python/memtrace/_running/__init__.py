"""Running programs under memtrace, and opening what was recorded."""
