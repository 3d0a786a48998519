"""Other systems than the one memtrace was built on: the wheel and the packages there."""

PARTS = {
    "debian": "releases of Debian: pip installs the wheel, GST3D is recorded, read and predicted",
    "packages": "the same releases: tarball, .deb and .rpm are installed, used and removed",
}
