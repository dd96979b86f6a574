"""Tests of rules people allowed during a job: they apply at its next desks too, once each, within the ceiling."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from hotdesk.config import Config
from hotdesk.desk.seam import DeskId
from hotdesk.desk.wall.local.runtime import local_runtime
from hotdesk.drive.journal import FILE, Journal
from hotdesk.drive.signing import load_signer
from hotdesk.errors import BriefError
from hotdesk.event import Rescoped
from hotdesk.job.extra_rules import read_allowed_rules
from hotdesk.job.local import LocalMachine
from hotdesk.job.record.resume_state import ResumeState
from hotdesk.job.steps import Steps
from hotdesk.linux import private_files

pytestmark = pytest.mark.anyio
BEFORE, OTHER, NOW = "i" + "b" * 20, "i" + "o" * 20, "i" + "n" * 20
MORE, LESS, BARRED = "GET https://a.test/more", "GET https://a.test/less", "GET https://barred.test/x"


@dataclass(slots=True)
class Doorkeeper(LocalMachine):
    """Writes down what is allowed, as keys do; one host is beyond its ceiling."""

    told: list[tuple[str, str, str]] = field(default_factory=list)

    async def allow(self, desk: DeskId, rules: Sequence[str], by: str) -> None:
        if BARRED in rules:
            raise BriefError("beyond what this machine's operator allows")
        self.told += [(desk, rule, by) for rule in rules]
        self.rescope(desk, *(*read_allowed_rules(self.path, [desk]), *rules), by=by)

    @property
    def path(self) -> Path:
        return self.config.lib / "keys" / FILE

    def rescope(self, desk: str, *rules: str, by: str = "Anna") -> None:
        self.journal.add(desk, "keys", Rescoped(desk, "ab" * 32, ("GET https://a.test/open", *rules), (), by, rules))
        self.journal.commit()


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Doorkeeper]:
    settings = Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "images")
    private_files.make_folder(settings.lib / "keys")
    journal = Journal(settings.lib / "keys" / FILE, load_signer(settings.lib / "keys"))
    async with local_runtime() as runtime:
        yield Doorkeeper(settings, runtime, journal)
    journal.close()


def steps_of(machine: Doorkeeper) -> Steps:
    people, desks = SimpleNamespace(journal=machine.path), SimpleNamespace(opened=[NOW])
    past = ResumeState("i" + "j" * 20)
    past.summary.course.desks[BEFORE] = True
    return Steps(machine, None, None, people, None, desks, None, past, None)  # type: ignore[arg-type]


async def test_a_rule_allowed_at_one_desk_applies_at_the_next_with_its_approver(machine: Doorkeeper) -> None:
    machine.rescope(BEFORE, MORE)
    machine.rescope(BEFORE, MORE, LESS, by="Bo")
    machine.rescope(OTHER, "GET https://a.test/of-another-job")
    await steps_of(machine).allow(SimpleNamespace(id=NOW))
    assert machine.told == [(NOW, MORE, "Anna"), (NOW, LESS, "Bo")]
    assert read_allowed_rules(machine.path, [NOW]) == {MORE: "Anna", LESS: "Bo"}


async def test_a_rule_a_desk_already_has_is_not_added_again(machine: Doorkeeper) -> None:
    machine.rescope(BEFORE, MORE)
    for _ in range(2):
        await steps_of(machine).allow(SimpleNamespace(id=NOW))
    assert machine.told == [(NOW, MORE, "Anna")]


async def test_rules_now_beyond_the_ceiling_are_omitted_and_the_others_apply(machine: Doorkeeper) -> None:
    machine.rescope(BEFORE, BARRED, MORE)
    await steps_of(machine).allow(SimpleNamespace(id=NOW))
    assert machine.told == [(NOW, MORE, "Anna")]


async def test_rules_of_the_brief_are_not_extra_rules(machine: Doorkeeper) -> None:
    machine.rescope(BEFORE)
    assert read_allowed_rules(machine.path, [BEFORE]) == {}
    assert read_allowed_rules(machine.path, []) == {}
