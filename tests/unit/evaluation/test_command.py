"""Tests of running hotdesk as a child process: its last line, limits, and end."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.errors import HostError
from hotdesk.evaluation.command import get_last_line, make_state, read_lines, repeat_option


def test_the_last_line_is_the_programs_unless_hotdesk_failed() -> None:
    text = "Traceback\nValueError: no\nhotdesk: in the desk: no such file\n\n"
    assert get_last_line(text, is_own=False) == "ValueError: no"
    assert get_last_line(text, is_own=True) == "in the desk: no such file"
    assert get_last_line("", is_own=True) == "the command printed no error"
    assert len(get_last_line("x" * 5000, is_own=False)) == 300


def test_an_option_is_repeated() -> None:
    assert repeat_option("--in", ["a", "b"]) == ["--in", "a", "--in", "b"]


def state_in(folder: Path) -> Config:
    return Config(run=folder / "run", lib=folder / "lib", images=folder / "images", disk_floor=0)


async def test_a_command_runs_in_its_own_state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTDESK_TENANT", "other")
    state = make_state(tmp_path / "state", state_in(tmp_path))
    assert state.environment["HOTDESK_HOME"] == str(tmp_path / "state")
    assert state.environment["HOTDESK_IMAGES"] == str(tmp_path / "images")
    assert "HOTDESK_TENANT" not in state.environment
    assert "HOTDESK_DISK_FLOOR" not in state.environment
    done = await state.run("--version")
    assert (done.exit_code, done.output[:8]) == (0, b"hotdesk ")
    done = await state.run("journal", "wrong")
    assert (done.exit_code, "has no command" in done.complaint) == (125, True)
    await state.wait_until_burnt()


async def test_a_command_that_prints_too_much_or_takes_too_long_is_ended(tmp_path: Path) -> None:
    state = make_state(tmp_path / "state", state_in(tmp_path))
    with pytest.raises(HostError, match="printed more than 0 KiB"):
        await state.run("--help", limit=100)
    (tmp_path / "sleeper.py").write_text("import time\ndef main():\n    print('up', flush=True)\n    time.sleep(100)\n")
    state = replace(state, environment={**state.environment, "PYTHONPATH": str(tmp_path)})
    began = time.monotonic()
    async with state.start("sleep", module="sleeper") as process:
        assert process.stdout is not None
        assert await anext(read_lines(process.stdout, 10, "sleeper")) == b"up"
        pid = process.pid
    assert time.monotonic() - began < 50
    assert not os.path.exists(f"/proc/{pid}")
