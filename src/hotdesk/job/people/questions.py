"""Requests of desks at their doors: list those of every owner of a state directory, and answer one."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio

from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.owner.remote import NoOwnerError, remote_runtime
from hotdesk.errors import BriefError, HostError, HotdeskError
from hotdesk.event import Asked

_OWNER_TIMEOUT_S = 5.0
"""How long one owner may take to say what waits: others have questions, too."""
_Complain = Callable[[Path, str], None]


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """A question and the owner that holds it."""

    owner: Path
    question: Asked


def tell_nobody(owner: Path, why: str) -> None:
    """Tell no one."""


async def ask_all_owners(settings: Config, complain: _Complain = tell_nobody) -> list[PendingQuestion]:
    found: list[PendingQuestion] = []
    for path in _list_owners(settings):
        with suppress(NoOwnerError):  # it died, and its socket was not cleared up
            found += [PendingQuestion(path, question) for question in await _ask_owner(path, complain)]
    return sorted(found, key=lambda each: each.question.seconds)


def _list_owners(settings: Config) -> list[Path]:
    """List the control sockets, each once. An owner answers only its own user and root."""
    folder = settings.run / "control"
    if os.geteuid() != 0 and not (folder.is_dir() and folder.stat().st_uid == os.geteuid()):
        raise HostError(
            "Only root may decide requests of this machine's desks and jobs: use sudo, or the server's page with a key."
        )
    return sorted(path for path in folder.glob("*.sock") if not path.is_symlink())


async def _ask_owner(path: Path, complain: _Complain = tell_nobody) -> list[Asked]:
    """Ask one owner; one that is stopped or strange does not keep the others' from being seen."""
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
        raise BriefError(
            f"several desks show a request {number}, so one of them is not to be trusted: burn them with `hotdesk burn`"
        )
    return matching[0]


async def answer(waiting: PendingQuestion, approved: bool, behind: str = "") -> Asked:
    """Answer a question at its owner; `behind`: on whose behalf."""
    async with remote_runtime(waiting.owner) as owner:
        return await owner.answer(waiting.question, approved, behind)
