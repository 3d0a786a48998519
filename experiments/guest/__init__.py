"""Virtual machines with kernels of Debian, emulated (no KVM): a command runs in one, and what it
prints and its exit status come back.

    image = kernel.fetched(kernel.Kernel("trixie"))
    archive = initramfs.packed(folder, "uname -r", files={})
    done = guest.booted(folder, image, archive)
"""
