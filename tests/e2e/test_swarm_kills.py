"""Tests of a swarm whose owner, keeper, door and keys are killed at random: its result equals an undisturbed one.

HOTDESK_SWARM_ITEMS=10000 pytest tests/e2e/test_swarm_kills.py
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.event import ItemEnded, Resumed
from tests.e2e.conftest import Hotdesk
from tests.e2e.server import door_template
from tests.e2e.server.door_template import HOST
from tests.e2e.swarm_processes import KILLED, SwarmProcess, source_path, write_brief
from tests.swarm_room import SCRIPT

COUNT = int(os.environ.get("HOTDESK_SWARM_ITEMS", "200"))
MIDDLE = max(300, COUNT)
pytestmark = [pytest.mark.container, pytest.mark.long, pytest.mark.timeout(1500 + COUNT)]
VICTIMS = ("owner", "keeper", "door", "keys")
ROUNDS = 3
"""How often each part is killed."""
FETCHING = max(1, COUNT // 200)
"""Every how many items one goes through the door, which costs a Python at its desk; every item's desk has a door."""
FETCH = """
    if int(hands.item.removeprefix("line-")) %% %d == 0:
        await fetch(hands)
"""
FETCHER = """
async def fetch(hands):
    "Fetch a page."
    page = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=30).status)"
    done = await hands.run(["python3", "-c", page, "http://%s/words/" + hands.item], timeout=60)
    if not done.ok:
        raise ValueError("it was refused")
"""
READ = '    word = (await hands.read("item.txt")).decode().strip()\n'


@pytest.fixture(scope="module")
def fetching() -> str:
    assert READ in SCRIPT
    return SCRIPT.replace(READ, READ + FETCH % FETCHING) + FETCHER % HOST


@pytest.fixture
def site(settings: Config) -> Iterator[None]:
    with door_template.site() as names:
        folder = settings.run.parent / "etc"
        folder.mkdir(exist_ok=True)
        (folder / "config.toml").write_text(names)
        yield


def test_random_kills_of_every_part_change_only_times(
    settings: Config, site: None, fetching: str, hotdesk: Hotdesk, tmp_path: Path
) -> None:
    for name in ("calm", "killed"):
        (tmp_path / name).mkdir()
    write = partial(write_brief, count=COUNT, egress=f"GET http://{HOST}/words/{{item}}", script=fetching)
    calm = SwarmProcess(settings, write(tmp_path / "calm"))
    assert calm.run() == 0, (calm.brief / "said").read_text()[-2000:]
    seed = time.time_ns() % 10_000
    chance = random.Random(seed)
    victims = [victim for _ in range(ROUNDS) for victim in chance.sample(VICTIMS, len(VICTIMS))]
    swarm = SwarmProcess(settings, write(tmp_path / "killed"))
    plan = [(victim, chance.randint(1, COUNT // len(victims) - 2)) for victim in victims]
    code = -1
    for _ in range(len(plan) + 2):
        if code not in (0, 1):
            code = swarm.run(*plan[len(swarm.kills) :])
    said = f"seed {seed}, killed {swarm.kills}: {(swarm.brief / 'said').read_text()[-2000:]}"
    assert code == 0, said
    assert set(swarm.kills) == set(VICTIMS), said
    assert swarm.read_result() == calm.read_result(), said
    records = [each for each in swarm.list_records() if each.outcome == "done"]
    assert len(records) == len({each.item for each in records}) == COUNT, f"an item was repeated; {said}"
    assert hotdesk("journal", "verify", **source_path()).returncode == 0


def test_a_swarm_of_many_items_that_was_killed_at_its_middle_continues_within_seconds(
    settings: Config, tmp_path: Path
) -> None:
    swarm = SwarmProcess(settings, write_brief(tmp_path, MIDDLE))
    assert swarm.run(("owner", MIDDLE // 2)) == KILLED
    before, began = len(swarm.list_records()), time.monotonic()
    with swarm.process() as process:
        assert process.stdout is not None
        for line in process.stdout:
            if b'"ItemEnded"' in line:
                took = time.monotonic() - began
                break
        process.stdout.read()
    assert process.returncode == 0
    print(f"{MIDDLE} items, killed after {before}: the next ended {took:.2f} s after its process was started")
    assert took < 10.0, "promised are 5 s, on a quiet machine"
    events = swarm.read_events()
    assert sum(isinstance(event, Resumed) for event in events) == 1
    assert sum(isinstance(event, ItemEnded) for event in events) == MIDDLE > before
