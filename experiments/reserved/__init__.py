"""Runtimes that reserve address space and make parts of it memory: what a whole command needs."""

PARTS = {"heaps": "heaps of Node.js and a JVM at three sizes, next to the kernel's count, and laws"}
