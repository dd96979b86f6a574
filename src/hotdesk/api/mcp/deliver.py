"""The tool `deliver`: check a file of the desk in a clean desk, and store it in the drive."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

import anyio

from hotdesk.api.mcp.results import ToolAnswer
from hotdesk.brief.brief import Deliverable, RequiredCheck
from hotdesk.checks import find
from hotdesk.checks.required import list_checks
from hotdesk.checks.seam import Check
from hotdesk.checks.verdict_json import StoredVerdict
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk, Spec, new_id
from hotdesk.drive.catalog import Version
from hotdesk.drive.keep import Drive
from hotdesk.drive.names import check_name
from hotdesk.errors import HostError, ImageError
from hotdesk.event import DriveChanged
from hotdesk.host import Host
from hotdesk.job.verify import CleanDesk, judge_evidence
from hotdesk.tool import Arguments, Observation, Parameter, Tool, get_text

MAX_FILE_BYTES = 64 << 20
"""Maximum bytes of a file that can be delivered."""
MAX_DELIVERIES = 2
"""Files that one tenant delivers at a time: each is in memory until it has been checked and stored."""
ACTIVE = "active-content"
KINDS = frozenset({"xlsx", "docx", "pptx", "pdf", "csv", "json", "png", "zip"})
"""Kinds of files, by their suffix, that have a check of their own."""
_CHECK_TIMEOUT_S = 600.0
"""Seconds a clean desk for checks may last."""
DELIVER = Tool(
    "deliver",
    "Deliver a finished file to the user. A separate, clean desk checks that the file opens and has no active content "
    "such as macros; then the file is stored in the drive, which outlives this desk. Returns the file's name in the "
    "drive, its SHA-256 and what was checked. A file that fails a check is not stored; the result lists its faults.",
    (
        Parameter(
            "path", "text", "path of the file in the desk, relative to the home folder", required=True, longest=4096
        ),
        Parameter("name", "text", "name for the file in the drive; default: its file name", longest=200),
    ),
    {"path": "report.xlsx"},
)


@dataclass(frozen=True, slots=True)
class Delivering:
    """Delivers files for one client."""

    host: Host
    owner: str
    by: str
    free: anyio.Semaphore
    """Admits as many files at a time as the client's tenant may deliver."""

    async def deliver(self, desk: Desk, arguments: Arguments) -> ToolAnswer:
        path = get_text(arguments, "path")
        name = check_name(f"{desk.id}/{get_text(arguments, 'name') or PurePosixPath(path).name}")
        async with self.free:
            return await self.deliver_as(name, desk, path)

    async def deliver_as(self, name: str, desk: Desk, path: str) -> ToolAnswer:
        data = await desk.read(path, limit=MAX_FILE_BYTES)
        verdicts, skipped = await self.verify(_make_deliverable(name), data)
        sha256 = hashlib.sha256(data).hexdigest()
        if not all(each.passed for each in verdicts):
            failing = [each for each in verdicts if not each.passed]
            faults = "\n".join(f"{each.check}: {line}" for each in failing for line in each.findings)
            failed = (
                "The file was not stored because it failed its checks. Correct the faults below and deliver it again."
            )
            return ToolAnswer(failed, Observation(faults, ok=False), ok=False)
        version = await self.keep(name, data, tuple(each.check for each in verdicts))
        lines = [f"Stored as {version.name}@{version.number}, {version.size} bytes, sha256 {sha256}."]
        lines += [f"Checked by {each.check}: {', '.join(each.looked_for)}." for each in verdicts]
        lines += [f"This check could not run: {each}." for each in skipped]
        return ToolAnswer("\n".join(lines))

    async def verify(self, item: Deliverable, data: bytes) -> tuple[list[StoredVerdict], list[str]]:
        """Run every check of a file's type; return the verdicts, and the checks that are not available here."""
        verdicts, skipped = [], []
        for name, expect in list_checks(item, office=True):
            try:
                verdicts.append(await self.look(name, expect, find(name, expect), item, data))
            except ImageError as e:
                if name == ACTIVE:
                    bare = dict(list_checks(item))[ACTIVE]
                    verdicts.append(await self.look(name, bare, find(name, bare), item, data))
                skipped.append(f"{name}: {e}")
        return verdicts, skipped

    async def look(
        self, name: str, expect: Mapping[str, object], check: Check, item: Deliverable, data: bytes
    ) -> StoredVerdict:
        wall = self.host.config.verify_wall or Spec().wall
        spec = Spec(image=check.image, deadline=_CHECK_TIMEOUT_S, idle=_CHECK_TIMEOUT_S, sterile=True, wall=wall)
        async with AsyncExitStack() as stack:
            desk = await stack.enter_async_context(self.host.open_desk(spec))
            usage = await desk.usage()
            place = CleanDesk(desk, stack, check.image, usage.processes, usage.outgoing)
            file = f"deliverable{PurePosixPath(item.path).suffix}"
            await desk.write(file, data)
            evidence = await check.gather(desk, file)
            trouble = evidence.trouble or await place.check_leftovers(check)
            attempts = (
                await place.count_send_attempts() if place.processes else None
            )  # a wall without a count of processes has none of attempts
            evidence = replace(evidence, trouble=trouble, attempts=attempts)
        return (await anyio.to_thread.run_sync(judge_evidence, check, evidence, name, check.image, expect))[1]

    async def keep(self, name: str, data: bytes, checks: tuple[str, ...]) -> Version:
        """Store a file; the change and the checks it passed are written to the journal first."""
        settings = self.host.config
        await self.host.prepare()

        def intent(version: Version) -> None:
            details = (version.sha256, version.size, version.number)
            event = DriveChanged(new_id(), version.name, "put", self.by, *details, checks)
            self.host.note(event)

        drive = Drive(settings.lib / "drive", settings.drive_quota)
        try:
            return await anyio.to_thread.run_sync(partial(drive.keep, name, data, owner=self.owner, intent=intent))
        except OSError as e:
            raise HostError(f"cannot write to the drive: {e.strerror}") from e


def _make_deliverable(name: str) -> Deliverable:
    kind = PurePosixPath(name).suffix.lstrip(".").lower()
    return Deliverable(name, kind, (RequiredCheck(kind if kind in KINDS else ACTIVE),))
