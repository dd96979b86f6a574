"""Tests of freezing objects that survive a full collection; in a separate process, since freezing is permanent."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc
from hotdesk.api.garbage import SurvivorFreezer

freezer = SurvivorFreezer(2)
freezer.start()
counts = [gc.get_freeze_count()]
kept = []
for _ in range(4):
    kept.append([[] for _ in range(1000)])
    gc.collect()
    counts.append(gc.get_freeze_count())
freezer.stop()
print(*(after - before >= 1000 for before, after in zip(counts, counts[1:])), freezer.note_collection in gc.callbacks)
"""


def test_survivors_of_the_first_full_collections_are_frozen_and_no_later_ones() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "False", "False", "False"]
