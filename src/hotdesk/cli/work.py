"""`hotdesk work`: carry out a brief."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hotdesk import config
from hotdesk.brain.scripted import load_brain
from hotdesk.brief.job import read_job
from hotdesk.checks import find
from hotdesk.cli import options, unlock
from hotdesk.cli.run import show
from hotdesk.cli.terminal import run_interruptible
from hotdesk.config import Config
from hotdesk.desk import image, sterilize
from hotdesk.desk.confine import confine
from hotdesk.door.scope import scope_of
from hotdesk.drive.keep import Drive
from hotdesk.drive.receipt import Receipt
from hotdesk.errors import BriefError, printable
from hotdesk.event import Event, JobBegun, JobEnded, Kept, StepBegun, StepEnded, Verified
from hotdesk.host import Host, control_path
from hotdesk.work import work

UNDONE = 1
"""Exit code of a job whose work or check failed."""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("brief", type=Path, help="a brief, or the folder of one: brief.toml, with brain.py beside it")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="copy what was kept there, too")
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Carry out a brief: plan, act at one desk, check the result in a second one, keep it, burn both.

    Progress goes to standard error, the path of each result to standard output. Exit code 0 means that every check
    passed, 1 that the work or a check failed, 125 that hotdesk did. Ctrl-C burns the desks at once.

    brain.py runs on this machine with your rights, as every script you start: look at it before you run it.

    For example:

      hotdesk work examples/invoices-small
      hotdesk work examples/invoices-small --out ./results
      hotdesk work brief.toml --json | jq .requests
    """
    job, settings, progress = read_job(arguments.brief, scope_of), config.load(), Progress()
    key = unlock.find(settings, job.scope)
    if os.geteuid() == 0:
        for name in {find(item.check, item.expect).image for item in job.deliverables}:
            sterilize.make(settings.images, image.find(settings.images, name), say)

    async def carry_out() -> int:
        async with Host(settings) as host:
            own = [control_path(settings, 0).parent]
            confine([*prepared(settings, arguments.out), *own], any_owner=True, dials=bool(job.look))
            host.doors.asked = show
            if key:
                await host.doors.unlock(key)
            receipt = await work(host, job, load_brain(job.folder), progress.show)
        return finish(receipt, Drive(settings.lib / "drive"), arguments)

    code = run_interruptible(carry_out)
    if code >= 128:
        progress.interrupted()
    return code


def prepared(settings: Config, out: Path | None) -> list[Path]:
    """Make the folders results go to, before the right to make others is gone."""
    folders = [settings.lib / "drive"]
    Drive(folders[0])
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        folders.append(out)
    return folders


def finish(receipt: Receipt, drive: Drive, arguments: argparse.Namespace) -> int:
    """Print what became of the job; give the exit code."""
    paths = {item.path: drive.place(receipt.job, item.path) for item in receipt.kept}
    if arguments.out is not None:
        paths = {name: copied(arguments.out, name, drive.find(receipt.job, name)) for name in paths}
    say(*told(receipt))
    if arguments.json:
        print(json.dumps({**asdict(receipt), "paths": {name: str(path) for name, path in paths.items()}}, indent=1))
    else:
        print(*(printable(str(path)) for path in paths.values()), sep="\n", end="\n" if paths else "")
    return 0 if receipt.outcome == "done" else UNDONE


def copied(folder: Path, name: str, data: bytes) -> Path:
    """Copy a result to where it is wanted, whole, through no link."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f".{secrets.token_hex(8)}")
    try:
        with made.open("xb") as file:
            file.write(data)
        os.replace(made, path)
    except OSError as e:
        made.unlink(missing_ok=True)
        raise BriefError(f"{path} cannot be written: {e.strerror}; the result is kept all the same") from e
    return path


def say(*lines: str) -> None:
    """Tell a person, with nothing in it that could steer a terminal."""
    for line in lines:
        print(printable(line), file=sys.stderr, flush=True)


def told(receipt: Receipt) -> list[str]:
    """Write a receipt for people."""
    lines = [f"receipt of job {receipt.job}: {receipt.outcome}{f', {receipt.why}' if receipt.why else ''}"]
    lines += [f"  kept     {item.path}, {item.size} bytes, sha256 {item.sha256}" for item in receipt.kept]
    lines += [f"  checked  {each.path} by {each.check}: {each.outcome}" for each in receipt.checks]
    for each in receipt.requests:
        grants = f" with {', '.join(each.grants)}" if each.grants else ""
        lines.append(f"  door     {each.count} x {each.verdict} {each.method} {each.host}{grants}")
    lines += [f"  burnt    desk {desk}" for desk in receipt.burnt]
    return [*lines, *(f"  LEFT     desk {desk}; `hotdesk burn {desk}`" for desk in receipt.left)]


@dataclass(slots=True)
class Progress:
    """Shows a job as it goes on."""

    open: dict[str, None] = field(default_factory=dict)
    """Desks that are open."""

    def show(self, event: Event) -> None:
        """Show one event."""
        match event:
            case JobBegun():
                say(f"job {event.job}: {event.goal}")
            case StepBegun(step="desk", desk=desk):
                self.open[desk] = None
                say(f"desk     {desk}, {event.what}")
            case StepBegun():
                say(f"{event.step:8} {event.what}")
            case StepEnded(step="desk", desk=desk, outcome="done"):
                self.open.pop(desk, None)
                say(f"burnt    {desk}")
            case StepEnded(outcome="failed"):
                say(f"{event.step:8} failed: {event.note}")
            case Verified():
                say(f"{event.outcome:8} {event.path}: {'; '.join(event.findings)}")
            case Kept():
                say(f"kept     {event.path}, sha256 {event.sha256}")
            case JobEnded(outcome="interrupted"):
                say("interrupted")

    def interrupted(self) -> None:
        """Say what is left of a job that was broken off."""
        left = "; ".join(f"`hotdesk burn {desk}`" for desk in self.open)
        say(f"hotdesk: the job was broken off; {f'desks are left: {left}' if left else 'its desks are burnt'}")
