"""System calls that fail, one by one: of the probe, the tracer and the readers."""

PARTS = {"calls": "each call of recordings and readers, with every error that it may give"}
