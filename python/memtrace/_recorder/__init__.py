"""The recorder: what runs inside recorded Python programs. Its files are texts, not modules.

The tracer joins them to one text (`tracer/src/record`). The probe runs it before `site`, or
when the program imports what has automatic spans, in a module of its own,
`_memtrace_recorder`, and calls `install`. Hence the constraints of every text here: it needs
nothing but the standard library (Python 3.8 to 3.13), imports nothing but `sys` until there is
work, prints nothing (but, one time, that it cannot record), raises nothing into the program, asks
a value for its type and never for its `__class__`, never imports NumPy, and keeps no reference to
an argument or a result (it would raise the peak of an operator that rebinds its input). Names at
the top level are those of one module: no two texts define the same one.
"""
