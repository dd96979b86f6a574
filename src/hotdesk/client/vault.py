"""The vault of a server: secrets can be stored, but not read."""

from __future__ import annotations

from typing import Literal

from hotdesk.client.data import SecretShown, read
from hotdesk.client.http import HttpClient


class FarVault:
    """Secrets by name on a server. Each method does the same as in `hotdesk.vault`."""

    def __init__(self, line: HttpClient) -> None:
        self.line = line

    async def put(self, name: str, value: str, kind: Literal["token", "basic", "totp"] = "token") -> SecretShown:
        """Store a secret; an existing one gets a new version. The value of a `basic` secret is USER:PASSWORD."""
        return read(SecretShown, await self.line.call("PUT", f"/vault/{name}", {"kind": kind, "value": value}))

    async def ls(self) -> list[SecretShown]:
        """List secrets: names and kinds, never values."""
        return [read(SecretShown, each) for each in await self.line.list_all("/vault")]

    async def remove(self, name: str) -> None:
        """Delete a secret."""
        await self.line.call("DELETE", f"/vault/{name}")
