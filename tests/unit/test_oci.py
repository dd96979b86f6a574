"""Tests of the container images: extensions for their Python, bytecode that is valid, and the probes' commands."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tools.oci import ABI, SEALED, compile_bytecode, find_foreign_extensions

MACHINE = platform.machine()


class Answering(BaseHTTPRequestHandler):
    """A server that is well, and has no node for desks."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def import_verbosely(folder: Path) -> str:
    argv = [sys.executable, "-I", "-B", "-v", "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); import sample"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stderr


@pytest.mark.parametrize("is_ours", [True, False])
def test_bytecode_is_used_although_files_have_another_time(tmp_path: Path, is_ours: bool) -> None:
    (tmp_path / "sample.py").write_text("A = 1\n")
    if is_ours:
        compile_bytecode([sys.executable, "-I"], tmp_path)
    else:
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(tmp_path)], check=True)
    os.utime(tmp_path / "sample.py", (0, 0))
    printed = import_verbosely(tmp_path)
    assert ("bytecode is stale for 'sample'" in printed) != is_ours
    assert any("code object from" in line and "sample.cpython" in line for line in printed.splitlines()) == is_ours


@pytest.mark.parametrize(
    ("name", "is_fitting"),
    [
        (f"a.{ABI}-{MACHINE}-linux-gnu.so", True),
        ("a.abi3.so", True),
        ("pillow.libs/libjpeg.so", True),
        (f"a.cpython-313-{MACHINE}-linux-gnu.so", False),
        (f"a.{ABI}-riscv64-linux-gnu.so", False),
        ("a.so", False),
    ],
)
def test_extensions_of_another_python_or_machine_are_found(tmp_path: Path, name: str, is_fitting: bool) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    assert (find_foreign_extensions(tmp_path) == []) == is_fitting


def test_full_nodes_leave_the_server_healthy(tmp_path: Path, port: int) -> None:
    codes = {}
    for place, text in SEALED[1:]:
        (tmp_path / place.name).write_text(text)
        argv = [sys.executable, "-I", str(tmp_path / place.name)]
        codes[place.name] = subprocess.run([*argv, str(port)], capture_output=True, check=False).returncode
    assert codes == {"hotdesk-health": 0, "hotdesk-ready": 1}
