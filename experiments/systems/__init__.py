"""Other systems than the one memtrace was built on: the wheel there."""

PARTS = {
    "debian": "releases of Debian: pip installs the wheel, GST3D is recorded, read and predicted",
}
