"""Tests of questions at a control socket: who may see them, and who may answer."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from hotdesk.desk.owner.control import ControlServer, serve_control
from hotdesk.desk.owner.remote import NoOwnerError, RemoteRuntime, as_question, remote_runtime
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import DeskId
from hotdesk.errors import BriefError, KeeperError
from hotdesk.event import Asked
from hotdesk.ipc.tasks import background

pytestmark = pytest.mark.anyio
ASKED = Asked("i" + "a1b2" * 5, "1a2b3c4d", "f0" * 32, "GET a.test/x", "GET", "a.test", "/x", 41.0, "please")
NO_DESKS = cast(KeeperRuntime, SimpleNamespace(calls=0, served=0))


@dataclass
class Scripted:
    """Has one question, and records the answers."""

    answers: list[tuple[str, bool, str, str]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    allowed: list[tuple[str, list[str], str]] = field(default_factory=list)

    def open_questions(self) -> list[Asked]:
        return [ASKED]

    async def answer(self, number: str, approved: bool, by: str, digest: str) -> Asked:
        self.answers.append((number, approved, by, digest))
        return ASKED

    async def unlock(self, root: str) -> None:
        self.keys.append(root)

    async def allow(self, desk: DeskId, rules: Sequence[str], by: str) -> None:
        self.allowed.append((desk, list(rules), by))


@pytest.fixture
def scripted() -> Scripted:
    return Scripted()


@pytest.fixture
async def owner(scripted: Scripted, tmp_path: Path) -> AsyncIterator[RemoteRuntime]:
    async with (
        serve_control(NO_DESKS, tmp_path / "owner.sock", lambda: scripted),
        remote_runtime(tmp_path / "owner.sock") as far,
    ):
        yield far


async def test_questions_are_listed_as_they_are(owner: RemoteRuntime) -> None:
    assert await owner.list_questions() == [ASKED]


@pytest.mark.parametrize("approved", [True, False])
async def test_an_answer_is_attributed_by_the_kernel_and_bound_to_the_question(
    owner: RemoteRuntime, scripted: Scripted, approved: bool
) -> None:
    assert await owner.answer(ASKED, approved) == ASKED
    assert scripted.answers == [("1a2b3c4d", approved, f"uid {os.geteuid()} pid {os.getpid()}", ASKED.digest)]


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"approved": True},
        {"approved": True, "digest": ""},
        {"approved": 1, "digest": "f0"},
        {"approved": "yes", "digest": "f0"},
        {"approved": True, "digest": "f0", "by": "uid 0 pid 1"},
        {"approved": True, "digest": "f0", "behind": "anna\nuid 0 pid 1"},
    ],
)
async def test_an_answer_without_an_exact_question_is_invalid(
    owner: RemoteRuntime, scripted: Scripted, body: object
) -> None:
    with pytest.raises(BriefError):
        await owner.call("POST", "/questions/1a2b3c4d", body)
    assert scripted.answers == []


async def test_a_key_reaches_the_vault(owner: RemoteRuntime, scripted: Scripted) -> None:
    await owner.unlock("a2V5")
    assert scripted.keys == ["a2V5"]
    with pytest.raises(BriefError):
        await owner.call("POST", "/unlock", {"root": 1})


async def test_an_extra_rule_is_attributed_to_the_kernels_user_and_the_stated_person(
    owner: RemoteRuntime, scripted: Scripted
) -> None:
    await owner.call("POST", f"/allow/{ASKED.desk}", {"rule": "GET a.test/x", "behind": "anna"})
    assert scripted.allowed == [(ASKED.desk, ["GET a.test/x"], f"uid {os.geteuid()} pid {os.getpid()} for anna")]


@pytest.mark.parametrize("body", [None, {}, {"rule": 1}, {"rule": "GET a.test/x", "by": "uid 0 pid 1"}])
async def test_an_invalid_rule_allows_nothing(owner: RemoteRuntime, scripted: Scripted, body: object) -> None:
    with pytest.raises(BriefError):
        await owner.call("POST", f"/allow/{ASKED.desk}", body)
    assert scripted.allowed == []


@pytest.mark.parametrize(
    ("method", "target"),
    [("POST", "/questions"), ("GET", "/questions/1a2b3c4d"), ("GET", "/unlock"), ("GET", "/q")],
)
async def test_other_routes_do_not_exist(owner: RemoteRuntime, method: str, target: str) -> None:
    with pytest.raises(BriefError, match="does not have this path"):
        await owner.call(method, target)


@pytest.mark.parametrize("parts", [["questions"], ["questions", "1a2b3c4d"], ["unlock"], ["allow", ASKED.desk]])
async def test_another_user_of_the_socket_may_neither_see_nor_answer_questions(
    scripted: Scripted, parts: list[str]
) -> None:
    body = json.dumps({"approved": True, "digest": ASKED.digest}).encode()
    async with background() as tasks:
        control = ControlServer(NO_DESKS, tasks, everyone=True, asks=lambda: scripted)
        for method in ("GET", "POST"):
            with pytest.raises(BriefError, match="user id 4711 may not decide requests"):
                await control.decide(method, parts, body, 1, 4711)
    assert scripted.answers == []
    assert scripted.keys == []


async def test_an_owner_without_a_door_has_no_questions(tmp_path: Path) -> None:
    async with serve_control(NO_DESKS, tmp_path / "owner.sock"), remote_runtime(tmp_path / "owner.sock") as far:
        with pytest.raises(BriefError):
            await far.list_questions()


async def test_a_dead_owners_socket_is_reported(tmp_path: Path) -> None:
    async with remote_runtime(tmp_path / "gone.sock") as far:
        with pytest.raises(NoOwnerError):
            await far.list_questions()


@pytest.mark.parametrize(
    "told", [None, {}, {"desk": "x"}, {**asdict(ASKED), "seconds": "41"}, {**asdict(ASKED), "by": "x"}]
)
def test_a_malformed_question_is_refused(told: object) -> None:
    with pytest.raises(KeeperError):
        as_question(told)


@pytest.mark.parametrize("number", ["", "../desks", "a b", "é1"])
def test_an_id_is_letters_and_digits(number: str) -> None:
    with pytest.raises(KeeperError):
        as_question({**asdict(ASKED), "id": number})
