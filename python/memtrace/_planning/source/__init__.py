"""Describes the source of a Python function as JSON that any language's extractor could write.

The function is not run; its module is imported. Functions that it calls are described too, unless
they belong to a library whose functions are known by their laws (`LIBRARIES`) or to Python itself.
What the JSON means: docs/generic.md. The files here need nothing but Python 3.8 and each other:
`memtrace bound` sends them to whichever interpreter has the operator.
"""
