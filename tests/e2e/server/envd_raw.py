"""Calls of envd as raw bytes, for requests that E2B's SDKs never send."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from e2b import Sandbox

from tests.e2e.server.conftest import Served

PROCESS, FILESYSTEM = "process.Process", "filesystem.Filesystem"


def envelope(value: object, flags: int = 0) -> bytes:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return bytes((flags,)) + len(data).to_bytes(4, "big") + data


def told(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    """Yield the messages of a stream as they arrive; the last one reports how it ended."""
    buffer = b""
    for data in answer.iter_raw():
        buffer += data
        while len(buffer) >= 5 and len(buffer) >= 5 + int.from_bytes(buffer[1:5], "big"):
            end = 5 + int.from_bytes(buffer[1:5], "big")
            yield json.loads(buffer[5:end])
            buffer = buffer[end:]
    assert buffer == b""


@dataclass(frozen=True, slots=True)
class Envd:
    """envd of one sandbox, with its owner's token."""

    client: httpx.Client

    def unary(self, path: str, message: object) -> httpx.Response:
        content = message if isinstance(message, bytes) else json.dumps(message)
        return self.client.post(f"/{path}", content=content, headers={"Content-Type": "application/json"})

    @contextmanager
    def stream(self, path: str, message: object, **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
        content = message if isinstance(message, bytes) else envelope(message)
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        lines = {"Content-Type": "application/connect+json", **more}
        with self.client.stream("POST", f"/{path}", content=content, headers=lines) as answer:
            assert answer.status_code == 200
            yield told(answer)

    def start(self, command: str, **more: object) -> dict[str, object]:
        return {"process": {"cmd": "/bin/bash", "args": ["-l", "-c", command]}, **more}


@contextmanager
def envd(server: Served, sandbox: Sandbox, headers: Mapping[str, str] | None = None) -> Iterator[Envd]:
    shown = {"E2b-Sandbox-Id": sandbox.sandbox_id, "X-Access-Token": str(sandbox._envd_access_token)}
    with httpx.Client(base_url=server.url, headers={**shown, **(headers or {})}, timeout=30) as client:
        yield Envd(client)


def said(event: Mapping[str, Any], kind: str = "stdout") -> str:
    return base64.b64decode(event["event"]["data"][kind]).decode()


def octets(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
