"""Checks a plan's requirements before approval: hosts resolve, secrets and tools exist, inputs are readable."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TypeAlias

import anyio
import anyio.to_thread

from hotdesk.brain.permits import compile_scope, list_reachable_rules, matches, select_grants
from hotdesk.brief import Scope
from hotdesk.brief.brief import DRIVE, ITEM, Brief
from hotdesk.brief.names import is_address
from hotdesk.dataclass import dataclass
from hotdesk.drive.identity import get_current_user
from hotdesk.drive.keep import Drive
from hotdesk.drive.names import parse_reference
from hotdesk.errors import BriefError, HotdeskError, make_printable
from hotdesk.plan import Plan
from hotdesk.tool import Tool

_PREFLIGHT_TIMEOUT_S = 10.0
"""Seconds each group of checks may take; the groups run at the same time."""
AT_ONCE = 8
"""Number of host names that are resolved in parallel."""
MAX_NAMES = 64
MAX_FILES = 10_000
"""Maximum files of one input that are opened."""
MAX_LINE_CHARS = 300
Try: TypeAlias = Callable[[Scope], Awaitable[Sequence[str]]]
"""Returns for each grant of a scope why it is unavailable, or `""` if it is available."""
_LookUp: TypeAlias = Callable[[str], object]
"""Resolves a host name, or raises `OSError`. It may block."""


@dataclass(slots=True)
class Findings:
    """The requirements that passed and those that failed, one short line each."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def tell(self, what: str, why: str = "") -> None:
        """Add one result; `why` is empty if the requirement is met."""
        (self.failed if why else self.passed).append(make_printable(f"{what}: {why}" if why else what)[:MAX_LINE_CHARS])


def look_up(name: str) -> object:
    return socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)


async def run_preflight(
    plan: Plan,
    job: Brief,
    tools: Sequence[Tool],
    try_grants: Try,
    names: Mapping[str, str] | None = None,
    *,
    drive: Path | None = None,
    find: _LookUp = look_up,
    seconds: float = _PREFLIGHT_TIMEOUT_S,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Check what a plan needs; return what passed and what failed, without secret values or file contents.

    `names` is the operator's map of host names, which are not resolved. `drive` is the folder of the drive.
    """
    found = Findings()
    leads = {**job.scope.names, **(names or {})}
    _try_tools(plan, tools, found)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_try_names, _list_hosts(plan, job.scope), leads, find, seconds, found)
        tasks.start_soon(_try_secrets, compile_scope(plan, job.scope), try_grants, seconds, found)
        for name in job.inputs:
            if name.startswith(DRIVE):
                _try_kept(drive, name, found)
            elif not name.startswith(ITEM):  # items were already read when they were listed
                tasks.start_soon(_try_input, job.folder, name, seconds, found)
    return tuple(sorted(found.passed)), tuple(sorted(found.failed))


def _try_tools(plan: Plan, tools: Sequence[Tool], found: Findings) -> None:
    for pattern in dict.fromkeys(each for step in plan.steps for each in step.tools or ()):
        there = any(matches(each.name, (pattern,)) for each in tools)
        found.tell(f"tool {pattern}", "" if there else "no tool of the desk has this name")


def _list_hosts(plan: Plan, scope: Scope) -> tuple[str, ...]:
    """List the distinct host names a plan connects to, without patterns and addresses."""
    rules = [rule.host for step in plan.steps for rule in list_reachable_rules(step, scope)]
    grants = [each.host for step in plan.steps for each in select_grants(step, scope)]
    return tuple(dict.fromkeys(host for host in (*rules, *grants) if "*" not in host and not is_address(host)))


async def _try_names(
    hosts: Sequence[str], leads: Mapping[str, str], find: _LookUp, seconds: float, found: Findings
) -> None:
    """Resolve host names in parallel; one without a result after `seconds` has failed."""
    limit = anyio.CapacityLimiter(AT_ONCE)
    unresolved = dict.fromkeys(hosts[:MAX_NAMES])

    async def look(host: str) -> None:
        why = await anyio.to_thread.run_sync(_check_address, find, host, limiter=limit, abandon_on_cancel=True)
        del unresolved[host]
        found.tell(f"host {host}", why)

    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as tasks:
            for host in list(unresolved):
                if host in leads:
                    del unresolved[host]
                    found.tell(f"host {host} maps to {leads[host]}")
                else:
                    tasks.start_soon(look, host)
    for host in unresolved:
        found.tell(f"host {host}", f"no reply within {seconds:g} s")
    if len(hosts) > MAX_NAMES:
        found.tell(f"{len(hosts) - MAX_NAMES} more hosts", "not checked")


def _check_address(find: _LookUp, host: str) -> str:
    """Explain why a host name does not resolve; return `""` if it does."""
    try:
        find(host)
    except (OSError, UnicodeError) as e:
        return f"the name has no address: {e.strerror if isinstance(e, OSError) and e.strerror else type(e).__name__}"
    return ""


async def _try_secrets(scope: Scope, try_grants: Try, seconds: float, found: Findings) -> None:
    grants = tuple(dict.fromkeys(replace(each, step="") for each in scope.grants))
    if not grants:
        return
    whys: Sequence[str] = [f"the process that holds the secrets did not reply within {seconds:g} s"] * len(grants)
    with anyio.move_on_after(seconds):
        try:
            whys = await try_grants(Scope(grants=grants))
        except HotdeskError as e:
            whys = [str(e)] * len(grants)
    for each, why in zip(grants, whys, strict=True):
        found.tell(f"secret {each.secret} for {each.host}", why)


async def _try_input(folder: Path, name: str, seconds: float, found: Findings) -> None:
    why = f"not read within {seconds:g} s"
    what = f"input {name}"
    with anyio.move_on_after(seconds):
        try:
            files, size = await anyio.to_thread.run_sync(_open_files, folder / name, abandon_on_cancel=True)
            what, why = f"input {name}, {files:,} {'file' if files == 1 else 'files'}, {size:,} bytes", ""
        except OSError as e:
            why = f"{Path(e.filename).name if isinstance(e.filename, str) else name} cannot be read: {e.strerror}"
    found.tell(what, why)


def _try_kept(drive: Path | None, name: str, found: Findings) -> None:
    what = f"input {name}"
    try:
        if drive is None:
            raise BriefError("the drive of this machine is empty; add the file with `hotdesk drive put`")
        label, version = parse_reference(name.removeprefix(DRIVE))
        stored = Drive(drive).get_version(label, version, who=get_current_user())
        found.tell(f"{what}, version {stored.number}, {stored.size:,} bytes")
    except HotdeskError as e:
        found.tell(what, str(e))


def _open_files(path: Path) -> tuple[int, int]:
    """Open every file of an input for reading; return the number of regular files and their bytes."""
    files = size = 0
    for each in _iterate_paths(path):
        fd = os.open(each, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(fd)
        finally:
            os.close(fd)
        if stat.S_ISREG(status.st_mode):
            files, size = files + 1, size + status.st_size
        if files >= MAX_FILES:
            break
    return files, size


def _iterate_paths(path: Path) -> Iterator[str]:
    if not path.is_dir():
        yield str(path)
        return
    for folder, _, names in os.walk(path, onerror=_raise_error):
        yield from (each for each in (os.path.join(folder, name) for name in names) if os.path.isfile(each))


def _raise_error(failure: OSError) -> None:
    raise failure
