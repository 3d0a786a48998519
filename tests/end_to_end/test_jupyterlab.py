"""Summaries and frames in JupyterLab itself, where JUPYTERLAB names its command: `pip install jupyterlab`."""

import json
import os
import re
import shutil
import subprocess
import sys

import browser
import pytest
from browser import DESKTOP
from conftest import MEMTRACE, ROOT, environment

COMMAND = os.environ.get("JUPYTERLAB") or shutil.which("jupyter-lab")
CELLS = {
    "load": "import memtrace",
    "summary": "trace = memtrace.record('kept = bytearray(30_000_000)', output='trace')\ntrace",
    "frame": "trace.show(height=400)",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of a notebook in a JupyterLab that runs kernels of this Python."""
    if COMMAND is None:
        pytest.skip("JupyterLab is not installed: JUPYTERLAB names its command")
    folder = tmp_path_factory.mktemp("jupyterlab")
    written(folder)
    kernel = {"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]}
    kernels = folder / "share" / "kernels" / "recorded"
    kernels.mkdir(parents=True)
    (kernels / "kernel.json").write_text(json.dumps(kernel | {"display_name": "recorded"}))
    variables = {
        "HOME": str(folder),
        "JUPYTER_PATH": str(folder / "share"),
        "PATH": f"{MEMTRACE.parent}:{environment()['PATH']}",
        "PYTHONPATH": str(ROOT / "python"),
    }
    options = ["--no-browser", "--allow-root", "--expose-app-in-browser", "--ServerApp.port=0"]
    options += ["--IdentityProvider.token=secret", f"--ServerApp.root_dir={folder / 'work'}"]
    log = folder / "log"
    with log.open("wb") as into:
        server = subprocess.Popen(
            [COMMAND, *options], cwd=folder, env=environment(**variables), stdout=into, stderr=into
        )
    try:
        yield f"{began(server, log)}lab/tree/notebook.ipynb?token=secret&reset"
    finally:
        server.terminate()
        server.wait(30)


def written(folder):
    """A notebook with the cells."""
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [cell | {"id": name, "source": source} for name, source in CELLS.items()]
    kernel = {"kernelspec": {"name": "recorded", "display_name": "recorded"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (folder / "work").mkdir()
    (folder / "work" / "notebook.ipynb").write_text(json.dumps(notebook))


def began(server, log):
    """Where the server listens."""
    for _ in range(600):
        found = re.search(r"http://127\.0\.0\.1:\d+/", log.read_text())
        if found:
            return found[0]
        assert server.poll() is None, log.read_text()
        with pytest.raises(subprocess.TimeoutExpired):
            server.wait(0.1)
    raise AssertionError(log.read_text())


def test_a_notebook_shows_the_summary_and_the_page(address):
    here = address.split("/lab/")[0]
    elsewhere = []
    with browser.started() as started:
        page = started.new_page(viewport=dict(zip(("width", "height"), DESKTOP, strict=True)))
        page.on("request", lambda request: elsewhere.append(request.url))
        page.set_default_timeout(60_000)
        page.goto(address)
        page.wait_for_function("window.jupyterapp?.commands.hasCommand('notebook:run-all-cells')")
        # What is run before the kernel is there is not run.
        page.get_by_text("recorded | Idle").wait_for()
        page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
        summary = page.locator(".jp-RenderedHTMLCommon:has-text('exited 0')")
        summary.wait_for()
        assert "live at" in summary.inner_text()
        inside = page.frame_locator(".jp-OutputArea-output iframe")
        inside.locator("html[data-ready]").wait_for()
        assert int(inside.locator("#total").get_attribute("data-total")) > 30_000_000
        inside.get_by_role("tab", name="Lines").click()
        inside.locator("#panel-lines tbody tr").first.wait_for()
    network = [url for url in elsewhere if not url.startswith((here, "data:", "blob:", "about:"))]
    assert not network
