"""Checks on a machine with a GPU: real programs, their own counters, and what memtrace says of them."""
