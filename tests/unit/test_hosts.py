"""Tests of the host lab: running commands on a machine, failing steps, and skipping what has passed."""

from __future__ import annotations

import json
import os
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tools.hosts import disk, kit, machines, results, state, steps
from tools.hosts.__main__ import choose_steps
from tools.hosts.emulator import MachineError, Session
from tools.hosts.inside import agent, run_tests
from tools.hosts.kit import Kit
from tools.hosts.machines import MACHINES, Machine
from tools.hosts.results import MachineResult, StepResult
from tools.hosts.row import Row
from tools.hosts.state import RowState
from tools.hosts.steps import STEPS, Step, StepError, Visit

BOOT = "b9a6"
NEW = RowState("key", "", "", 0.0, ())


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    ours, its = socket.socketpair()
    thread = threading.Thread(target=agent.serve, args=(its.fileno(), {"boot": BOOT}), kwargs={"is_patient": False})
    thread.start()
    session = Session(ours, time.monotonic() + 30, tmp_path / "commands.log")
    session.await_boot(10)
    yield session
    ours.close()
    thread.join()
    its.close()


@pytest.fixture
def visit(session: Session) -> Visit:
    """Return a machine that is visited; it is this one."""
    return Visit(session, Machine("here"), Kit(Path("kit.img"), "hotdesk.whl", "0" * 32))


def test_a_command_runs_and_what_it_printed_comes_back(session: Session) -> None:
    result = session.run("sh", "-c", "echo one; echo two >&2; exit 3")
    assert (result.exit_code, result.output, result.is_ok) == (3, "one\ntwo\n", False)
    assert session.boot == BOOT
    assert "# sh -c" in session.log.read_text()


@pytest.mark.slow
def test_a_command_that_takes_too_long_is_killed(session: Session) -> None:
    result = session.run("sleep", "60", timeout=1)
    assert result.exit_code is None
    assert result.seconds < 20


def test_what_a_command_leaves_in_the_background_keeps_nobody_waiting(session: Session) -> None:
    result = session.run("sh", "-c", "sleep 5 & echo begun")
    assert (result.output, result.is_ok) == ("begun\n", True)
    assert result.seconds < 4


def test_a_command_that_is_not_there_is_a_result(session: Session) -> None:
    assert session.run("/nonexistent").exit_code == 127


def test_the_agent_waits_for_its_port(tmp_path: Path) -> None:
    later = threading.Timer(0.7, (tmp_path / "port").touch)
    later.start()
    os.close(agent.open_port(str(tmp_path / "port")))
    later.join()


def test_long_output_is_cut_at_its_beginning(session: Session) -> None:
    result = session.run("sh", "-c", "yes line | head -c 400000; echo end")
    assert len(result.output) == agent.MAX_OUTPUT
    assert result.output.endswith("end\n")


def test_a_machine_whose_time_is_over_is_an_error(tmp_path: Path) -> None:
    ours, its = socket.socketpair()
    with ours, its, pytest.raises(MachineError, match="its time is over"):
        Session(ours, time.monotonic() + 0.1, tmp_path / "log").await_boot(10)


def test_an_emulator_that_ended_is_an_error(tmp_path: Path) -> None:
    ours, its = socket.socketpair()
    its.close()
    with ours, pytest.raises(MachineError, match="the emulator ended"):
        Session(ours, time.monotonic() + 10, tmp_path / "log").await_boot(10)


def test_a_line_that_fails_says_what_it_printed(visit: Visit) -> None:
    with pytest.raises(StepError, match=r"`echo no space; exit 1` ended with 1: no space"):
        visit.root("echo no space; exit 1")


def test_what_is_never_printed_is_waited_for_and_then_named(visit: Visit) -> None:
    visit.poll("echo running", "running", 0)
    with pytest.raises(StepError, match="printed 'dead', not 'running'"):
        visit.poll("echo dead", "running", 0)


def fail(visit: Visit) -> str:
    raise StepError("it broke")


def succeed(visit: Visit) -> str:
    return "well"


@pytest.mark.parametrize(("is_needed", "reached"), [(False, ["one", "two"]), (True, ["one"])])
def test_a_step_that_fails_stops_only_those_that_need_it(
    visit: Visit, tmp_path: Path, is_needed: bool, reached: list[str]
) -> None:
    row = Row(tmp_path, NEW)
    row.take([Step("one", fail, is_needed), Step("two", succeed)], visit)
    assert [(each.name, each.passed) for each in row.done[1:]] == [(name, name == "two") for name in reached]


def test_an_interrupted_row_continues_after_its_last_step(visit: Visit, tmp_path: Path) -> None:
    visit.key, visit.facts["arch"] = "hd_1", "x86_64"
    Row(tmp_path, NEW).take([Step("one", fail), Step("two", succeed)], visit)
    found = state.load(tmp_path, NEW.key)
    assert found is not None
    assert (found.snapshot, found.boot, found.api_key, found.facts) == ("two", BOOT, "hd_1", {"arch": "x86_64"})
    later = Row(tmp_path, found)
    later.take([Step("one", succeed), Step("two", fail), Step("three", succeed)], visit)
    assert [(each.name, each.passed) for each in later.done[1:]] == [("one", False), ("two", True), ("three", True)]
    assert time.monotonic() - later.began >= found.seconds


def test_a_row_that_tries_something_else_starts_from_the_beginning(visit: Visit, tmp_path: Path) -> None:
    Row(tmp_path, NEW).take([Step("one", succeed)], visit)
    assert state.load(tmp_path, "another wheel") is None
    (tmp_path / state.RECORD).write_text("[{")
    assert state.load(tmp_path, NEW.key) is None


@pytest.mark.parametrize("keep", [False, True])
def test_only_the_last_state_is_kept_unless_all_are_wanted(visit: Visit, tmp_path: Path, keep: bool) -> None:
    path = tmp_path / "monitor"
    with answer(path) as lines:
        visit.session.monitor = path
        Row(tmp_path, NEW, keep).take([Step("one", succeed), Step("two", succeed)], visit)
    saved = ["savevm boot", "savevm one", "savevm two"]
    assert [line for line in lines if line.startswith("savevm")] == saved
    assert [line for line in lines if line.startswith("delvm")] == ([] if keep else ["delvm boot", "delvm one"])
    names = ["boot", "one", "two"]
    if keep:
        assert state.load_before(tmp_path, NEW.key, "two", names).snapshot == "one"
        with pytest.raises(SystemExit, match="saved with other code"):
            state.load_before(tmp_path, "another wheel", "two", names)
    else:
        with pytest.raises(SystemExit, match="run it with --keep"):
            state.load_before(tmp_path, NEW.key, "two", names)


def test_a_kept_row_that_has_finished_is_not_an_interrupted_one(visit: Visit, tmp_path: Path) -> None:
    Row(tmp_path, NEW, keep=True).take([Step("one", succeed)], visit)
    assert state.load(tmp_path, NEW.key) is not None
    (tmp_path / state.CONCLUDED).touch()
    assert state.load(tmp_path, NEW.key) is None


def test_a_state_that_the_emulator_cannot_save_is_an_error(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "monitor"
    with answer(path, "Error: no block device can store vmstate\r\n"):
        visit.session.monitor = path
        with pytest.raises(MachineError, match="`savevm boot` failed: Error: no block device"):
            visit.session.save("boot")


@contextmanager
def answer(path: Path, text: str = "") -> Iterator[list[str]]:
    """Answer lines for the emulator's monitor with a text; yield the lines."""
    lines: list[str] = []

    class Monitor(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b'{"QMP": {}}\n')
            for name in ("qmp_capabilities", "human-monitor-command"):
                request = json.loads(self.rfile.readline())
                assert request["execute"] == name
                lines.extend(request["arguments"].values())
                event, reply = {"event": "STOP"}, {"return": text if lines else {}, "id": name}
                self.wfile.write(f"{json.dumps(event)}\n{json.dumps(reply)}\n".encode())

    with socketserver.UnixStreamServer(str(path), Monitor) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield lines
        server.shutdown()
        thread.join()


def test_only_named_steps_are_taken_with_those_that_everything_needs() -> None:
    assert [step.name for step in choose_steps("doctor")] == ["install", "setup", "first", "doctor"]
    assert choose_steps(None) == STEPS


GOOD = StepResult("boot", True, 1.0, "")
DONE = MachineResult("debian-13", "k", "2026-11-18", 61.0, {"arch": "x86_64"}, (GOOD,))


@pytest.mark.parametrize(
    ("change", "passed"),
    [
        (lambda it: it, True),
        (lambda it: replace(it, steps=(*it.steps, StepResult("doctor", False, 1.0, "not held: terminals"))), False),
        (lambda it: replace(it, missing=("undo",)), False),
        (lambda it: replace(it, steps=()), False),
    ],
)
def test_a_machine_passes_when_every_step_did(
    change: Callable[[MachineResult], MachineResult], passed: bool, tmp_path: Path
) -> None:
    result = change(DONE)
    assert result.passed == passed
    assert ("passed" if passed else "FAILED") in str(result)
    results.save(tmp_path / "results.json", {result.name: result})
    assert results.load(tmp_path / "results.json") == {result.name: result}


def test_a_machine_that_takes_longer_than_the_goal_passes_and_its_line_says_so() -> None:
    slow = replace(DONE, seconds=3600.0, steps=(replace(GOOD, cpu_seconds=600.0),))
    assert (DONE.within_goal, slow.passed, slow.within_goal) == (True, True, False)
    assert "60.0 min (the goal is 15; processor 10.0 min)" in str(slow)
    assert not replace(DONE, missing=("undo",)).within_goal


@pytest.mark.slow
def test_the_limits_of_commands_are_extended_on_a_slow_machine(session: Session) -> None:
    session.patience = 20.0
    assert session.run("sleep", "1", timeout=0.2).is_ok


def test_the_processor_time_of_the_emulator_is_read(session: Session) -> None:
    assert session.read_cpu_seconds() == 0.0
    session.emulator = os.getpid()
    assert 0.0 < session.read_cpu_seconds() <= sum(os.times()[:2]) + 0.1


def test_a_failure_is_named_in_the_line() -> None:
    failed = replace(DONE, steps=(GOOD, StepResult("doctor", False, 1.0, "not held:\nterminals")), missing=("undo",))
    assert str(failed).endswith("doctor: not held: terminals; not reached: undo")


def test_another_wheel_other_tests_or_another_row_is_another_trial() -> None:
    first = MACHINES[0]
    keys = [
        results.key_of(first, "wheel", "tests", "x86_64"),
        results.key_of(first, "other", "tests", "x86_64"),
        results.key_of(first, "wheel", "other", "x86_64"),
        results.key_of(replace(first, memory_mib=1), "wheel", "tests", "x86_64"),
        results.key_of(first, "wheel", "tests", "aarch64"),
    ]
    assert len(set(keys)) == len(keys)


def test_machines_are_named_once_and_found() -> None:
    assert len({each.name for each in MACHINES}) == len(MACHINES)
    assert [each.name for each in machines.find(["debian-12", "debian-13"])] == ["debian-13", "debian-12"]
    with pytest.raises(SystemExit, match="There is no machine debian-11"):
        machines.find(["debian-11"])


def test_every_sample_is_there() -> None:
    for folder, names in steps.SAMPLES.items():
        for name in names:
            file, _, function = name.partition("[")[0].partition("::")
            assert f"def {function}" in (kit.ROOT / "tests" / folder / file).read_text()


def test_a_test_of_many_cases_is_sampled_evenly() -> None:
    many = [f"a.py::test_calls[{number}]" for number in range(100)]
    taken = run_tests.choose_cases([*many, "a.py::test_one", "a.py::test_two[x]", "a.py::test_two[y]"])
    assert {"a.py::test_one", "a.py::test_two[x]", "a.py::test_two[y]", many[0], many[96]} <= taken
    assert len(taken & {*many}) == 25


def test_a_read_only_usr_leaves_local_writable() -> None:
    lines = disk.fstab(Machine("here", is_usr_read_only=True)).splitlines()
    assert "x-systemd.device-timeout=0" in lines[1]
    assert lines[2:] == [
        "/usr /usr none bind,ro 0 0",
        "/var/usr-local /usr/local none bind,x-systemd.requires-mounts-for=/usr 0 0",
    ]


def test_each_release_is_installed_as_the_guide_says() -> None:
    guide = (kit.ROOT / "docs/guide/install.md").read_text()
    for machine in MACHINES:
        command = steps.get_install_command(machine)
        assert command.replace("'hotdesk[serve]'", "hotdesk") in guide
        assert steps.get_setup_command(machine, "f" * 32).partition(" setup")[0] in guide
        assert ("--global" in command) == (machine.release == "trixie")


def test_a_folder_of_packages_becomes_a_source_for_apt(tmp_path: Path) -> None:
    (tmp_path / "made/DEBIAN").mkdir(parents=True)
    (tmp_path / "made").chmod(0o755)
    (tmp_path / "made/DEBIAN").chmod(0o755)
    (tmp_path / "made/DEBIAN/control").write_text(
        "Package: tiny\nVersion: 1.0\nArchitecture: all\n"
        "Maintainer: Somebody <somebody@example.test>\nDescription: small\n"
    )
    subprocess.run(["dpkg-deb", "--build", "made", "tiny_1.0_all.deb"], cwd=tmp_path, check=True, capture_output=True)
    text = kit.index_packages(tmp_path)
    assert text.startswith("Package: tiny\nVersion: 1.0\n")
    assert f"\nFilename: ./tiny_1.0_all.deb\nSize: {(tmp_path / 'tiny_1.0_all.deb').stat().st_size}\nSHA256: " in text
