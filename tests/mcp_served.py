"""A server that runs this checkout's code in a separate process, and MCP's official client for it."""

from __future__ import annotations

import os
import subprocess
import sys
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
    env |= {"HOTDESK_HOME": str(folder), "HOTDESK_IMAGES": str(settings.images)}
    with subprocess.Popen(SERVE, stderr=subprocess.PIPE, env=env, text=True) as process:
        assert process.stderr is not None
        try:
            url = process.stderr.readline().strip()
            assert url.startswith("http"), url + process.stderr.read()
            yield Here(url, settings, keys)
        finally:
            process.terminate()
            process.wait(PATIENCE)


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
