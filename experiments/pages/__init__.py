"""Pages that profilers write of the memory of a program."""

PARTS = {"compare": "memtrace's beside memray's, heaptrack's and Scalene's, on three programs"}
