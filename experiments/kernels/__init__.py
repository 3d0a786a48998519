"""The kernel side on the kernels of Debian's releases, each booted in a guest."""
