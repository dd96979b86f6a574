"""Parts that a job and a swarm on this terminal share: questions, copying results out, changed limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import anyio

from hotdesk.cli.job_request import JobRequest, say, survey_walls
from hotdesk.cli.prompt import PromptOutcome, ask
from hotdesk.config import Config
from hotdesk.drive.certificate import SUFFIX
from hotdesk.drive.identity import OPERATOR, describe_actor
from hotdesk.drive.keep import Drive
from hotdesk.errors import unwrap_group
from hotdesk.event import Decided, Pending
from hotdesk.job.people.wait import Card, decide
from hotdesk.job.record import papers
from hotdesk.job.results import Out
from hotdesk.work import JobContext

UNDONE = 1
"""Exit code of a job whose work or check failed."""
_TICK_INTERVAL_S = 0.5
_ANSWERS = {"approve": "approved", "refuse": "refused", "answer": "answered"}


class TickingBoard(Protocol):
    """Shows a job on a terminal."""

    def tick(self) -> None:
        """Update the displayed time."""
        ...

    def aside(self) -> AbstractContextManager[None]:
        """Leave the terminal to a prompt while the block runs."""
        ...


async def run_beside_board(work: Callable[[], Awaitable[Any]], board: TickingBoard) -> Any:
    """Run `work` while a board shows the passing time; return its result."""

    async def tick() -> None:
        while True:
            await anyio.sleep(_TICK_INTERVAL_S)
            board.tick()

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tick)
            result = await work()
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as e:
        raise unwrap_group(e) from None
    return result


async def ask_here(
    settings: Config, terminal: int | None, board: TickingBoard | None, pending: Pending, card: Card, **options: Any
) -> Decided | None:
    """Ask the person at the terminal; return `None` without a terminal or an answer."""
    if terminal is None or board is None:
        return None
    with board.aside():
        outcome: PromptOutcome = await ask(terminal, card, pending, **options)
    if outcome.answer not in _ANSWERS:
        return None
    folder = papers.find(settings.lib / "jobs", pending.job)
    return decide(pending, card, folder, _ANSWERS[outcome.answer], f"{describe_actor()} here", words=outcome.words)


def halt(order: JobContext | None, job: str, what: str) -> None:
    """Ask a job to stop where it can be resumed, and print what happens next."""
    if order is None or order.log is None:
        say("hotdesk: the job has not started yet; a second Ctrl-C ends it")
        return
    order.log.halt()
    say(f"hotdesk: {what}; `hotdesk resume {job}` continues it", "hotdesk: a second Ctrl-C burns its desks at once")


def copy_out(drive: Drive, job: str, name: str, out: Out) -> tuple[str, str]:
    """Copy a file out of the drive, with its certificate if it has one; return both paths."""
    version = drive.get_version(f"{job}/{name}", who=OPERATOR)
    is_stored = partial(drive.holds, who=OPERATOR)
    path = str(out.copy(name, drive.blobs.read(version.sha256, version.size), is_stored))
    if not version.certificate:
        return path, ""
    return path, str(out.copy(name + SUFFIX, [drive.read_certificate(version)], is_stored))


def change_limits(settings: Config, request: JobRequest, limits: dict[str, Any]) -> JobRequest:
    """Return the request with the given limits changed. The weakest allowed wall can only become stronger."""
    changed = {name: value for name, value in limits.items() if value is not None}
    if wall := survey_walls(settings).choose(request.limits.get("wall") or "", changed.get("wall", "")):
        changed["wall"] = wall
    return replace(request, limits={**request.limits, **changed})
