"""The second set of the study of promises: run once, when what the first set showed is mended."""

from experiments.laws.promises import study


def main(arguments):
    return study("second", arguments.quick)
