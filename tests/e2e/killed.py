"""Carries out jobs on a machine without walls, and kills them as by kill -9: for tests of resuming.

One process loads everything and forks for each job, because a hundred separate starts would take long. Beside each job
it forks a process that answers the job's questions.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

from hotdesk.cli.job_request import JobRequest, make_brain, read_chosen
from hotdesk.config import Config
from hotdesk.desk.seam import new_id
from hotdesk.desk.wall.local.handle import list_programs, strike
from hotdesk.drive.journal import FILE, Journal
from hotdesk.drive.signing import load_signer
from hotdesk.errors import HotdeskError
from hotdesk.event import Event
from hotdesk.job.local import LocalMachine, local_machine
from hotdesk.job.people import wait
from hotdesk.job.record import papers
from hotdesk.work import JobContext, work

ANSWER = "a dozen"
LOOK = 0.02


@dataclass(frozen=True, slots=True)
class Errand:
    """One run of a job, from its start to its end or kill."""

    home: str
    folder: str
    """Folder of the brief and the script."""
    life: int = 0
    """Number of commits, or events, after which the job is killed; 0 for never."""
    job: str = ""
    """Id of the job to resume; empty for a new job."""
    whole: bool = True
    """Whether to kill between commits; otherwise between events, as if each were a commit of its own."""
    seconds: float = 0.0
    """Seconds after which the job is killed from outside; 0 for never."""
    answers: bool = True
    """Whether another process answers the job's questions."""
    say: str = "approved"
    """The answer to every approval that is not a question."""


@dataclass(slots=True)
class Doomed(LocalMachine):
    """A machine that kills its process after a number of commits or events."""

    life: int = 0
    whole: bool = True
    written: int = 0

    def note(self, *events: Event) -> None:
        for some in [events] if self.whole else [(event,) for event in events]:
            super(Doomed, self).note(*some)
            self.count()

    def certify(self, claim: Mapping[str, object]) -> bytes:
        signed = super(Doomed, self).certify(claim)
        self.count()
        return signed

    def count(self) -> None:
        self.written += 1
        if self.written == self.life:
            self.die()

    def die(self) -> None:
        """End as by kill -9, with the desks: these die with their owner, which otherwise is their keeper's work."""
        for _, outside in self.runtime.open_desks.values():
            outside.clear()
        os.kill(os.getpid(), signal.SIGKILL)


@asynccontextmanager
async def doomed(settings: Config, errand: Errand) -> AsyncIterator[Doomed]:
    async with local_machine(settings) as machine:
        yield Doomed(machine.config, machine.runtime, machine.journal, life=errand.life, whole=errand.whole)


def settings_at(home: Path) -> Config:
    return Config(run=home / "run", lib=home / "lib", images=home / "images")


async def carry_out(errand: Errand) -> str:
    """Begin or resume a job; return its outcome, and how many commits or events it wrote."""
    settings, folder = settings_at(Path(errand.home)), Path(errand.folder)
    (settings.lib / "jobs").mkdir(parents=True, exist_ok=True)
    if errand.job:
        chosen = read_chosen(papers.find(settings.lib / "jobs", errand.job).read_order())
    else:
        source = base64.b64encode((folder / "brain.py").read_bytes()).decode()
        brief, script = (folder / "brief.toml").read_text(), str(folder / "brain.py")
        chosen = JobRequest(brief, str(folder), "toml", script=script, source=source)
    wanted = chosen.build_job()
    brain = make_brain(chosen, wanted, settings)
    async with doomed(settings, errand) as machine:
        order = JobContext(
            machine, wanted, errand.job or new_id(), bool(errand.job), request=chosen.as_bytes(), exact=True
        )
        receipt = await work(order, brain)
    return f"{receipt.outcome} {machine.written}"


def answer_all(errand: Errand) -> str:
    settings = settings_at(Path(errand.home))
    keys = settings.lib / "keys"
    while not (keys / FILE).exists():
        time.sleep(LOOK)
    journal = Journal(keys / FILE, load_signer(keys))
    while True:
        for found in wait.read_all_waiting(keys / FILE).values():
            for pending in found.open:
                kept = papers.find(settings.lib / "jobs", pending.job)
                card = wait.read_card(kept.read_text(pending.paper))
                question = pending.kind == "question"
                said, words = ("answered", ANSWER) if question else (errand.say, "")
                told = wait.decide(pending, card, kept, said, f"pid {os.getpid()}", words=words)
                journal.add(pending.job, "owner", told)
                journal.commit()
        time.sleep(LOOK)


def forked(work: Callable[[], str], wire: int) -> int:
    if pid := os.fork():
        return pid
    try:
        said = work()
    except HotdeskError as e:
        said = f"{type(e).__name__}: {e}"
    except BaseException:  # noqa: BLE001 - the end of a process
        said = traceback.format_exc()
    with suppress(OSError):
        os.write(wire, said.encode())
    os._exit(0)


def live(errand: Errand) -> dict[str, object]:
    """Run an errand; return its output, and whether it was killed."""
    other = forked(lambda: answer_all(errand), -1) if errand.answers else 0
    inner, outer = os.pipe()
    pid = forked(lambda: anyio.run(carry_out, errand), outer)
    os.close(outer)
    if errand.seconds:
        time.sleep(errand.seconds)
        os.kill(pid, signal.SIGKILL)
    with open(inner) as file:
        said = file.read()
    _, status = os.waitpid(pid, 0)
    if other:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)
    left = [folder.name for folder in Path(tempfile.gettempdir()).glob("hotdesk-i*")]
    clear_up()
    if left and not errand.seconds:
        said += f"; left {left}"
    return {"said": said, "killed": os.WIFSIGNALED(status)}


def clear_up() -> None:
    """End the desks of processes killed from outside, which otherwise is their keeper's work."""
    for folder in Path(tempfile.gettempdir()).glob("hotdesk-i*"):
        while left := list_programs(folder / "home"):
            strike(left, signal.SIGKILL)
            time.sleep(LOOK)
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Run one errand after the other, each a line of JSON on standard input."""
    with suppress(KeyboardInterrupt):
        for line in sys.stdin:
            print(json.dumps(live(Errand(**json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
