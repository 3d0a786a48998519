"""Pythons that run a text as `python -c` does, in forks of one that has imported what they need (a
fork server of `multiprocessing`), or from the beginning."""

import multiprocessing
import os
import subprocess
import sys
import traceback
from multiprocessing import forkserver

# Threads of PyTorch's that still run when its libraries are taken down end in abort().
LEAVE = "\nimport os, sys\nsys.stdout.flush()\nos._exit(0)\n"


class Forked:
    """With these variables beside the environment."""

    def __init__(self, modules, variables):
        self._variables = variables
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(modules)
        before = dict(os.environ)
        os.environ.update(variables)
        try:
            forkserver.ensure_running()
        finally:
            os.environ.clear()
            os.environ.update(before)

    def fork(self, text, args, variables, folder, empty):
        """Exit status, output and errors of a text with these variables more, in this folder."""
        out, error = empty / "forked.out", empty / "forked.err"
        work = text, [str(each) for each in args], variables, folder, out, error
        child = self._context.Process(target=_run, args=work)
        child.start()
        child.join()
        return child.exitcode, out.read_text(), error.read_text()

    def begin(self, text, args, variables, folder):
        """The same in a Python that imports everything itself."""
        command = [sys.executable, "-c", text + LEAVE, *map(str, args)]
        environment = {**os.environ, **self._variables, **variables}
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=folder, check=False
        )
        return done.returncode, done.stdout, done.stderr


def _run(text, args, variables, folder, out, error):
    for stream, file in ((1, out), (2, error)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
    os.environ.update(variables)
    os.chdir(folder)
    sys.argv = ["-c", *args]
    # Before it runs this, `multiprocessing` replaces the paths by those of pytest.
    sys.path[:0] = ["", *os.environ["PYTHONPATH"].split(os.pathsep)]
    try:
        exec(compile(text + LEAVE, "<string>", "exec"), {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
