"""Requests of desks at their doors: lists those of every owner process in a state directory, and answers one."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio

from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.owner.remote import NoOwnerError, remote_runtime
from hotdesk.errors import BriefError, HostError, HotdeskError, make_printable
from hotdesk.event import Asked

_OWNER_TIMEOUT_S = 5.0
"""Seconds one owner may take to reply, so that it does not delay the questions of others."""
_Complain = Callable[[Path, str], None]


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """A request at a door and the control socket of the process that owns the desk."""

    owner: Path
    question: Asked


def tell_nobody(owner: Path, why: str) -> None:
    """Ignore the failure of an owner."""


async def ask_all_owners(settings: Config, complain: _Complain = tell_nobody) -> list[PendingQuestion]:
    found: list[PendingQuestion] = []
    for path in _list_owners(settings):
        with suppress(NoOwnerError):  # a process that died without removing its socket
            found += [PendingQuestion(path, question) for question in await _ask_owner(path, complain)]
    return sorted(found, key=lambda each: each.question.seconds)


def _list_owners(settings: Config) -> list[Path]:
    """List the control sockets, each once and without symbolic links. An owner answers only its own user and root.

    A holder's socket has a second name, a hard link.
    """
    folder = settings.run / "control"
    if os.geteuid() != 0 and not (folder.is_dir() and folder.stat().st_uid == os.geteuid()):
        raise HostError(
            "Only root may decide requests of this machine's desks and jobs: use sudo, or the server's page with a key."
        )
    found: dict[tuple[int, int], Path] = {}
    for path in sorted(folder.glob("*.sock")):
        with suppress(FileNotFoundError):  # its owner has ended
            state = path.lstat()
            if stat.S_ISSOCK(state.st_mode):
                found.setdefault((state.st_dev, state.st_ino), path)
    return list(found.values())


async def _ask_owner(path: Path, complain: _Complain = tell_nobody) -> list[Asked]:
    """Return the pending requests of one owner. If it does not reply or fails, complain and return none."""
    try:
        with anyio.fail_after(_OWNER_TIMEOUT_S):
            async with remote_runtime(path) as owner:
                return await owner.list_questions()
    except NoOwnerError:
        raise
    except (HotdeskError, TimeoutError) as e:
        complain(path, str(e) or "no reply")
        return []


def select_question(found: list[PendingQuestion], number: str, digest: str = "") -> PendingQuestion:
    matching = [each for each in found if each.question.id == number and each.question.digest.startswith(digest)]
    if not matching:
        raise BriefError(f"no request {number!r} is pending; `hotdesk approve` lists pending requests")
    if len(matching) > 1:
        desks = ", ".join(sorted({repr(make_printable(each.question.desk[:64])) for each in matching}))
        raise BriefError(
            f"more than one request has the id {number}, although ids are unique, so one of the desks that sent them "
            f"may be hostile; end the desks with `hotdesk burn`: {desks}"
        )
    return matching[0]


async def answer(waiting: PendingQuestion, approved: bool, behind: str = "") -> Asked:
    """Answer a request at its owner; `behind` names the person on whose behalf it is answered."""
    async with remote_runtime(waiting.owner) as owner:
        return await owner.answer(waiting.question, approved, behind)
