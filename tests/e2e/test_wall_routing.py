"""Tests of jobs that need a wall: refused before they begin, opened behind that wall, reported as proven."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from hotdesk.brain.brain import ModelBrain
from hotdesk.brain.models.scripted import ScriptedModel, step
from hotdesk.brief.brief import Brief, Deliverable, RequiredCheck
from hotdesk.cli.board.receipt import format_receipt
from hotdesk.config import Config
from hotdesk.desk.keeper import state
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.container import status
from hotdesk.desk.wall.registry import KINDS
from hotdesk.door.policy.scope import scope_of
from hotdesk.drive.certificate import read as read_certificate
from hotdesk.drive.identity import OPERATOR
from hotdesk.drive.journal import FILE, read
from hotdesk.drive.keep import Drive
from hotdesk.errors import BriefError, HostError
from hotdesk.event import Event, WallProven
from hotdesk.host import Host
from hotdesk.job import report
from hotdesk.job.record.receipt import Receipt
from hotdesk.job.record.summary import CHECKING
from hotdesk.walls import WallProof, read_proof
from hotdesk.work import JobContext, work
from tests import strong_wall
from tests.strong_wall import NAME, PLATFORM

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
PATH = "result.csv"


async def count(hands: Any) -> None:
    await hands.write(PATH, b"Thing,Amount\nnuts,5\n")


async def look(hands: Any) -> None:
    await hands.write("seen.txt", b"seen")


def job_in(folder: Path, **changes: Any) -> Brief:
    check = RequiredCheck("csv", {"columns": ["Thing", "Amount"], "rows": 1})
    return Brief("Count.", (Deliverable(PATH, "csv", (check,)),), folder, "ab" * 32, seconds=60, **changes)


async def carry_out(host: Host, job: Brief, *steps: Any, seen: list[Event] | None = None) -> Receipt:
    model = ScriptedModel.of(*steps)
    order = JobContext(host, job, exact=True, listener=(seen if seen is not None else []).append)
    return await work(order, ModelBrain(job, [model], [model]))


@pytest.fixture
async def host(settings: Config) -> AsyncIterator[Host]:
    with strong_wall.install():
        async with Host(settings, control=False, keeper=strong_wall.start_keeper(settings)) as host:
            yield host


def walls_by_step(settings: Config, receipt: Receipt) -> list[tuple[str, str]]:
    rows = read(settings.lib / "keys" / FILE, receipt.job, names=["StepBegun"])
    desks = {event.desk: event.what for row in rows if (event := row.read_event()).step == "desk"}  # type: ignore[union-attr]
    return [(what, receipt.walls[desk].wall) for desk, what in desks.items()]


async def test_a_desk_is_recorded_with_the_wall_its_keeper_proved(host: Host, settings: Config) -> None:
    version = status.look(settings).version
    async with host.open_desk(Spec(wall=NAME)) as strong, host.open_desk() as plain:
        found = {each["id"]: read_proof(each) for each in state.list_own_desks(settings)}
        assert found[strong.id] == WallProof(NAME, "own", True, version, PLATFORM)
        assert found[plain.id] == WallProof("container", "host", True, version, "")
        assert (await strong.run(["true"])).ok


async def test_a_ready_desk_is_claimed_behind_its_wall_only(host: Host, settings: Config) -> None:
    host.keep_ready(Spec(wall=NAME), 1)
    await host.pool.wait_until_full()
    (ready,) = [str(each["id"]) for each in state.list_own_desks(settings)]
    async with host.open_desk() as plain, host.open_desk(Spec(wall=NAME)) as strong:
        assert (plain.id != ready, strong.id == ready) == (True, True)
        assert read_proof(state.read_facts(settings.run / "desks" / ready) or {}).wall == NAME
    host.keep_ready(Spec(wall=NAME), 0)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "changes", [{"wall": "gvisor"}, {"sensitive_wall": "gvisor"}, {"least_wall": "gvisor"}], ids=str
)
async def test_a_brief_that_needs_an_unavailable_wall_is_refused_before_it_is_planned(
    settings: Config, tmp_path: Path, changes: dict[str, str]
) -> None:
    with strong_wall.install():
        KINDS.pop("gvisor", None)  # this machine may have gVisor
        async with Host(settings, control=False) as host:
            seen: list[Event] = []
            with pytest.raises(
                BriefError, match="`hotdesk setup --wall gvisor` sets it up; hotdesk does not fall back"
            ):
                await carry_out(host, job_in(tmp_path, **changes), count, seen=seen)
    assert seen == []


async def test_a_keeper_that_lacks_a_wall_opens_no_desk_behind_another(settings: Config) -> None:
    async with Host(settings, control=False) as host:  # its keeper does not have the wall that this process has
        with pytest.raises(HostError, match=f"the wall {NAME} is not available here"):
            await host.open(Spec(wall=NAME))
        assert state.list_own_desks(settings) == []


async def test_sensitive_steps_and_checks_run_behind_the_stronger_wall(
    host: Host, settings: Config, tmp_path: Path
) -> None:
    (tmp_path / "invoices").mkdir()
    (tmp_path / "invoices/a.txt").write_text("5")
    job = job_in(tmp_path, inputs=("invoices",), sensitive_wall=NAME)
    steps = step(look, hosts=[], grants=[], desk="fresh"), step(count, hosts=[], grants=[], makes=[PATH])
    receipt = await carry_out(host, job, *steps)
    assert receipt.outcome == "done", receipt.why
    assert walls_by_step(settings, receipt) == [
        ("with the inputs, behind the door", NAME),
        ("fresh, with named files only", "container"),
        *[(CHECKING, NAME)] * (len(receipt.walls) - 2),
    ]


async def test_certificate_receipt_and_report_name_the_proven_wall(
    host: Host, settings: Config, tmp_path: Path
) -> None:
    host.config = replace(settings, verify_wall=NAME)
    receipt = await carry_out(host, job_in(tmp_path), count)
    assert receipt.outcome == "done", receipt.why
    drive = Drive(settings.lib / "drive")
    (kept,) = [each for each in drive.ls(who=OPERATOR) if each.name == f"{receipt.job}/{PATH}"]
    told, _ = read_certificate(drive.read_certificate(kept))
    version = status.look(settings).version
    for each in told["checks"]:
        assert (each["desk"]["wall"], each["desk"]["kernel"], each["desk"]["boundary"]) == (NAME, "own", True)
        assert (each["desk"]["version"], each["desk"]["platform"]) == (version, PLATFORM)
        assert receipt.walls[each["desk"]["id"]].wall == NAME
    assert {each.wall for each in receipt.walls.values()} == {NAME, "container"}
    lines = "\n".join(format_receipt(receipt))
    assert f"wall     container ({version}; the host's kernel), used by 1 desk: " in lines
    assert f"wall     {NAME} ({version}, {PLATFORM}; its own kernel), used by " in lines
    page = report.make(settings.lib / "keys" / FILE, settings.lib / "jobs", receipt.job, beside=True).decode()
    assert f"{NAME} ({version}, {PLATFORM}; its own kernel)" in page


async def test_the_wall_of_a_desk_with_egress_is_in_its_journal(host: Host, settings: Config) -> None:
    async with host.open_desk(Spec(wall=NAME), scope_of(["read example.test"], [], {})) as desk:
        await host.prepare()
        rows = [row for row in read(settings.lib / "keys" / FILE, desk.id) if row.name == WallProven.__name__]
    proof = WallProof(NAME, "own", True, status.look(settings).version, PLATFORM)
    assert [(row.actor, row.read_event()) for row in rows] == [("keeper", WallProven(desk.id, **asdict(proof)))]
