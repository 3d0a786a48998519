"""The third set of the study of promises: run once, when what the others showed is mended."""

from experiments.laws.promises import study


def main(arguments):
    return study("third", arguments.quick)
