"""Tests of `hotdesk run, open, exec, cp, ps, burn` with the real program and real desks."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from hotdesk.config import Config
from tests.e2e.conftest import PROGRAM, Hotdesk, environment

pytestmark = pytest.mark.container


def test_six_times_seven_is_42(hotdesk: Hotdesk) -> None:
    done = hotdesk("run", "--", "python3", "-c", "print(6*7)")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"42\n", b"")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["sh", "-c", "exit 3"], 3),
        (["/etc/passwd"], 126),
        (["no-such-program"], 127),
        (["sh", "-c", "kill -TERM $$"], 128 + 15),
    ],
)
def test_the_exit_code_is_the_commands(hotdesk: Hotdesk, argv: list[str], code: int) -> None:
    assert hotdesk("run", "--", *argv).returncode == code


def test_every_desk_secret_and_key_is_in_the_journal_with_its_creator(hotdesk: Hotdesk) -> None:
    assert hotdesk("run", "--", "true").returncode == 0
    assert hotdesk("vault", "set", "erp-token", stdin=b"a-token-of-some-length").returncode == 0
    key = hotdesk("key", "new", "--name", "ci").stdout.decode().strip()
    assert hotdesk("key", "revoke", key[4:12]).returncode == 0
    shown = hotdesk("journal", "show", "--json").stdout.decode()
    events = [json.loads(line) for line in shown.splitlines()]
    assert key[12:] not in shown
    assert "a-token-of-some-length" not in shown
    told = {each["event"]: each["data"] for each in events}
    assert told.keys() >= {"Opened", "Burnt", "VaultChanged", "KeyChanged"}
    assert all(told[name]["by"].startswith("uid 0 pid ") for name in ("Opened", "VaultChanged", "KeyChanged"))
    assert [each["data"]["what"] for each in events if each["event"] == "KeyChanged"] == ["made", "revoked"]
    assert hotdesk("journal", "verify").returncode == 0


def test_a_timeout_is_124(hotdesk: Hotdesk) -> None:
    done = hotdesk("run", "--timeout", "0.5", "--", "sleep", "60")
    assert done.returncode == 124
    assert b"did not end within 0.5 s" in done.stderr


def test_hotdesks_own_failure_is_125_in_one_line(hotdesk: Hotdesk) -> None:
    done = hotdesk("run", "--image", "no-such-image", "--", "true")
    assert done.returncode == 125
    assert done.stderr.count(b"\n") == 1
    assert b"the images are " in done.stderr
    assert b" base" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "argv", [["run"], ["run", "--memory", "lots", "--", "true"], ["exec", "nonsense", "--", "true"]]
)
def test_a_wrong_call_gets_an_error_without_a_traceback(hotdesk: Hotdesk, argv: list[str]) -> None:
    done = hotdesk(*argv)
    assert done.returncode == 125
    assert b"Traceback" not in done.stderr
    assert done.stderr.startswith(b"hotdesk: ")


def test_debug_shows_the_traceback(hotdesk: Hotdesk) -> None:
    assert b"Traceback" in hotdesk("run", "--debug", "--image", "no-such-image", "--", "true").stderr


def test_stdout_and_stderr_are_complete_and_separate(hotdesk: Hotdesk) -> None:
    data = os.urandom(300_000)
    done = hotdesk("run", "--", "sh", "-c", "cat; echo aside >&2", stdin=data)
    assert done.stdout == data
    assert done.stderr == b"aside\n"


def test_options_reach_the_desk(hotdesk: Hotdesk) -> None:
    script = "echo $WORD; df -B1 --output=size / | tail -1"
    done = hotdesk("run", "--env", "WORD=hello=there", "--disk-in", "memory", "--disk", "64M", "--", "sh", "-c", script)
    assert done.stdout.split() == [b"hello=there", str(64 << 20).encode()]


def test_files_are_copied_in_and_out_even_after_a_failure(hotdesk: Hotdesk, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("one\n")
    (tmp_path / "in/run.sh").write_text("#!/bin/sh\nmkdir -p out/deep; cp in/a.txt out/deep/; exit 7\n")
    (tmp_path / "in/run.sh").chmod(0o755)
    carried = ["--in", f"{tmp_path}/in:in", "--out", f"out:{tmp_path}/out"]
    done = hotdesk("run", *carried, "--", "in/run.sh")
    assert done.returncode == 7, done.stderr
    assert (tmp_path / "out/deep/a.txt").read_text() == "one\n"


def test_a_desk_stays_open_until_it_is_burnt(hotdesk: Hotdesk, tmp_path: Path) -> None:
    name = hotdesk("open", "--memory", "256M").stdout.decode().strip()
    try:
        listed = json.loads(hotdesk("ps", "--json").stdout)
        assert [(told["id"], told["state"], told["image"]) for told in listed] == [(name, "open", "base")]
        assert name in hotdesk("ps").stdout.decode()
        (tmp_path / "word").write_text("kept")
        assert hotdesk("cp", f"{tmp_path}/word", f"{name}:a/word").returncode == 0
        assert hotdesk("exec", name, "--", "cat", "a/word").stdout == b"kept"
        options = ["--cwd", "a", "--env", "X=1", "--timeout", "30"]
        done = hotdesk("exec", name, *options, "--", "sh", "-c", "pwd; echo $X; exit 4")
        assert (done.returncode, done.stdout) == (4, b"/home/user/a\n1\n")
        assert hotdesk("exec", name, "--timeout", "0.3", "--", "sleep", "60").returncode == 124
        assert hotdesk("cp", f"{name}:a", f"{tmp_path}/back").returncode == 0
        assert (tmp_path / "back/word").read_text() == "kept"
    finally:
        assert hotdesk("burn", name).returncode == 0
    assert json.loads(hotdesk("ps", "--json").stdout) == []
    assert hotdesk("burn", name).returncode == 0
    gone = hotdesk("exec", name, "--", "true")
    assert gone.returncode == 125
    assert b"is not open" in gone.stderr
    wait_for_holder(hotdesk)


@pytest.mark.long
def test_the_beginning_of_an_id_is_enough(hotdesk: Hotdesk, tmp_path: Path) -> None:
    first, second = (hotdesk("open").stdout.decode().strip() for _ in range(2))
    short = next(first[:length] for length in range(4, 22) if not second.startswith(first[:length]))
    assert hotdesk("exec", short, "sh", "-c", "echo $0 -la", "ls").stdout == b"ls -la\n"
    (tmp_path / "a").write_text("local")
    assert hotdesk("cp", str(tmp_path / "a"), f"{short}:b").returncode == 0
    assert hotdesk("cp", f"{short}:b", str(tmp_path / "c")).returncode == 0
    assert (tmp_path / "c").read_text() == "local"
    missing = hotdesk("cp", f"{short}:nothing", str(tmp_path))
    assert (missing.returncode, b"in the desk: nothing: " in missing.stderr) == (125, True), missing.stderr
    assert first.encode() in hotdesk("usage", short).stdout
    assert hotdesk("burn", short).returncode == 0
    assert [second] == [each["id"] for each in json.loads(hotdesk("ps", "--json").stdout)]
    assert hotdesk("burn", second).returncode == 0


@pytest.mark.long
def test_a_prefix_of_no_id_or_of_several_is_reported(hotdesk: Hotdesk, settings: Config) -> None:
    names = ["i" + "aaaa" * 4 + end * 4 for end in ("b", "c")]
    for name in names:
        (settings.run / "desks" / name).mkdir(parents=True)
        (settings.run / "desks" / name / "desk.json").write_text(json.dumps({"id": name, "image": "base"}))
    several = hotdesk("exec", "iaaaa", "true").stderr.decode()
    for name in names:
        shutil.rmtree(settings.run / "desks" / name)
    assert (
        several
        == f"hotdesk: several open desks start with 'iaaaa': {', '.join(names)}; pass more characters of the id\n"
    )
    none = hotdesk("exec", "izzzzz", "true").stderr
    assert b"'izzzzz' is not the id of an open desk or a prefix of one; `hotdesk ps`" in none
    assert b"at least 4 characters" in hotdesk("exec", "iz", "true").stderr
    assert b"is neither a job nor an open desk" in hotdesk("resume", "nope").stderr


def test_verifying_a_file_that_is_missing_names_that_file(hotdesk: Hotdesk, tmp_path: Path) -> None:
    done = hotdesk("verify", str(tmp_path / "nofile"))
    assert f"{tmp_path / 'nofile'} cannot be read".encode() in done.stderr


@pytest.mark.long
def test_removing_an_image_that_others_need_asks_first(tmp_path: Path, hotdesk: Hotdesk) -> None:
    store = tmp_path / "images"
    shared, own = "a" * 64, "b" * 64
    for layer in (shared, own):
        (store / "layers" / layer).mkdir(parents=True)
    (store / "images").mkdir()
    for name, layers in {"below": [shared], "above": [own, shared]}.items():
        made = {"schema": 1, "name": name, "digest": "d", "layers": layers, "python": "/p", "arch": "a"}
        (store / f"images/{name}.json").write_text(json.dumps({**made, "built": 1, "size": 1, "source": "test"}))
    refused = hotdesk("image", "rm", "below", HOTDESK_IMAGES=str(store))
    assert (refused.returncode, b"above is built on image below; " in refused.stderr) == (125, True)
    assert b"--yes" in refused.stderr
    assert hotdesk("image", "rm", "--yes", "below", HOTDESK_IMAGES=str(store)).returncode == 0
    assert hotdesk("image", "rm", "above", HOTDESK_IMAGES=str(store)).returncode == 0
    assert os.listdir(store / "images") == []


@pytest.mark.long
def test_two_open_desks_share_a_holder_and_burn_together(hotdesk: Hotdesk) -> None:
    names = {hotdesk("open").stdout.decode().strip() for _ in range(2)}
    listed = json.loads(hotdesk("ps", "--json").stdout)
    assert {told["id"] for told in listed} == names
    assert len({told["owner"] for told in listed}) == 1
    assert hotdesk("burn", "--all").returncode == 0
    assert json.loads(hotdesk("ps", "--json").stdout) == []
    wait_for_holder(hotdesk)


def wait_for_holder(hotdesk: Hotdesk) -> None:
    """Wait until the holder, which has no desks, has ended."""
    home = hotdesk.__closure__[0].cell_contents.run if hotdesk.__closure__ else Path("/")
    end = time.monotonic() + 20
    while any((home / "control").glob("holder-*.sock")) and time.monotonic() < end:
        time.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_burns_its_desk(settings: Config, number: signal.Signals) -> None:
    script = ["run", "--", "sh", "-c", "echo up; sleep 60"]
    with subprocess.Popen([PROGRAM, *script], stdout=subprocess.PIPE, env=environment(settings)) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        running.send_signal(number)
        code = running.wait(20)
    assert code == (-9 if number == signal.SIGKILL else 128 + number)


def test_ctrl_c_at_a_terminal_burns_the_desk(settings: Config) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(  # noqa: S606
            PROGRAM, [PROGRAM, "run", "--", "sh", "-c", "echo up; sleep 60"], environment(settings)
        )
    try:
        seen = b""
        while b"up" not in seen:
            seen += os.read(terminal, 1024)
        os.write(terminal, b"\x03")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    finally:
        os.close(terminal)


def test_help_shows_examples_and_every_command(hotdesk: Hotdesk) -> None:
    text = hotdesk("--help").stdout.decode()
    for command in ("run", "open", "exec", "cp", "ps", "burn", "image", "setup"):
        assert command in text
    assert "hotdesk run -- python3" in hotdesk("run", "--help").stdout.decode()


@pytest.mark.long
def test_a_desk_pauses_resumes_and_reports_its_use(hotdesk: Hotdesk) -> None:
    desk = hotdesk("open").stdout.decode().strip()
    assert hotdesk("pause", desk).returncode == 0
    assert json.loads(hotdesk("ps", "--json").stdout)[0]["state"] == "paused"
    assert hotdesk("resume", desk).returncode == 0
    assert json.loads(hotdesk("ps", "--json").stdout)[0]["state"] == "open"
    used = json.loads(hotdesk("usage", desk, "--json").stdout)[0]
    assert used["id"] == desk
    assert used["pids"] >= 1
    assert used["memory"] > 1 << 20
    table = hotdesk("usage").stdout.decode().splitlines()
    assert table[0].split()[:3] == ["ID", "TENANT", "CPU"]
    assert table[1].startswith(desk)
    assert hotdesk("burn", desk).returncode == 0
    assert hotdesk("usage", desk).returncode == 125


def test_root_inside_is_there_only_where_it_was_allowed(hotdesk: Hotdesk) -> None:
    assert hotdesk("run", "--root", "--", "sudo", "id", "-u").stdout == b"0\n"
    assert hotdesk("run", "--", "sudo", "id", "-u").returncode == 127
    desk = hotdesk("open").stdout.decode().strip()
    done = hotdesk("exec", desk, "--user", "root", "--", "id")
    assert done.returncode == 125
    assert b"was opened without root; open a desk with root (`--root`)" in done.stderr
    hotdesk("burn", desk)


def test_a_workers_tools_are_used_by_hand_and_keep_their_state_between_calls(hotdesk: Hotdesk, tmp_path: Path) -> None:
    desk = hotdesk("open").stdout.decode().strip()
    assert hotdesk("use", desk, "shell", "command=cd /tmp && word=kept").returncode == 0
    told = hotdesk("use", desk, "shell", "command=echo $word in $PWD")
    assert (told.returncode, told.stdout.decode().splitlines()[0]) == (0, "kept in /tmp")
    wrong = hotdesk("use", desk, "file_view", "start=two")
    assert wrong.returncode == 1
    assert b"path is missing; start is 'two', not a whole number. Arguments: path: text, required" in wrong.stdout
    listed = hotdesk("use", desk).stdout
    assert b"\nfile_view path [start]" in listed
    assert b"screen_" not in listed, "this image has no screen"
    assert hotdesk("burn", desk).returncode == 0
    assert b"is not open" in hotdesk("use", desk, "shell", "command=true").stderr
