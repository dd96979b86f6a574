"""The client of a server: desks, jobs, approvals, drive, vault."""

from __future__ import annotations

import json
import secrets
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeVar

import anyio

from hotdesk.client.data import Allowed, Approval, DeskShown, Happened, Job, Kept, read
from hotdesk.client.desk import FarDesk
from hotdesk.client.http import HttpClient
from hotdesk.client.vault import FarVault
from hotdesk.desk.seam import DeskId, Spec
from hotdesk.errors import BriefError

T = TypeVar("T")
BURN_SECONDS = 30.0
SPEC = ("image", "cpus", "memory", "disk", "deadline", "idle", "root")
"""Fields of a spec that a client may set."""


class Client:
    """A connection to a server: `async with Client(url, key) as client:`."""

    def __init__(self, url: str, key: str, *, trust: ssl.SSLContext | None = None) -> None:
        self.line = HttpClient(url, key, trust)
        self.vault = FarVault(self.line)

    async def __aenter__(self) -> Client:
        await self.line.call("GET", "/session")  # report an invalid key at once
        return self

    async def __aexit__(self, *failure: object) -> None:
        return

    # -- desks ------------------------------------------------------------------------------------------------

    async def open(self, spec: Spec | None = None, *, allow: Sequence[str] = ()) -> FarDesk:
        """Open a desk that lasts until it is burnt or its time is up; `allow` lists rules, as in a brief."""
        spec = spec or Spec()
        order = {name: getattr(spec, name) for name in SPEC} | {"env": dict(spec.env), "allow": list(allow)}
        order |= {"wall": spec.wall} if spec.wall != Spec().wall else {}  # every server gives at least the default wall
        reply = await self.line.call("POST", "/desks", order, again=secrets.token_hex(16))
        return FarDesk(self.line, DeskId(reply["id"]))

    @asynccontextmanager
    async def open_desk(self, spec: Spec | None = None, *, allow: Sequence[str] = ()) -> AsyncIterator[FarDesk]:
        """Open a desk for the length of a block."""
        desk = await self.open(spec, allow=allow)
        try:
            yield desk
        finally:
            with anyio.move_on_after(BURN_SECONDS, shield=True):
                await self.burn(desk.id)

    async def find(self, desk: DeskId) -> FarDesk:
        """Return an open desk by id."""
        await self.line.call("GET", f"/desks/{desk}")
        return FarDesk(self.line, desk)

    async def desks(self) -> list[DeskShown]:
        """List open desks."""
        return [read(DeskShown, each) for each in await self.line.list_all("/desks")]

    async def burn(self, desk: DeskId) -> None:
        """Destroy a desk and everything in it. A second call does nothing."""
        await FarDesk(self.line, desk).burn()

    # -- jobs -------------------------------------------------------------------------------------------------

    async def work(
        self,
        brief: str | None = None,
        *,
        template: str | None = None,
        values: Mapping[str, object] | None = None,
        files: Mapping[str, bytes] | None = None,
        models: Sequence[str] = (),
        approve: Literal["auto", "risky", "plan", "every"] | None = None,
        limits: Mapping[str, float] | None = None,
    ) -> Job:
        """Start a job from a brief as TOML, or from a template and its values; `files` are put beside the brief."""
        sent = [{"upload": await self.upload(name, data), "name": name} for name, data in (files or {}).items()]
        order: dict[str, Any] = {"files": sent, "models": list(models), "limits": dict(limits or {})}
        order |= {"brief": brief} if brief is not None else {"template": template, "values": dict(values or {})}
        order |= {"approve": approve} if approve is not None else {}
        return read(Job, await self.line.call("POST", "/jobs", order, again=secrets.token_hex(16)))

    async def upload(self, name: str, data: bytes) -> str:
        """Upload a file for a job; return its id."""
        async with self.line.ask("POST", "/uploads", data, query={"name": name}) as answer:
            return str(json.loads(await answer.read_body())["id"])

    async def jobs(self) -> list[Job]:
        """List jobs, newest first."""
        return [read(Job, each) for each in await self.line.list_all("/jobs")]

    async def job(self, job: str) -> Job:
        """Return a job's state."""
        return read(Job, await self.line.call("GET", f"/jobs/{job}"))

    async def stop(self, job: str) -> Job:
        """Stop a job where it can be resumed."""
        return read(Job, await self.line.call("POST", f"/jobs/{job}/stop"))

    async def resume(
        self, job: str, limits: Mapping[str, float] | None = None, models: Sequence[str] = (), key: str = ""
    ) -> Job:
        """Resume a job."""
        order = {"limits": dict(limits or {}), "models": list(models), **({"key": key} if key else {})}
        return read(Job, await self.line.call("POST", f"/jobs/{job}/resume", order))

    async def allow(self, job: str, rule: str) -> Allowed:
        """Let a job's desks reach more, now and later; the brief's denies and the operator's ceiling still apply."""
        return read(Allowed, await self.line.call("POST", f"/jobs/{job}/allow", {"rule": rule}))

    async def forget(self, job: str) -> None:
        """Delete everything about a job except its journal entries."""
        await self.line.call("DELETE", f"/jobs/{job}")

    async def events(self, job: str = "", *, after: int = 0, follow: bool = True) -> AsyncIterator[Happened]:
        """Yield past events of a job, or of all jobs, then new ones; `after` continues from an event id."""
        query = {"after": after, "follow": str(follow).lower()}
        async with self.line.ask("GET", f"/jobs/{job}/events" if job else "/events", query=query) as answer:
            rest = b""
            async for piece in answer.iterate_pieces():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.startswith(b"data: "):
                        yield read(Happened, json.loads(line[6:]))

    async def wait(self, job: str, *, every: float = 0.5) -> Job:
        """Poll every `every` seconds until a job has ended, has stopped, or waits for a person; return its state."""
        current = await self.job(job)
        while current.state in ("starting", "running"):
            await anyio.sleep(every)
            current = await self.job(job)
        return current

    # -- approvals --------------------------------------------------------------------------------------------

    async def approvals(self) -> list[Approval]:
        """List the pending approvals."""
        return [read(Approval, each) for each in await self.line.list_all("/approvals")]

    async def approve(self, approval: Approval, *, plan: str = "") -> None:
        """Approve exactly what was shown; `plan` approves an edited plan."""
        more = {"answer": "edit", "plan": plan} if plan else {"answer": "approve"}
        await self.line.call("POST", f"/approvals/{approval.id}", {"digest": approval.digest, **more})

    async def refuse(self, approval: Approval, why: str = "") -> None:
        """Refuse an approval."""
        decision = {"digest": approval.digest, "answer": "refuse", "words": why}
        await self.line.call("POST", f"/approvals/{approval.id}", decision)

    async def answer(self, approval: Approval, words: str) -> None:
        decision = {"digest": approval.digest, "answer": "answer", "words": words}
        await self.line.call("POST", f"/approvals/{approval.id}", decision)

    # -- drive ------------------------------------------------------------------------------------------------

    async def ls(self, prefix: str = "") -> list[Kept]:
        """List names in the drive, each with its newest version."""
        return [read(Kept, each) for each in await self.line.list_all("/drive", prefix=prefix)]

    async def get(self, name: str) -> bytes:
        """Return the file stored under NAME or NAME@VERSION."""
        async with self.line.ask("GET", f"/drive/{check_name(name)}") as answer:
            return await answer.read_body()

    async def certificate(self, name: str) -> Mapping[str, Any]:
        """Return the certificate of the file stored under a name."""
        found: Mapping[str, Any] = await self.line.call("GET", f"/drive/{check_name(name)}", query={"certificate": 1})
        return found

    async def put(self, name: str, data: bytes) -> Kept:
        """Store bytes as the next version of a name."""
        async with self.line.ask("PUT", f"/drive/{check_name(name)}", data) as answer:
            return read(Kept, json.loads(await answer.read_body()))

    async def rm(self, name: str) -> None:
        """Remove a name with all its versions, or NAME@VERSION."""
        await self.line.call("DELETE", f"/drive/{check_name(name)}")


def check_name(name: str) -> str:
    """Raise for an invalid drive name."""
    if not name or name.startswith("/"):
        raise BriefError(f"{name[:80]!r} is not a valid drive name; write it like 'reports/june.xlsx'")
    return name
