"""Tests of how `hotdesk watch` opens the user's browser."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hotdesk.linux.landlock import is_supported

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from hotdesk.cli.desks.watch import open_browser
from hotdesk.linux.landlock import confine
with open_browser("http://127.0.0.1:1/enter/code", True):
    confine([])
    while not Path(sys.argv[1]).exists():
        time.sleep(0.01)
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""
OPENER = '#!/bin/sh\n{ cat "$1"; echo; stat -c %a "$1" "$(dirname "$1")"; } > "$SEEN.new"; mv "$SEEN.new" "$SEEN"\n'


@pytest.mark.skipif(not is_supported(), reason="this kernel has no Landlock")
@pytest.mark.parametrize("how", ["ends", "killed"])
def test_the_file_for_the_browser_is_removed_by_a_command_that_may_not_write(tmp_path: Path, how: str) -> None:
    opener, seen, place = tmp_path / "xdg-open", tmp_path / "seen", tmp_path / "place"
    opener.write_text(OPENER)
    opener.chmod(0o755)
    place.mkdir()
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(place), "DISPLAY": ":0"}
    argv = [sys.executable, "-c", SCRIPT, str(seen), how]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env={**env, "SEEN": str(seen)})
    assert (done.returncode, done.stderr) == (0 if how == "ends" else -signal.SIGKILL, "")
    assert "url=http://127.0.0.1:1/enter/code" in seen.read_text()
    assert seen.read_text().split()[-2:] == ["600", "700"]
    deadline = time.monotonic() + 10
    while list(place.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert list(place.iterdir()) == []
