"""Pythons that run a text as `python -c` does, in forks of one that has imported what they need.

The server of `multiprocessing` is one for each process: here each environment has a server of its own.
"""

import json
import os
import subprocess
import sys
import traceback


class Forked:
    """Forks of a Python that has imported these modules, with these variables beside the environment."""

    def __init__(self, modules, variables):
        pipe = subprocess.PIPE
        self._server = subprocess.Popen(
            [sys.executable, __file__, *modules],
            env={**os.environ, **variables},
            stdin=pipe,
            stdout=pipe,
            text=True,
        )

    def run(self, text, args, variables, folder, empty):
        """Exit status, output and errors of a text with these variables more, in this folder."""
        out, error = empty / "forked.out", empty / "forked.err"
        work = text, [str(each) for each in args], variables, str(folder), str(out), str(error)
        self._server.stdin.write(json.dumps(work) + "\n")
        self._server.stdin.flush()
        line = self._server.stdout.readline()
        assert line, f"the server has ended: {self._server.wait()}"
        status = int(line)
        return os.waitstatus_to_exitcode(status), out.read_text(), error.read_text()

    def close(self):
        """Ends the server."""
        self._server.communicate()


def _serve(modules):
    for module in modules:
        __import__(module)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _run(*json.loads(line))
        print(os.waitpid(child, 0)[1], flush=True)


def _run(text, args, variables, folder, out, error):
    for stream, file in ((1, out), (2, error)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
    os.environ.update(variables)
    os.chdir(folder)
    sys.argv = ["-c", *args]
    sys.path[0] = ""
    status = 0
    try:
        exec(compile(text, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as ended:
        status = int(bool(ended.code))
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of PyTorch's that still run when its libraries are taken down end in abort().
    os._exit(status)


if __name__ == "__main__":
    _serve(sys.argv[1:])
