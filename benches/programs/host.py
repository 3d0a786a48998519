"""Runs a program that was built as a library, for tools that only start Python: host.py LIBRARY [ARG...]"""

import ctypes
import sys

words = [word.encode() for word in sys.argv[1:]]
sys.exit(ctypes.CDLL(sys.argv[1]).main(len(words), (ctypes.c_char_p * len(words))(*words)))
