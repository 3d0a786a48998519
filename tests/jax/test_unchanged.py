"""What a program sees of JAX is what it sees without memtrace."""

import json
import os
import subprocess
import sys


def test_compiled_functions(record, standin, request):
    """Their class, attributes, identity and errors, even the frames of a traceback."""
    program = request.path.parent / "programs" / "seen.py"
    done = subprocess.run(
        [sys.executable, program],
        env={**os.environ, **standin.variables()},
        capture_output=True,
        text=True,
        check=True,
    )
    assert record("seen.py").reported == json.loads(done.stdout.splitlines()[-1])
