"""The second set of the study of promises: what it showed is mended, too."""

from experiments.laws.promises import study


def main(arguments):
    return study("second", arguments.quick)
