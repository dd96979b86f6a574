"""Tests of a job's lock: only one process works at a job."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hotdesk.errors import BriefError
from hotdesk.job.record.lock import hold_lock, is_held

HOLD = """
import sys, time
from pathlib import Path
from hotdesk.job.record.lock import hold_lock
with hold_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_a_lock_belongs_to_one_process_and_ends_with_it(tmp_path: Path) -> None:
    assert not is_held(tmp_path)
    env = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, env=env)
    assert holder.stdout is not None
    holder.stdout.readline()
    assert is_held(tmp_path)
    with pytest.raises(BriefError, match="another process is running"), hold_lock(tmp_path):
        pass
    holder.kill()
    holder.wait(10)
    holder.stdout.close()
    assert not is_held(tmp_path)
    with hold_lock(tmp_path):
        assert is_held(tmp_path)


def test_a_missing_lock_counts_as_free(tmp_path: Path) -> None:
    assert not is_held(tmp_path / "gone")
    with pytest.raises(BriefError, match="was deleted"), hold_lock(tmp_path / "gone"):
        pass


@pytest.mark.slow
def test_reading_a_lock_does_not_block_workers(tmp_path: Path) -> None:
    with hold_lock(tmp_path):
        pass
    stop, failed = threading.Event(), []

    def look() -> None:
        while not stop.is_set():
            is_held(tmp_path)

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for each in lookers:
        each.start()
    for _ in range(100):
        try:
            with hold_lock(tmp_path):
                pass
        except BriefError as e:
            failed.append(e)
    stop.set()
    for each in lookers:
        each.join(10)
    assert failed == []
