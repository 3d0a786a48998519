"""A stand-in for DASF: as much of it as memtrace's plugin and its tests touch.

What it does is what DASF's own package does at version 1.0 beta 7, oddities included: the tests
run on that one where DASF_CORE names a checkout of it.
"""
