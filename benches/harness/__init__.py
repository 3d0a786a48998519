"""memtrace and its peers on the same programs, in turn: see scripts/bench."""
