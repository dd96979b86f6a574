"""A real `hotdesk serve`, in a process of its own, for the clients others wrote."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from hotdesk.api.keys import Keys
from hotdesk.config import Config
from tests.conftest import settings_in
from tests.e2e.conftest import PROGRAM, environment

PATIENCE = 90


@dataclass(frozen=True, slots=True)
class Served:
    """A server that runs."""

    url: str
    key: str
    settings: Config
    process: subprocess.Popen[bytes]
    log: Path
    """What it says."""

    @property
    def e2b(self) -> dict[str, Any]:
        """Give what an E2B program is told instead of E2B's own cloud."""
        return {"api_key": self.key, "api_url": self.url, "sandbox_url": self.url}


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    """Give a server with a state directory of its own."""
    with served(home / f"serve-{time.monotonic_ns()}") as found:
        yield found


@contextmanager
def served(folder: Path, *options: str, config: str = "", env: Mapping[str, str] | None = None) -> Iterator[Served]:
    """Run a server, with settings and variables if they are told; in the end it is asked to stop, and does."""
    folder.mkdir(mode=0o755)
    (folder / "etc").mkdir()
    (folder / "etc/config.toml").write_text(config)
    settings = settings_in(folder)
    key = Keys(settings.lib / "serve").make("test")
    log = folder / "serve.log"
    source = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}  # a copy without a guard
    with log.open("wb") as written:
        process = subprocess.Popen(
            [PROGRAM, "serve", "--port", "0", *options],
            stderr=written,
            env={**environment(settings), **source, **(env or {})},
        )
    try:
        url = wait(process, log)
        yield Served(url, key, settings, process, log)
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def wait(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until a server answers; give its address."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        url = log.read_text().partition("\n")[0]
        try:
            if url.startswith("http") and httpx.get(f"{url}/health", timeout=5).status_code < 500:
                return url
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    pytest.fail(f"the server does not answer: {log.read_text()}")
