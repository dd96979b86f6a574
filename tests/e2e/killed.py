"""Carries a job out on a machine without walls, and kills itself right after the nth event: for tests of resuming."""

from __future__ import annotations

import base64
import os
import signal
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from hotdesk.cli.carrying import Chosen, brain_of, read_chosen
from hotdesk.config import Config
from hotdesk.desk.seam import new_id
from hotdesk.event import Event
from hotdesk.job import papers
from hotdesk.job.local import LocalMachine, local_machine
from hotdesk.work import Order, work

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass(slots=True)
class Doomed(LocalMachine):
    """Dies when it has written so many events down; 0: never."""

    life: int = 0
    written: int = 0

    def note(self, *events: Event) -> None:
        """Write events down one by one, as if each were a commit of its own, and die on time."""
        for event in events:
            super(Doomed, self).note(event)
            self.written += 1
            if self.written == self.life:
                self.die()

    def die(self) -> None:
        """End as by kill -9; desks end with their owner, which elsewhere their keeper sees to."""
        for _, outside in self.runtime.open_desks.values():
            outside.clear()
        os.kill(os.getpid(), signal.SIGKILL)


@asynccontextmanager
async def doomed(settings: Config, life: int) -> AsyncIterator[Doomed]:
    """Give a machine that dies."""
    async with local_machine(settings) as machine:
        yield Doomed(machine.config, machine.runtime, machine.journal, life)


def settings_at(home: Path) -> Config:
    """Give the settings of a state directory."""
    return Config(run=home / "run", lib=home / "lib", images=home / "images")


async def carry_out(home: Path, script: Path, life: int, job: str) -> str:
    """Begin a job, or go on with one; give how it ended."""
    settings = settings_at(home)
    (settings.lib / "jobs").mkdir(parents=True, exist_ok=True)
    if job:
        chosen = read_chosen(papers.find(settings.lib / "jobs", job).order())
    else:
        brief = (script.parent / "brief.toml").read_text()
        source = base64.b64encode(script.read_bytes()).decode()
        chosen = Chosen(brief, str(script.parent), "toml", script=str(script), source=source)
    wanted = chosen.job()
    brain = brain_of(chosen, wanted, settings)
    async with doomed(settings, life) as machine:
        order = Order(machine, wanted, job or new_id(), bool(job), kept=chosen.as_bytes(), exact=True)
        receipt = await work(order, brain)
    return receipt.outcome


if __name__ == "__main__":
    home, script, life, job = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    print(anyio.run(carry_out, home, script, life, job))
