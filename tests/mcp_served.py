"""A server that runs this checkout's code in a separate process, and MCP's official client for it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from hotdesk.api.keys import ApiKeys
from hotdesk.config import Config
from tests.conftest import settings_in
from tests.stall_watch import WATCHED, require_no_stalls

SERVE = [sys.executable, "-c", "from hotdesk.cli import main; main()", "serve", "--port", "0"]
PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Here:
    """A running server."""

    url: str
    settings: Config
    keys: ApiKeys


@contextmanager
def served_here(folder: Path, **serve: object) -> Iterator[Here]:
    """Serve desks of the image `base` without egress; `serve` adds settings to `[serve]`."""
    (folder / "etc").mkdir(mode=0o755, parents=True)
    chosen = {"mcp_image": '"base"', "egress": '"deny"', **serve}
    lines = [f"{name} = {value}" for name, value in chosen.items()]
    (folder / "etc/config.toml").write_text("\n".join(["[serve]", *lines, "[serve.ready]", ""]))
    settings = settings_in(folder)
    keys = ApiKeys(settings.lib / "serve")
    keys.make("first")
    env = {name: os.environ.get(name, "") for name in ("PATH", "PYTHONPATH")}
    env |= {"HOTDESK_HOME": str(folder), "HOTDESK_IMAGES": str(settings.images), **WATCHED}
    log = folder / "serve.log"
    with log.open("wb") as written:
        process = subprocess.Popen(SERVE, stderr=written, env=env)
    try:
        yield Here(_wait(process, log), settings, keys)
    finally:
        process.terminate()
        process.wait(PATIENCE)
        require_no_stalls(log)


def _wait(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until a server prints its address; return it."""
    end = time.monotonic() + PATIENCE
    while "\n" not in (text := log.read_text()) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    assert text.startswith("http"), text
    return text.partition("\n")[0]


@asynccontextmanager
async def connected(url: str, key: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        yield client


def text_of(seen: CallToolResult) -> str:
    return "\n".join(each.text for each in seen.content if isinstance(each, TextContent))


def open_desks(settings: Config) -> list[str]:
    folder = settings.run / "desks"
    return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
