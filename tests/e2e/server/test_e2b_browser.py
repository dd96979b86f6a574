"""Tests of E2B's JavaScript SDKs in a real browser: pages of listed origins may use the API, others may not."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Error

from tests.e2e.server.conftest import Served, served
from tests.e2e.server.js_packages import install

pytestmark = [pytest.mark.container, pytest.mark.timeout(400)]


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without logging."""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def site(folder: Path) -> Iterator[str]:
    """Serve a folder; yield its origin."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def origins(pages: Path) -> Iterator[tuple[str, str]]:
    with site(pages) as listed, site(pages) as other:
        yield listed, other


@pytest.fixture(scope="module")
def server(home: Path, origins: tuple[str, str]) -> Iterator[Served]:
    config = f'[serve]\norigins = ["{origins[0]}"]\nready = {{}}\n'
    with served(home / f"origins-{time.monotonic_ns()}", config=config) as found:
        yield found


def test_pages_of_listed_origins_may_use_the_api_and_others_may_not(server: Served, origins: tuple[str, str]) -> None:
    wants = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-api-key,authorization"}
    with httpx.Client(base_url=server.url, timeout=60) as client:
        asked = client.options("/v2/sandboxes", headers={"Origin": origins[0], **wants})
        assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, origins[0])
        assert asked.headers["access-control-allow-headers"] == "x-api-key,authorization"
        assert "access-control-allow-credentials" not in asked.headers
        read = client.get("/v2/sandboxes", headers={"Origin": origins[0], "X-API-Key": server.key})
        assert (read.status_code, read.headers["access-control-allow-origin"]) == (200, origins[0])
        for path in ("/api/v1/desks", "/", "/mcp", "/health"):
            for headers in ({"Origin": origins[0]}, {"Origin": origins[0], **wants}):
                assert "access-control-allow-origin" not in client.options(path, headers=headers).headers
        for origin in (origins[1], "null", f"{origins[0]}.evil.test", f"{origins[0]}, {origins[1]}"):
            answer = client.options("/v2/sandboxes", headers={"Origin": origin, **wants})
            assert "access-control-allow-origin" not in answer.headers


@pytest.mark.long
def test_a_page_uses_sandboxes(server: Served, origins: tuple[str, str], pages: Path, browser: Browser) -> None:
    folder = pages / "npm"
    folder.mkdir()
    install(folder, "esbuild")
    bundle = ["node_modules/.bin/esbuild", "browser.mjs", "--bundle", "--format=iife", "--platform=browser"]
    node = [f"--alias:node:{name}=./empty.mjs" for name in ("fs", "stream", "crypto", "os", "path", "url")]
    subprocess.run([*bundle, *node, f"--outfile={pages}/app.js"], cwd=folder, check=True, timeout=120)
    (pages / "index.html").write_text("<!doctype html><meta charset=utf-8><script src=app.js></script>")
    page = browser.new_page()
    page.goto(f"{origins[0]}/index.html")
    found = page.evaluate("([key, url]) => useSandbox(key, url)", [server.key, server.url])
    assert found == {
        "stdout": "out\nb\n", "shown": "out\nb\n", "text": "written in a page", "names": ["a.txt"],
        "failure": "FileNotFoundError", "listed": 1, "running": False,
    }  # fmt: skip
    assert page.evaluate("([key, url]) => runCode(key, url)", [server.key, server.url]) == "42"
    page.goto(f"{origins[1]}/index.html")
    with pytest.raises(Error, match="fetch"):
        page.evaluate("([key, url]) => useSandbox(key, url)", [server.key, server.url])
    page.close()
