"""Routes of desks: open, use, pause, snapshot, burn."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field

from hotdesk.api.native.access.auth import ForDesks, RequestContext
from hotdesk.api.native.desks.egress_limits import require_public
from hotdesk.api.native.desks.images import require_template
from hotdesk.api.native.problems import ProblemError, document_errors
from hotdesk.api.native.schema import After, DeskName, IdempotencyKey, Limit, Model, Page, clean, paginate
from hotdesk.api.scopes import run_in_thread
from hotdesk.brief.data import CLOSED
from hotdesk.config import GIB, parse_size
from hotdesk.desk.owner.remote import NoOwnerError, RemoteRuntime, remote_runtime
from hotdesk.desk.seam import Desk, DeskId, Done, SnapshotId, Spec
from hotdesk.door.policy.scope import scope_of
from hotdesk.errors import DeskGone, HotdeskError
from hotdesk.host import Host
from hotdesk.walls import read_proof

router = APIRouter(prefix="/desks", tags=["desks"], responses=document_errors(409, 502, 507))
STOPPED = ("paused", "halting", "halted")
SHOWN = ("open", "starting", *STOPPED)
"""States of desks with an owner: a ready desk, or one that is opened to be ready, has none yet."""
ALLOW = "Egress rules, such as `GET https://erp.example.test/*`."
FACTS = ("id", "image", "state", "opened", "deadline", "cpus", "memory")
_MIN_LIFETIME_S = 10.0
"""Minimum lifetime of a desk in seconds: with a small share of a processor, opening it takes a few of them."""
OUTPUT = 1 << 20
"""Bytes of each output stream that a response holds."""
Text = Annotated[str, Field(max_length=1 << 16, pattern="^[^\\x00]*$")]
Size = Annotated[str, Field(pattern="^[0-9]{1,15}(\\.[0-9]{1,3})?([KMGT](i?B)?)?$", examples=["2G"])]
Snapshot = Annotated[str, Field(pattern="^[a-z0-9-]{1,64}$")]


class DeskOrder(Model):
    """The desk to open. A client cannot map host names, grant secrets or name paths of the host."""

    image: Annotated[str, Field(pattern="^[a-z0-9][a-z0-9._-]{0,63}$")] = "base"
    cpus: Annotated[float, Field(ge=0.01, le=1024)] = 2.0
    memory: Size | Annotated[int, Field(ge=1 << 24, le=1 << 50)] = 2 * GIB
    disk: Size | Annotated[int, Field(ge=1 << 20, le=1 << 50)] = 16 * GIB
    deadline: Annotated[
        float, Field(ge=_MIN_LIFETIME_S, le=86400, description="Seconds until the desk is burnt, even if it is in use.")
    ] = 3600
    idle: Annotated[
        float,
        Field(ge=_MIN_LIFETIME_S, le=86400, description="Seconds without a request after which the desk is burnt."),
    ] = 900
    env: Annotated[dict[str, str], Field(max_length=200, default_factory=dict)]
    allow: Annotated[list[Text], Field(max_length=200, default_factory=list, description=ALLOW)]
    root: Annotated[bool, Field(description="Whether programs inside may run as root.")] = False
    wall: Annotated[
        Literal["", "container", "gvisor", "microvm"],
        Field(
            description="The weakest acceptable wall (isolation); the operator may require a stronger one. "
            "Empty: the operator's default."
        ),
    ] = ""


class DeskShown(Model):
    """An open desk."""

    id: str
    image: str
    state: str
    opened: float
    deadline: float
    cpus: float
    memory: int
    job: str = Field(description="The job that uses the desk; empty: none.")
    wall: str = Field(description="The wall (isolation) of the desk, verified before the desk was handed out.")
    kernel: str = Field(
        description="The kernel that handles system calls of the desk's programs: `host` (the machine's), `sentry` "
        "(gVisor's, in user space) or `own` (a microVM's)."
    )
    boundary: bool = Field(description="Whether the vendor of the wall documents it as an isolation boundary.")
    wall_version: str = Field(description="The program that implements the wall, with its version.")
    platform: str = Field(
        description="The platform of that program, such as `systrap` or `kvm`; empty: it has only one."
    )
    node: str = Field(default="", description="The node that has the desk; empty: the server's own machine.")
    screen: bool = Field(description="Whether the desk's image has a screen; true if the image was removed.")


class RunOrder(Model):
    """A program to run to its end."""

    argv: Annotated[list[Text], Field(min_length=1, max_length=1000)]
    stdin: Annotated[str, Field(max_length=1 << 22)] = ""
    env: Annotated[dict[str, str], Field(max_length=200, default_factory=dict)]
    cwd: Text | None = None
    user: Literal["user", "root"] | None = None
    timeout: Annotated[float, Field(gt=0, le=3600)] = 60.0
    encoding: Annotated[Literal["text", "base64"], Field(description="The encoding of `stdin` and output.")] = "text"


class Ended(Model):
    """How a program ended, with its output. A failed program is a result, not an error."""

    exit_code: int
    stdout: str
    stderr: str
    timed_out: bool
    truncated: bool
    signal: int | None
    out_of_memory: bool
    reason: str


class UsageShown(Model):
    """The resource usage of a desk."""

    cpu: float
    memory: int
    disk: int
    pids: int
    oom_kills: int
    processes: int
    outgoing: int


class SnapshotShown(Model):
    """A snapshot of a desk's files."""

    snapshot: str


class RollbackOrder(Model):
    """The snapshot to roll back to."""

    snapshot: Snapshot


class ForkOrder(Model):
    """How many copies of the desk to open, and with which files."""

    count: Annotated[int, Field(ge=1, le=16)] = 1
    snapshot: Snapshot | None = None


@router.get("", summary="Open desks")
async def list_desks(context: ForDesks, limit: Limit = 100, after: After = "") -> Page[DeskShown]:
    """List the tenant's desks, including those of jobs and sandboxes, the oldest first."""
    some, more = paginate(await load_desks(context), lambda each: each.id, limit, after)
    return Page(items=some, next=more)


@router.post("", status_code=201, summary="Open a desk")
async def open_desk(context: ForDesks, order: DeskOrder, again: IdempotencyKey = None) -> DeskShown:
    """Open a desk that stays until it is burnt or reaches its deadline."""
    return await context.run_once("desks", again, order, lambda: _create_desk(context, order))


async def _create_desk(context: RequestContext, order: DeskOrder) -> DeskShown:
    require_template(order.image)
    spec = Spec(
        image=order.image, cpus=order.cpus, memory=_count_bytes(order.memory), disk=_count_bytes(order.disk),
        env=order.env, deadline=order.deadline, idle=order.idle, root=order.root, by=context.by,
        wall=order.wall or Spec().wall,
    )  # fmt: skip
    scope = await run_in_thread(scope_of, order.allow) if order.allow else CLOSED
    require_public(scope.rules)
    desk = await context.tenant.host.open(spec, scope)
    if context.by_page:
        context.tenant.host.mark_personal(desk.id)
    return await require_desk(context, desk.id)


@router.get("/{desk}", summary="One desk")
async def get_desk(context: ForDesks, desk: DeskName) -> DeskShown:
    """Return the state of a desk."""
    return await require_desk(context, desk)


@router.delete("/{desk}", status_code=204, summary="Burn a desk")
async def burn_desk(context: ForDesks, desk: DeskName) -> None:
    """Burn a desk: end it and destroy everything in it."""
    await require_desk(context, desk)
    await burn(context, DeskId(desk))


@router.get("/{desk}/usage", summary="Resource usage of a desk")
async def usage(context: ForDesks, desk: DeskName) -> UsageShown:
    """Return the resource usage of a desk, as its keeper measures it."""
    async with find_desk(context, desk, stopped=True) as found:
        return UsageShown(**asdict(await found.usage()))


@router.post("/{desk}/run", summary="Run a program")
async def run(context: ForDesks, desk: DeskName, order: RunOrder) -> Ended:
    """Run a program to its end. A program that does not exist ends with exit code 127."""
    stdin = order.stdin.encode() if order.encoding == "text" else decode_base64(order.stdin)
    async with find_desk(context, desk) as found:
        done = await found.run(order.argv, stdin=stdin, env=order.env, cwd=order.cwd, user=order.user,
                               timeout=order.timeout, output_limit=OUTPUT)  # fmt: skip
    return _describe_exit(done, order.encoding)


@router.post("/{desk}/pause", status_code=204, summary="Pause a desk")
async def pause(context: ForDesks, desk: DeskName) -> None:
    """Suspend every program of a desk. Pausing a paused desk is no error."""
    async with find_desk(context, desk, stopped=True) as found:
        await found.pause()


@router.post("/{desk}/resume", status_code=204, summary="Resume a desk")
async def resume(context: ForDesks, desk: DeskName) -> None:
    """Resume the programs of a paused desk."""
    async with find_desk(context, desk, stopped=True) as found:
        await found.resume()


@router.post("/{desk}/snapshots", status_code=201, summary="Take a snapshot of a desk's files")
async def snapshot(context: ForDesks, desk: DeskName) -> SnapshotShown:
    """Take a snapshot of a desk's files. It lasts as long as the desk."""
    async with find_desk(context, desk) as found:
        return SnapshotShown(snapshot=await found.snapshot())


@router.post("/{desk}/rollback", status_code=204, summary="Roll back to a snapshot")
async def rollback(context: ForDesks, desk: DeskName, order: RollbackOrder) -> None:
    """Roll a desk's files back to a snapshot. Every program in it ends."""
    async with find_desk(context, desk) as found:
        await found.rollback(SnapshotId(order.snapshot))


@router.post("/{desk}/fork", status_code=201, summary="Open desks with the same files")
async def fork(context: ForDesks, desk: DeskName, order: ForkOrder) -> Page[DeskShown]:
    """Open copies of a desk with its files, or with those of a snapshot."""
    async with find_desk(context, desk) as found:
        source = SnapshotId(order.snapshot) if order.snapshot else None
        forks = await context.tenant.host.fork(found, order.count, source)
    return Page(items=[await require_desk(context, each.id) for each in forks])


async def load_desks(context: RequestContext) -> list[DeskShown]:
    summaries = (await context.ledger.read_summaries()).values()
    jobs = {desk: summary.job for summary in summaries for desk in summary.desks if not summary.ended}
    host = context.tenant.host
    found = [record for record in await host.list_desks() if record["state"] in SHOWN]
    screens = {image: has_screen(host, image) for image in {str(record.get("image")) for record in found}}
    return [as_shown(each, jobs.get(str(each["id"]), ""), screens[str(each.get("image"))]) for each in found]


async def require_desk(context: RequestContext, desk: str) -> DeskShown:
    """Return one of the tenant's desks; `DeskGone` for another tenant's, as for an unknown one."""
    for each in await load_desks(context):
        if each.id == desk:
            return each
    raise DeskGone(f"desk {desk} is not open; GET /desks lists open desks")


def has_screen(host: Host, image: str) -> bool:
    try:
        return host.has_screen(image)
    except HotdeskError:  # the image was removed, renamed or damaged since the desk was opened
        return True


def as_shown(record: dict[str, object], job: str, screen: bool) -> DeskShown:
    proof = read_proof(record)
    walls = {"wall": proof.wall, "kernel": proof.kernel, "boundary": proof.is_boundary}
    walls |= {"wall_version": proof.version, "platform": proof.platform}
    facts = {name: record.get(name, 0) for name in FACTS} | {"screen": screen}
    return DeskShown.model_validate({**facts, **walls, "job": job, "node": record.get("node", "")}, strict=False)


def _count_bytes(size: str | int) -> int:
    return parse_size(size) if isinstance(size, str) else size


@asynccontextmanager
async def connect_to_owner(context: RequestContext, desk: DeskId) -> AsyncIterator[RemoteRuntime]:
    """Yield the runtime of the process that owns a desk; `DeskGone` if that process has just ended."""
    try:
        async with remote_runtime(await context.tenant.host.find_owner(desk)) as owner:
            yield owner
    except NoOwnerError:
        raise DeskGone(
            f"desk {desk} is gone, because the process that owned it ended; GET /desks lists open desks"
        ) from None


async def burn(context: RequestContext, desk: DeskId) -> None:
    """Burn one of the tenant's desks where it is owned: here, or in the process of a job or a command."""
    try:
        await context.tenant.host.runtime.find(desk)
    except DeskGone:
        async with connect_to_owner(context, desk) as owner:
            await owner.burn(desk)
    else:
        await context.tenant.host.burn(desk)


@asynccontextmanager
async def find_desk(context: RequestContext, name: str, *, stopped: bool = False) -> AsyncIterator[Desk]:
    """Yield one of the tenant's desks, whichever process owns it; with `stopped` it may be paused."""
    status = await require_desk(context, name)
    if status.state in STOPPED and not stopped:
        raise ProblemError(409, "desk.paused", f"desk {name} is paused; POST /desks/{name}/resume resumes it")
    try:
        own = await context.tenant.host.runtime.find(DeskId(name))
    except DeskGone:
        own = None
    if own is not None:
        yield own
        return
    async with connect_to_owner(context, DeskId(name)) as owner:
        yield await owner.find(DeskId(name))


def _describe_exit(done: Done, encoding: str) -> Ended:
    write = (lambda data: base64.b64encode(data).decode()) if encoding == "base64" else as_text
    return Ended(exit_code=done.exit_code, stdout=write(done.stdout), stderr=write(done.stderr), signal=done.signal,
                 timed_out=done.timed_out, truncated=done.truncated, out_of_memory=done.out_of_memory,
                 reason=clean(done.reason))  # fmt: skip


def as_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ProblemError(
            422, "request.invalid", 'stdin is not valid base64; encode it, or send `encoding` "text"'
        ) from None
