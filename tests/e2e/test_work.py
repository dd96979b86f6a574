"""Tests of a whole job: a brief, a desk behind the door, a second desk for the check, the drive, the receipt."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from subprocess import PIPE
from types import ModuleType
from typing import Any

import anyio
import pytest

from hotdesk.brain.brain import ModelBrain
from hotdesk.brain.models.scripted import Hands, ScriptedModel, step
from hotdesk.brief.brief import Brief
from hotdesk.brief.load import read_job
from hotdesk.config import Config
from hotdesk.desk.seam import Done
from hotdesk.door.policy.scope import scope_of
from hotdesk.drive.journal import FILE, read
from hotdesk.drive.keep import Drive
from hotdesk.errors import BriefError
from hotdesk.event import Checkpointed, Decided, Event, JobBurnt, JobEnded, StepBegun, StepEnded, Verified
from hotdesk.host import Host
from hotdesk.work import JobContext, work

pytestmark = pytest.mark.container
EXAMPLE = Path(__file__).parents[2] / "examples/invoices-small"
REPORT = "Discrepancy_Report.xlsx"
SCRIPT = ("--script", str(EXAMPLE / "brain.py"))
PASSWORD = "k9-live-Zq7RrT4mXw2NnB8cVd5s"
ASKED = [
    *(("/login", 200), ("/login", 303), ("/orders", 200)),
    *((f"/orders/PO-700{number}", 200) for number in range(1, 6)),
]
"""Requests that the ERP gets from a worker with a browser: form, sign-in, and pages."""
BARE = 'goal = "x"\ndeliverables = [{path = "a.xlsx", check = "sheet", expect = {columns = ["A"], rows = 0}}]\n'
"""A minimal brief."""
LOOK = """
env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null
find / -xdev -type f -newer /etc/hostname -size -4096k -exec cat {} + 2>/dev/null
find /home /tmp /run /etc /var /dev/shm -xdev -type f -size -4096k -exec cat {} + 2>/dev/null
true
"""
"""Prints everything where a program in the desk could find a key."""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules.setdefault(name, importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


class Office:
    """A running ERP, and a state directory whose vault has its password."""

    def __init__(self, erp: Any, home: Path, env: dict[str, str], images: Path) -> None:
        self.erp, self.home, self.env = erp, home, env
        self.config = Config(
            run=home / "run",
            lib=home / "lib",
            images=images,
            ca=str(erp.ca),
            names={"erp.example.test": f"127.0.0.1:{erp.port}"},
        )

    def hotdesk(self, *argv: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*load("run").HOTDESK, *argv],
            env=self.env,
            capture_output=True,
            check=False,
            **{"timeout": 100, **more},
        )

    def events(self) -> list[Event]:
        return [row.read_event() for row in read(self.config.lib / "keys" / FILE)]

    def desks(self) -> list[str]:
        folder = self.config.run / "desks"
        return os.listdir(folder) if folder.exists() else []

    def blobs(self) -> list[str]:
        return sorted(os.listdir(self.config.lib / "drive/blobs"))


@pytest.fixture(scope="module")
def shared_office(settings: Config, home: Path) -> Iterator[Office]:
    """Yield an office for all tests here: creating a state directory takes longer than a job."""
    load("erp")
    folder = home / "office"
    folder.mkdir(mode=0o755)
    with load("run").prepare(folder, PASSWORD) as (erp, env):
        yield Office(erp, folder, {**env, "HOTDESK_IMAGES": str(settings.images)}, settings.images)


@pytest.fixture
def office(settings: Config, shared_office: Office) -> Iterator[Office]:
    shared_office.erp.requests.clear()
    shared_office.erp.sessions.clear()
    yield shared_office
    assert shared_office.desks() == []


def job(**changes: Any) -> Brief:
    return replace(read_job(EXAMPLE, scope_of), **changes)


async def carry_out(office: Office, job: Brief, *acts: Any) -> Any:
    model = ScriptedModel.of(*acts)
    async with Host(office.config, control=False) as host:
        return await work(JobContext(host, job, exact=True), ModelBrain(job, [model], [model]))


def files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield every plain file below a folder, except the pool of disks and the vault's own files."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 24:
            yield path, path.read_bytes()


@pytest.mark.long
def test_the_example_is_carried_out_completely(office: Office, tmp_path: Path) -> None:
    done = office.hotdesk("work", str(EXAMPLE), *SCRIPT, "--out", str(tmp_path / "out"))
    shown = done.stderr.decode()
    assert done.returncode == 0, shown
    assert done.stdout.decode().splitlines() == [str(tmp_path / "out" / REPORT)]
    assert office.erp.requests == ASKED
    data = (tmp_path / "out" / REPORT).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    assert (office.config.lib / "drive/blobs" / digest).read_bytes() == data
    assert f"kept     {REPORT}, {len(data)} bytes, sha256 {digest}" in shown
    assert f"checked  {REPORT} by sheet: passed" in shown
    assert "door     7 x allow GET erp.example.test\n" in shown
    assert "door     1 x allow POST erp.example.test with erp-password in form password" in shown
    assert shown.count("  burnt    desk i") == 3
    assert office.hotdesk("journal", "verify").returncode == 0
    unpacked = b"".join(zipfile.ZipFile(BytesIO(data)).read(name) for name in zipfile.ZipFile(BytesIO(data)).namelist())
    for text in (done.stdout, done.stderr, unpacked, *(content for _, content in files(office.home))):
        assert not any(secret.encode() in text for secret in (PASSWORD, *office.erp.sessions))


@pytest.mark.long
@pytest.mark.gvisor
@pytest.mark.timeout(300)
def test_the_example_is_carried_out_completely_behind_gvisor(office: Office, tmp_path: Path) -> None:
    argv = ["work", str(EXAMPLE), *SCRIPT, "--wall", "gvisor", "--out", str(tmp_path / "out")]
    done = office.hotdesk(*argv, timeout=250)
    shown = done.stderr.decode()
    assert done.returncode == 0, shown
    assert office.erp.requests == ASKED
    assert f"checked  {REPORT} by sheet: passed" in shown
    assert "gvisor (runsc" in shown
    for text in (done.stdout, done.stderr, *(content for _, content in files(office.home))):
        assert not any(secret.encode() in text for secret in (PASSWORD, *office.erp.sessions))


@pytest.mark.long
def test_a_job_can_be_repeated_and_its_events_are_in_the_journal_in_order(office: Office) -> None:
    lines = office.hotdesk("work", str(EXAMPLE), *SCRIPT, "--json", cwd=office.home).stdout.splitlines()
    told = json.loads(lines[-1])["data"]
    assert (told["outcome"], list(told["paths"])) == ("done", [REPORT])
    assert Path(office.home, told["paths"][REPORT]).read_bytes()[:2] == b"PK"
    assert told["certificates"] == {REPORT: f"{told['paths'][REPORT]}.certificate.json"}
    assert Path(office.home, told["report"]).read_bytes()[:15] == b"<!doctype html>"
    events = [row.read_event() for row in read(office.config.lib / "keys" / FILE, told["job"])]
    assert [json.loads(line)["event"] for line in lines if json.loads(line)["data"].get("job")][:1] == ["JobBegun"]
    line = [event.step if isinstance(event, StepBegun) else type(event).__name__ for event in events]
    shown = [word for word in line if word not in ("StepEnded", "Thought", "Acted", "Observed")]
    done = ("Checkpointed", "Summed")
    assert shown == [
        *("JobBegun", "Planned", "Preflight", "Pending", "Decided"),
        *("desk", "read", *done, "desk", "ask", *done, "write", *done),
        *("desk", "verify", "Verified", "verify", "Verified", "keep", "Certified", "Kept", "JobEnded", "JobBurnt"),
    ]
    assert [event.by for event in events if isinstance(event, Decided)] == ["policy auto"]
    ended = [event.step for event in events if isinstance(event, StepEnded)]
    assert ended == ["read", "desk", "ask", "write", "verify", "verify", "desk", "keep", "desk"]
    assert isinstance(events[-1], JobBurnt)
    first, side, second = told["burnt"]
    checked = {event.desk for event in events if isinstance(event, Verified)}
    assert (len({first, side, second}), checked) == (3, {second})
    assert {row.name for row in read(office.config.lib / "keys" / FILE, second)} <= {"Opened", "Burnt"}


@pytest.mark.long
async def test_nothing_in_the_desk_holds_password_or_session_while_it_works_with_them(office: Office) -> None:
    told: list[bytes] = []

    async def look(hands: Hands) -> Done:
        done = await hands.run(["sh", "-c", LOOK], timeout=60)
        told.append(done.stdout)
        return done

    scenes = ScriptedModel.read(EXAMPLE / "brain.py").scenes.values()
    receipt = await carry_out(office, job(), *scenes, step(look, keeps=True))
    assert receipt.outcome == "done", receipt.why
    assert b"PO-7004" in told[0]
    assert b"https_proxy=" in told[0].lower()
    assert not any(secret.encode() in told[0] for secret in (PASSWORD, *office.erp.sessions))


async def test_a_rule_of_one_step_applies_to_no_other(office: Office) -> None:
    async def early(hands: Hands) -> Done:
        return await hands.run(["curl", "--fail", "https://erp.example.test/login"], timeout=60)

    receipt = await carry_out(office, job(), early)
    assert (receipt.outcome, receipt.kept, office.erp.requests) == ("failed", (), [])
    assert "step early failed: " in receipt.why
    assert [(each.verdict, each.grants) for each in receipt.requests] == [("deny", ())]


@pytest.mark.parametrize("data", [b"PK but no workbook", pytest.param(b"", marks=pytest.mark.long)])
async def test_a_deliverable_that_fails_its_check_is_not_kept(office: Office, data: bytes) -> None:
    async def cheat(hands: Hands) -> None:
        await hands.write(REPORT, data)

    Drive(office.config.lib / "drive")
    before = office.blobs()
    receipt = await carry_out(office, job(), cheat)
    assert (receipt.outcome, receipt.kept, receipt.checks[0].outcome) == ("failed", (), "failed")
    assert "expected a workbook, found a problem: the file cannot be opened" in receipt.why
    assert receipt.why.startswith("the step delivered the same file again; ")
    assert len(receipt.burnt) == 3, receipt.why
    assert office.blobs() == before


def test_a_job_that_failed_says_why_and_prints_no_path(office: Office, tmp_path: Path) -> None:
    (tmp_path / "brief.toml").write_text(BARE)
    cheat = 'async def cheat(hands):\n    "Cheat."\n    await hands.write("a.xlsx", b"")\nPLAN = (cheat,)\n'
    (tmp_path / "brain.py").write_text(cheat)
    done = office.hotdesk("work", str(tmp_path / "brief.toml"), "--script", str(tmp_path / "brain.py"), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"a.xlsx failed its checks: " in done.stderr
    assert b"expected a workbook, found a problem: the file cannot be opened" in done.stderr


@pytest.mark.long
async def test_a_worker_that_delivers_nothing_or_breaks_or_misreports_is_a_result(office: Office) -> None:
    async def idle(hands: Hands) -> None:
        """Do nothing."""

    async def broken(hands: Hands) -> None:
        raise KeyError("x")

    async def desk(hands: Hands) -> None:
        """Tell a false story."""

    receipt = await carry_out(office, job(), idle)
    assert (receipt.outcome, receipt.why) == ("failed", f"{REPORT} cannot be delivered: missing")
    receipt = await carry_out(office, job(), broken)
    assert (receipt.outcome, receipt.why) == ("failed", "step broken failed: the worker gave up")
    receipt = await carry_out(office, job(), desk)
    assert (receipt.outcome, receipt.burnt) == ("failed", ())
    with pytest.raises(BriefError, match="has no plan"):
        await carry_out(office, job(), idle, idle)


async def test_a_job_at_its_time_limit_stops_and_keeps_its_work(office: Office) -> None:
    async def slow(hands: Hands) -> Any:
        await hands.write("so-far", b"kept")
        return await hands.run(["sleep", "100"])

    receipt = await carry_out(office, job(seconds=1.5), slow)
    assert (receipt.outcome, receipt.why, receipt.left) == (
        "paused",
        "the job's time limit of 1.5 seconds was reached",
        (),
    )
    kept = [event for event in office.events() if isinstance(event, Checkpointed) and event.job == receipt.job]
    assert [(event.amid, event.size > 0) for event in kept] == [(True, True)]


async def test_a_job_that_loses_its_desk_has_failed(office: Office) -> None:
    async def arson(hands: Hands) -> Any:
        (desk,) = office.desks()
        await hands.run(["true"])
        office.hotdesk("burn", desk)
        return await hands.run(["true"])

    receipt = await carry_out(office, job(), arson)
    assert (receipt.outcome, receipt.left) == ("failed", ())


async def test_a_cancelled_job_burns_its_desk_and_is_recorded(office: Office) -> None:
    with anyio.move_on_after(10) as scope:

        async def stopped(hands: Hands) -> None:
            assert len(office.desks()) == 1
            scope.cancel()
            await hands.run(["sleep", "100"])

        await carry_out(office, job(), stopped)
    *_, ended, burnt = office.events()
    assert isinstance(ended, JobEnded)
    assert ended.outcome == "interrupted"
    assert isinstance(burnt, JobBurnt)
    assert office.desks() == []


def test_ctrl_c_twice_burns_the_desk_and_reports_it(office: Office, tmp_path: Path) -> None:
    (tmp_path / "brief.toml").write_text(BARE)
    text = 'async def rest(hands):\n    "Rest."\n    return await hands.run(["sleep", "100"])\nPLAN = (rest,)\n'
    (tmp_path / "brain.py").write_text(text)
    argv = [*load("run").HOTDESK, "work", str(tmp_path), "--script", str(tmp_path / "brain.py")]
    program = subprocess.Popen(argv, env=office.env, stdout=PIPE, stderr=PIPE, cwd=tmp_path)
    assert program.stderr is not None
    while not program.stderr.readline().startswith(b"rest "):
        assert program.poll() is None
    assert len(office.desks()) == 1
    program.send_signal(signal.SIGINT)
    assert b"the job stops after the current act" in program.stderr.readline()
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=30)
    assert (program.returncode, out) == (130, b"")
    assert b"hotdesk: the job was interrupted; its desks are burnt" in err
    assert office.desks() == []


def test_a_brain_can_write_only_to_the_folder_of_results(office: Office, tmp_path: Path) -> None:
    (tmp_path / "brief.toml").write_text(BARE)
    (tmp_path / "brain.py").write_text(f"open({str(tmp_path / 'trace')!r}, 'w')\n")
    script = ("--script", str(tmp_path / "brain.py"))
    done = office.hotdesk("work", str(tmp_path), *script, "--out", str(tmp_path / "out"))
    assert done.returncode == 125
    assert b"failed: PermissionError" in done.stderr
    assert not (tmp_path / "trace").exists()


def test_hotdesks_own_errors_are_short_and_have_another_exit_code(office: Office, tmp_path: Path) -> None:
    done = office.hotdesk("work", str(tmp_path))
    assert (done.returncode, done.stderr.count(b"\n")) == (125, 1)
    (tmp_path / "brief.toml").write_text("gaol = 5\n")
    done = office.hotdesk("work", str(tmp_path))
    assert done.returncode == 125
    assert b"brief.toml: 3 faults\n" in done.stderr
    assert b"line 1: a brief has no field 'gaol'; its fields are goal" in done.stderr
    assert office.hotdesk("vault", "rm", "erp-password").returncode == 0
    done = office.hotdesk("work", str(EXAMPLE), *SCRIPT, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"erp-password" in done.stderr.splitlines()[-1]
    assert office.hotdesk("vault", "set", "erp-password", input=PASSWORD.encode()).returncode == 0


def test_help_has_an_example(office: Office) -> None:
    assert b"\n  hotdesk work examples/invoices-small --script" in office.hotdesk("work", "--help").stdout


@pytest.mark.long
def test_the_example_starts_its_own_erp(settings: Config, tmp_path: Path) -> None:
    env = {**os.environ, "HOTDESK_IMAGES": str(settings.images), "TMPDIR": str(settings.run.parent)}
    (tmp_path / REPORT).write_text("what an earlier run left")
    argv = [sys.executable, str(EXAMPLE / "run.py"), "--out", str(tmp_path)]
    done = subprocess.run(argv, env=env, capture_output=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert b"the ERP was asked 8 times" in done.stderr
    assert (tmp_path / REPORT).read_bytes()[:2] == b"PK"
    assert not list(settings.run.parent.glob("hotdesk-invoices-*"))


def test_the_invoices_match_their_generator() -> None:
    made = load("invoices")
    for number, order, vendor, positions in made.INVOICES:
        written = (EXAMPLE / "invoices" / f"{number}.pdf").read_bytes()
        assert written == made.pdf(made.lines(number, order, vendor, positions))
