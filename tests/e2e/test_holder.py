"""Tests of `hotdesk run` through the holder: it behaves as without one, and no kill leaves anything behind."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

import pytest

from hotdesk.config import Config
from hotdesk.ipc.child import SOURCE
from tests.conftest import state_directory
from tests.leftovers import end_holders, keepers, things

pytestmark = pytest.mark.container
HOTDESK = [sys.executable, "-c", "from hotdesk.cli import main; main()"]
WAITING_SECONDS = 50.0


class Command(subprocess.Popen[bytes]):
    """A running `hotdesk` command that is killed if its test fails."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, error, trace)


@dataclass(slots=True)
class Place:
    """A state directory of one test, in which holders stay until its end."""

    home: Path
    settings: Config
    env: dict[str, str] = field(default_factory=dict)

    def environment(self, **env: str) -> dict[str, str]:
        own = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "HOTDESK_HOME": str(self.home)}
        return {**own, "HOTDESK_IMAGES": str(self.settings.images), "HOTDESK_LINGER": "60", **self.env, **env}

    def call(
        self, *argv: str, stdin: bytes = b"", env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        environment = self.environment(**env or {})
        return subprocess.run(
            [*HOTDESK, *argv], check=False, input=stdin, capture_output=True, timeout=60, env=environment
        )

    def start(self, *argv: str, **env: str) -> Command:
        running = Command(
            [*HOTDESK, *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(**env),
        )
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        return running

    def states(self) -> list[str]:
        found = []
        for each in (self.home / "run/desks").glob("*/desk.json"):
            with suppress(OSError, ValueError):
                found.append(str(json.loads(each.read_text())["state"]))
        return found

    def owners(self) -> list[int]:
        folder = self.home / "run/desks"
        return [int(json.loads((folder / desk / "desk.json").read_text())["owner"]) for desk in self.desks()]

    def holders(self) -> list[int]:
        sockets = {each.stat().st_ino for each in (self.home / "run/control").glob("holder-*.sock")}
        owners = (each for each in (self.home / "run/control").glob("*.sock") if each.stem.isdigit())
        pids = [int(each.stem) for each in owners if each.stat().st_ino in sockets]
        return sorted(pid for pid in pids if Path(f"/proc/{pid}").exists())

    def warm(self, **env: str) -> int:
        """Run a first command, which starts a holder; return the holder's process id."""
        before = self.holders()
        assert self.call("run", "--", "true", env=env).returncode == 0
        wait_until(lambda: set(self.holders()) - set(before))
        [holder] = set(self.holders()) - set(before)
        return holder

    def desks(self) -> list[str]:
        """List the desks in use, without the ready desk of a holder."""
        found = []
        for each in (self.home / "run/desks").glob("*"):
            with suppress(OSError, ValueError):
                facts = json.loads((each / "desk.json").read_text())
                found += [each.name] if facts["owner"] not in self.holders() or facts["state"] == "open" else []
        return sorted(found)

    def end(self) -> None:
        """End every holder, and wait until its keeper has ended."""
        end_holders(self.home)


def wait_until(condition: object) -> None:
    assert callable(condition)
    end = time.monotonic() + WAITING_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not come to be so"
        time.sleep(0.02)


@pytest.fixture
def place(settings: Config) -> Iterator[Place]:
    with state_directory() as home:
        made = Place(home, replace(settings, run=home / "run", lib=home / "lib"))
        try:
            yield made
        finally:
            made.end()


WAYS: dict[str, list[str]] = {"holder": [], "alone": ["--no-holder"], "in full": ["--no-holder", "--pids", "1024"]}
"""The ways a command gets its desk, and the options for each."""
QUICK_SIGNALS = {(signal.SIGINT, "holder"), (signal.SIGTERM, "alone"), (signal.SIGHUP, "in full")}
SLEEP = ("run", "--", "sh", "-c", "echo up; sleep 9973")


def test_the_second_command_finds_the_holder_that_the_first_started(place: Place) -> None:
    first = place.call("run", "--", "echo", "one")
    assert (first.returncode, first.stdout, first.stderr) == (0, b"one\n", b"")
    wait_until(place.holders)
    [holder] = place.holders()
    with place.start(*SLEEP) as running:
        assert place.owners() == [holder]
        running.terminate()
    assert place.holders() == [holder]
    assert len(keepers(place.home)) == 1
    assert place.desks() == []


@pytest.mark.long
def test_the_next_desk_is_ready_like_the_last_one_unless_settings_say_otherwise(place: Place) -> None:
    place.warm()
    assert place.call("run", "--memory", "256M", "--", "true").returncode == 0

    def claims_ready_desk() -> bool:
        """Run a command while a desk is ready; the keeper records a ready desk a moment before its holder knows it."""
        wait_until(lambda: place.states() == ["ready"])
        [desk] = (place.home / "run/desks").glob("*")
        done = place.call("run", "--memory", "256M", "--env", "A=b", "--", "sh", "-c", "echo $A")
        assert done.stdout == b"b\n"
        return not desk.exists()

    wait_until(claims_ready_desk)
    (place.home / "etc").mkdir()
    (place.home / "etc/config.toml").write_text("[holder]\nready = 0\n")
    place.end()
    place.warm()
    assert place.call("run", "--", "true").returncode == 0
    time.sleep(1)
    assert place.states() == []


@pytest.mark.long
@pytest.mark.parametrize("moment", ["is ready", "is being opened", "may be wanted"])
def test_an_image_can_be_removed_though_a_desk_of_it_is_ready(place: Place, moment: str) -> None:
    desk, name = place.call("open").stdout.decode().strip(), f"test-{secrets.token_hex(6)}"
    assert place.call("image", "save", desk, name).returncode == 0
    try:
        assert place.call("burn", desk).returncode == 0
        assert place.call("run", "--image", name, "--", "true").returncode == 0
        if moment == "is ready":
            wait_until(lambda: place.states() == ["ready"])
        elif moment == "is being opened":
            wait_until(lambda: place.states() != [])
    finally:
        removed = place.call("image", "rm", name)
    assert (removed.returncode, removed.stderr) == (0, b"")
    wait_until(lambda: place.states() == [])


@pytest.mark.long
def test_ps_and_doctor_show_the_holder(place: Place) -> None:
    holder = place.warm()
    listed = place.call("ps")
    assert (listed.returncode, listed.stdout.count(b"\n")) == (0, 1)
    assert str(holder).encode() in listed.stderr
    assert json.loads(place.call("ps", "--json").stdout) == []
    assert json.loads(place.call("doctor", "--json").stdout)["holders"] == [holder]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["sh", "-c", "exit 3"], 3),
        pytest.param(["/etc/passwd"], 126, marks=pytest.mark.long),
        (["no-such-program"], 127),
        pytest.param(["sh", "-c", "kill -TERM $$"], 128 + 15, marks=pytest.mark.long),
    ],
)
def test_exit_codes_and_messages_are_the_same_without_a_holder(place: Place, argv: list[str], code: int) -> None:
    place.warm()
    answers = [place.call("run", *way, "--", *argv) for way in WAYS.values()]
    assert {each.returncode for each in answers} == {code}
    assert len({(each.stdout, each.stderr) for each in answers}) == 1


def test_a_desk_larger_than_the_machine_is_refused_with_and_without_a_holder(place: Place) -> None:
    place.warm()
    answers = [place.call("run", *way, "--cpus", "400", "--", "true") for way in WAYS.values()]
    why = f"hotdesk: --cpus 400 is more than this machine has; use 0.01 to {os.cpu_count()}\n"
    assert {(each.returncode, each.stdout, each.stderr) for each in answers} == {(125, b"", why.encode())}


@pytest.mark.sample(1)
@pytest.mark.parametrize("way", WAYS)
def test_bytes_go_through_as_they_are(place: Place, way: str) -> None:
    if way == "holder":
        place.warm()
    given = os.urandom(3_000_000)
    script = (
        "import sys; data = sys.stdin.buffer.read(); sys.stderr.buffer.write(data[::-1]); sys.stdout.buffer.write(data)"
    )
    done = place.call("run", *WAYS[way], "--", "python3", "-c", script, stdin=given)
    assert (done.returncode, done.stdout == given, done.stderr == given[::-1]) == (0, True, True)


@pytest.mark.long
def test_options_of_a_command_apply_to_its_desk(place: Place) -> None:
    holder = place.warm()
    done = place.call("run", "--memory", "64M", "--env", "A=ä b", "--", "sh", "-c", 'echo "$A"; head -1 /proc/meminfo')
    assert done.stdout.decode().split("\n")[0] == "ä b"
    assert b" 65536 kB" in done.stdout
    for argv in (["--memory", "lots"], ["--image", "no-such-image"], ["--cpus", "900"], ["--disk-in", "tape"]):
        refused, alone = (place.call("run", *argv, *more, "--", "true") for more in ([], ["--no-holder"]))
        assert (refused.returncode, refused.stderr) == (125, alone.stderr)
    timed_out = place.call("run", "--timeout", "0.5", "--", "sleep", "60")
    assert (timed_out.returncode, b"did not end within 0.5 s" in timed_out.stderr) == (124, True)
    assert place.holders() == [holder]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("number", "way"),
    [
        pytest.param(number, way, marks=() if (number, way) in QUICK_SIGNALS else pytest.mark.long)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        for way in WAYS
    ],
)
def test_a_signal_burns_the_desk_before_the_command_ends(place: Place, number: int, way: str) -> None:
    if way == "holder":
        place.warm()
    with place.start("run", *WAYS[way], *SLEEP[1:]) as running:
        assert len(place.desks()) == 1
        running.send_signal(number)
        assert running.wait(WAITING_SECONDS) == 128 + number
        assert place.desks() == []
        assert running.stderr is not None
        assert running.stderr.read() == b""


@pytest.mark.parametrize(
    "whom",
    ["the holder", "both", *(pytest.param(each, marks=pytest.mark.long) for each in ("the command", "the keeper"))],
)
def test_killing_any_process_leaves_nothing(place: Place, whom: str) -> None:
    holder = place.warm()
    with place.start(*SLEEP) as running:
        assert place.owners() == [holder]
        wait_until(lambda: len(keepers(place.home)) == 1)  # the keeper of an earlier holder may still be ending
        [keeper] = keepers(place.home)
        victims = {"the command": [running.pid], "the holder": [holder], "both": [running.pid, holder]}
        for pid in victims.get(whom, [keeper]):
            os.kill(pid, signal.SIGKILL)
        running.communicate(timeout=WAITING_SECONDS)
    assert running.returncode == (125 if whom in ("the holder", "the keeper") else -signal.SIGKILL)
    if whom == "the keeper":
        assert place.call("run", "--", "true").returncode == 0  # its keeper cleans up what is left
    wait_until(lambda: not place.desks())
    wait_until(lambda: not any("sleep 9973" in thing for thing in things(place.home)))
    again = place.call("run", "--", "echo", "again")
    assert (again.returncode, again.stdout, again.stderr) == (0, b"again\n", b"")


@pytest.mark.long
def test_a_desk_that_ends_early_is_reported_as_without_a_holder(place: Place) -> None:
    place.warm()
    said = []
    for more in WAYS.values():
        with place.start("run", *more, "--", "sh", "-c", "echo up; sleep 9973") as running:
            [desk] = place.desks()
            assert place.call("burn", desk).returncode == 0
            _, complaint = running.communicate(timeout=WAITING_SECONDS)
            said.append((running.returncode, complaint.replace(desk.encode(), b"ID")))
    assert said[0] == said[1] == said[2]
    assert said[0][0] == 125


@pytest.mark.long
def test_changed_settings_select_another_holder_and_apply(place: Place) -> None:
    first = place.warm()
    (place.home / "etc").mkdir()
    (place.home / "etc/config.toml").write_text('memory_floor = "900G"\n')
    refused = place.call("run", "--", "true")
    assert (refused.returncode, b"of memory are available" in refused.stderr) == (125, True)
    (place.home / "etc/config.toml").unlink()
    assert place.call("run", "--", "true").returncode == 0
    assert first in place.holders()


@pytest.mark.long
def test_a_holder_with_outdated_code_opens_no_desks(place: Place, tmp_path: Path) -> None:
    source = tmp_path / "src"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
    place.env["PYTHONPATH"] = str(source)
    first = place.warm()
    os.utime(source / "hotdesk/desk/link/link.py")
    assert place.call("run", "--", "echo", "fine").stdout == b"fine\n"
    assert first not in place.holders()  # it is no longer found
    wait_until(lambda: not Path(f"/proc/{first}").exists())
    assert place.warm() != first


@pytest.mark.parametrize(
    "how", ["option", *(pytest.param(each, marks=pytest.mark.long) for each in ("variable", "setting"))]
)
def test_the_holder_can_be_disabled(place: Place, how: str) -> None:
    if how == "setting":
        (place.home / "etc").mkdir()
        (place.home / "etc/config.toml").write_text("[holder]\nenabled = false\n")
    env = {"HOTDESK_HOLDER": "off"} if how == "variable" else {}
    done = place.call("run", *(["--no-holder"] if how == "option" else []), "--", "echo", "alone", env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"alone\n", b"")
    time.sleep(1)
    assert not any((place.home / "run").glob("control/holder-*"))


@pytest.mark.long
def test_settings_limit_how_long_the_holder_stays(place: Place) -> None:
    (place.home / "etc").mkdir()
    (place.home / "etc/config.toml").write_text("[holder]\nidle = 0.5\n")
    place.warm(HOTDESK_LINGER="")
    wait_until(lambda: not place.holders() and not keepers(place.home))


@pytest.mark.long
def test_a_holder_whose_state_directory_is_gone_ends(place: Place) -> None:
    holder = place.warm()
    shutil.rmtree(place.home / "run/control")
    wait_until(lambda: not Path(f"/proc/{holder}").exists())


def test_undoing_the_set_up_ends_the_holder(place: Place) -> None:
    holder = place.warm()
    done = place.call("setup", "--undo", "--yes")
    assert done.returncode == 0, done.stderr
    assert not Path(f"/proc/{holder}").exists()
    assert not (place.home / "run").exists()


@pytest.mark.long
def test_many_commands_at_once_share_one_holder(place: Place) -> None:
    commands = [place.start("run", "--", "sh", "-c", "echo up; cat") for _ in range(3)]
    wait_until(place.holders)
    commands += [place.start("run", "--", "sh", "-c", "echo up; cat") for _ in range(3)]
    for number, running in enumerate(commands):
        out, _ = running.communicate(str(number).encode(), timeout=WAITING_SECONDS)
        assert (running.returncode, out) == (0, str(number).encode())
    assert len(place.holders()) == 1
    assert place.desks() == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("way", WAYS)
def test_the_journal_names_the_command_and_not_the_holder(place: Place, way: str) -> None:
    if way == "holder":
        place.warm()
    with place.start(
        "run", *WAYS[way], *SLEEP[1:], SUDO_UID="1000", SUDO_GID="1000", HOTDESK_REQUESTER="anna"
    ) as running:
        running.terminate()
        running.wait(WAITING_SECONDS)
    shown = place.call("journal", "show", "--json").stdout.decode()
    events = [json.loads(line) for line in shown.splitlines()]
    assert [each["event"] for each in events[-2:]] == ["Opened", "Burnt"]
    assert events[-2]["data"]["by"] == f"uid 0 pid {running.pid} sudo 1000 key anna"


def test_a_holder_keeps_nothing_of_the_shell_that_started_it(place: Place, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    script = f"exec 9>{lock}; flock 9; {sys.executable} -c 'from hotdesk.cli import main; main()' run -- true"
    env = place.environment(AWS_SECRET_ACCESS_KEY="a-secret")
    assert subprocess.run(["bash", "-c", script], env=env, check=False, stdin=subprocess.DEVNULL).returncode == 0
    assert subprocess.run(["flock", "--nonblock", lock, "true"], check=False).returncode == 0
    wait_until(place.holders)
    [holder] = place.holders()
    assert b"a-secret" not in Path(f"/proc/{holder}/environ").read_bytes()
    assert os.readlink(f"/proc/{holder}/cwd") == "/"
    assert os.getsid(holder) == holder


def test_a_command_at_an_open_desk_is_also_quick(place: Place) -> None:
    desk = place.call("open").stdout.decode().strip()
    done = place.call(
        "exec", desk, "--cwd", "/tmp", "--env", "A=b", "--", "sh", "-c", "pwd; echo $A; cat; exit 4", stdin=b"in"
    )
    assert (done.returncode, done.stdout, done.stderr) == (4, b"/tmp\nb\nin", b"")
    assert place.call("exec", desk[:8], "--", "true").returncode == 0
    with place.start("exec", desk, "--", "sh", "-c", "echo up; sleep 9971") as running:
        running.send_signal(signal.SIGINT)
        assert running.wait(WAITING_SECONDS) == 130
    assert place.call("exec", desk, "--", "pgrep", "-f", "sleep [9]971").returncode == 1
    refused = place.call("exec", desk, "--user", "root", "--", "id", "-u")
    assert (refused.returncode, refused.stdout) == (125, b"")
    assert place.call("burn", desk).returncode == 0
    assert place.call("exec", desk, "--", "true").returncode == 125
