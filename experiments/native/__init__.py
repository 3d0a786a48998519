"""Programs in C++, Rust and Fortran that others wrote."""

PARTS = {
    "lines": "share of the bytes at the peak whose place is a line of the program's own sources",
}
