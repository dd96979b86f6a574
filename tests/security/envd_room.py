"""Sandboxes of a real server for attackers to try: two of one tenant, one of another."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from hotdesk.api.e2b.envd import signing
from hotdesk.api.keys import ApiKeys
from tests.e2e.server.conftest import Served, served


@dataclass(frozen=True, slots=True)
class Given:
    """A sandbox and the credentials its owner has."""

    id: str
    token: str
    url: str

    def call(
        self,
        method: str,
        path: str,
        token: str | None = None,
        params: Mapping[str, str] | None = None,
        content: str | bytes | None = None,
        kind: str = "application/octet-stream",
    ) -> httpx.Response:
        """Call its envd; without a token, as a caller that knows only its name."""
        shown = {"E2b-Sandbox-Id": self.id, "Content-Type": kind}
        shown |= {} if token is None else {"X-Access-Token": token}
        return httpx.request(method, f"{self.url}{path}", headers=shown, params=params, content=content, timeout=20)

    def write(self, path: str, text: str) -> httpx.Response:
        return self.call("POST", "/files", self.token, params={"path": path, "username": "root"}, content=text)

    def read(self, path: str) -> httpx.Response:
        return self.call("GET", "/files", self.token, params={"path": path, "username": "root"})

    def run(self, script: str) -> None:
        told = json.dumps({"process": {"cmd": "/bin/sh", "args": ["-c", script]}}).encode()
        shown = {
            "E2b-Sandbox-Id": self.id, "X-Access-Token": self.token, "Content-Type": "application/connect+json",
            "Authorization": "Basic cm9vdDo=",
        }  # fmt: skip
        body = b"\0" + len(told).to_bytes(4, "big") + told
        answer = httpx.post(f"{self.url}/process.Process/Start", content=body, headers=shown, timeout=20)
        assert b'"exitCode":0' in answer.content, answer.content

    def signed(self, path: str, act: signing.Act, username: str = "", expiration: str = "") -> dict[str, str]:
        """Sign an address as its owner; return the query."""
        told = signing.Signed(path, act, username, "", expiration)
        query = {"path": path, "signature": told.compute_signature(self.token)}
        query |= {"username": username} if username else {}
        return query | ({"signature_expiration": expiration} if expiration else {})


@dataclass(frozen=True, slots=True)
class Street:
    """A server, and sandboxes there."""

    server: Served
    mine: Given
    beside: Given
    """Another sandbox of the same tenant."""
    theirs: Given
    """A sandbox of another tenant."""
    their_key: str


def made(server: Served, key: str) -> Given:
    asked = {"templateID": "base", "timeout": 300, "secure": True}
    told = httpx.post(f"{server.url}/sandboxes", json=asked, headers={"X-API-Key": key}, timeout=30).json()
    return Given(told["sandboxID"], told["envdAccessToken"], server.url)


@contextmanager
def street(folder: Path) -> Iterator[Street]:
    with served(folder) as server:
        key = ApiKeys(server.settings.lib / "serve").make("eve", "other")
        yield Street(server, made(server, server.key), made(server, server.key), made(server, key), key)
