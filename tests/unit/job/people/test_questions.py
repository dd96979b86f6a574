"""Tests of the requests of desks: every owner process is found once, under whatever names its socket has."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from hotdesk.config import Config
from hotdesk.desk.owner.control import serve_control
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.event import Asked
from hotdesk.job.people.questions import ask_all_owners, select_question

pytestmark = pytest.mark.anyio
ASKED = Asked("i" + "a1b2" * 5, "1a2b3c4d", "f0" * 32, "GET a.test/x", "GET", "a.test", "/x", 41.0, "please")
NO_DESKS = cast(KeeperRuntime, SimpleNamespace(calls=0, served=0))


@dataclass
class OneQuestion:
    """Has one question."""

    def open_questions(self) -> list[Asked]:
        return [ASKED]


async def test_a_socket_with_two_names_is_one_owner(tmp_path: Path) -> None:
    control = tmp_path / "run" / "control"
    control.mkdir(parents=True)
    async with serve_control(NO_DESKS, control / "41.sock", OneQuestion):  # type: ignore[arg-type]
        os.link(control / "41.sock", control / "holder-1-2.sock")
        (control / "link.sock").symlink_to("41.sock")
        (control / "plain.sock").touch()
        complaints: list[str] = []
        settings = Config(tmp_path / "run", tmp_path / "lib", tmp_path / "images")
        found = await ask_all_owners(settings, lambda owner, _: complaints.append(owner.name))
    assert (select_question(found, ASKED.id).question, complaints) == (ASKED, [])


async def test_the_same_question_of_two_owners_is_reported_as_hostile(tmp_path: Path) -> None:
    control = tmp_path / "run" / "control"
    control.mkdir(parents=True)
    async with (
        serve_control(NO_DESKS, control / "41.sock", OneQuestion),  # type: ignore[arg-type]
        serve_control(NO_DESKS, control / "42.sock", OneQuestion),  # type: ignore[arg-type]
    ):
        found = await ask_all_owners(Config(tmp_path / "run", tmp_path / "lib", tmp_path / "images"))
    assert len(found) == 2
