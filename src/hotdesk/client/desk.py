"""A desk on a server, with the methods of the library's desks."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Mapping, Sequence

from hotdesk.client.data import read
from hotdesk.client.http import HttpClient
from hotdesk.desk.seam import DeskId, Done, Entry, SnapshotId, Usage, as_bytes, check_argv
from hotdesk.errors import DeskGone


class FarDesk:
    """One desk on a server. Each method does the same as in `hotdesk.desk.seam.Desk`."""

    def __init__(self, line: HttpClient, desk: DeskId) -> None:
        self.line = line
        self.id = desk

    def __repr__(self) -> str:
        return f"<FarDesk {self.id} at {self.line.name}>"

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        timeout: float = 60.0,
    ) -> Done:
        """Run a program to its end. A missing program is a result with exit code 127."""
        check_argv(argv)
        fed = base64.b64encode(as_bytes(stdin)).decode()
        order = {"argv": list(argv), "stdin": fed, "env": dict(env or {}), "cwd": cwd, "user": user, "timeout": timeout,
                 "encoding": "base64"}  # fmt: skip
        reply = await self.line.call("POST", f"/desks/{self.id}/run", order)
        for name in ("stdout", "stderr"):
            reply[name] = base64.b64decode(reply[name])
        return read(Done, reply)

    async def read(self, path: str) -> bytes:
        """Return a file's bytes."""
        async with self.line.ask("GET", f"/desks/{self.id}/file", query={"path": path}) as answer:
            return await answer.read_body()

    async def write(self, path: str, data: str | bytes) -> None:
        """Write a file in place and create its folders; text is written as UTF-8."""
        async with self.line.ask("PUT", f"/desks/{self.id}/file", as_bytes(data), query={"path": path}):
            return

    async def list(self, path: str = "", *, depth: int = 1) -> list[Entry]:
        """List a folder."""
        query = {"path": path, "depth": depth}
        reply = await self.line.call("GET", f"/desks/{self.id}/entries", query=query)
        return [read(Entry, each) for each in reply["items"]]

    async def remove(self, path: str) -> None:
        """Remove a path and everything below it."""
        await self.line.call("DELETE", f"/desks/{self.id}/file", query={"path": path})

    async def pause(self) -> None:
        """Freeze every program until `resume`."""
        await self.line.call("POST", f"/desks/{self.id}/pause")

    async def resume(self) -> None:
        """Continue every program after `pause`."""
        await self.line.call("POST", f"/desks/{self.id}/resume")

    async def snapshot(self) -> SnapshotId:
        """Take a snapshot of the desk's files."""
        return SnapshotId((await self.line.call("POST", f"/desks/{self.id}/snapshots"))["snapshot"])

    async def rollback(self, snapshot: SnapshotId) -> None:
        """Restore the files of a snapshot exactly."""
        await self.line.call("POST", f"/desks/{self.id}/rollback", {"snapshot": snapshot})

    async def fork(self, count: int = 1, snapshot: SnapshotId | None = None) -> Sequence[FarDesk]:
        """Open `count` desks like this one that start with its files, or with those of a snapshot."""
        reply = await self.line.call("POST", f"/desks/{self.id}/fork", {"count": count, "snapshot": snapshot})
        return [FarDesk(self.line, DeskId(each["id"])) for each in reply["items"]]

    async def usage(self) -> Usage:
        """Return the desk's resource usage."""
        return read(Usage, await self.line.call("GET", f"/desks/{self.id}/usage"))

    async def burn(self) -> None:
        """Destroy the desk and everything in it. A second call does nothing."""
        with contextlib.suppress(DeskGone):
            await self.line.call("DELETE", f"/desks/{self.id}")

    async def close(self) -> None:
        """Burn the desk, like `burn`."""
        await self.burn()
