"""Runs a command and prints the largest resident size of it and its children, sampled every 10 ms."""

import subprocess
import sys
import time

import psutil

SECONDS = 0.01


def resident(process):
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0


def main():
    child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
    root, peak = psutil.Process(child.pid), 0
    while child.poll() is None:
        try:
            family = [root, *root.children(recursive=True)]
        except psutil.Error:
            break
        peak = max(peak, sum(map(resident, family)))
        time.sleep(SECONDS)
    print(peak)
    return child.wait()


if __name__ == "__main__":
    sys.exit(main())
