"""`make demo`: 500 invoices are made and audited against an ERP, and a judge compares what came of it with the truth.

sudo .venv/bin/python examples/audit/run.py [--seed N] [--count N] [--out FOLDER]
sudo .venv/bin/python examples/audit/run.py --edit 17 --total 9999.00      then:      run.py --again
sudo .venv/bin/python examples/audit/run.py --replay [FILE]                repeat a recorded model's decisions
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).absolute().parents[2]))

from examples import trial
from examples.audit import erp as erps
from examples.audit import paper, spent
from examples.audit.invoices import COUNT, ODD, think_up
from examples.audit.room import Room
from examples.audit.truth import Truth
from examples.recording import FOLDER, Recording, write_note

from hotdesk.drive.signing import compute_fingerprint, load_own_public
from hotdesk.walls import NAMES

HERE = Path(__file__).absolute().parent
BRIEF = ("brief.toml", "TASK.md", "brain.py", "extract.py", "parse.py", "report.py")
BOOK = "Discrepancy_Report.xlsx"
CERTIFICATE = f"{BOOK}.certificate.json"
ENDED = (0, 1)
"""Exit codes of a job that nobody can go on with: done, or failed."""
BROKEN = 128
"""Above it are the exit codes of a job that was interrupted twice; nobody can go on with that, either."""


def main() -> int:
    """Do what the command line asks for."""
    told = arguments()
    out: Path = told.out.absolute()
    invoices = out / "audit/invoices"
    if told.edit:
        truth = Truth.load(out)
        truth.edit(invoices, told.edit, round(told.total * 100))
        truth.save(out)
        say(f"invoice-{told.edit:03}.pdf says {told.total:,.2f} now; `make demo AGAIN=1` audits it again")
        return 0
    begun = time.monotonic()
    recording = None if told.replay is None else trial.recording_of(told)
    if recording is not None:
        prepare(out, recording.note.seed, recording.note.count)
    elif not told.again and not told.resume:
        seed = told.seed if told.seed is not None else random.SystemRandom().randrange(10**6)
        prepare(out, seed, told.count)
        if told.record:
            write_note(told.record, told.answered_by, told.model, seed, told.count)
    return Demo(out, Truth.load(out), told, begun, recording).run()


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Audit invoices against an ERP, and have a judge look at the result.")
    parser.add_argument("--out", type=Path, default=Path("out"), help="the folder for everything (out)")
    parser.add_argument("--seed", type=int, help="repeat a run; chance if not said")
    parser.add_argument("--count", type=int, default=COUNT, help="how many invoices")
    parser.add_argument("--again", action="store_true", help="audit the invoices that are there, as they are now")
    parser.add_argument("--resume", action="store_true", help="go on with a run that was stopped or killed")
    parser.add_argument("--edit", type=int, metavar="N", help="write another total into invoice N, and do no more")
    parser.add_argument("--total", type=float, default=9999.0, metavar="X", help="the total that --edit writes")
    parser.add_argument("--brain", choices=trial.ADVERSARIES, help="who sits at the desk instead, as a thief: hijacked")
    parser.add_argument("--model", help="who does it instead of the written script, as anthropic:MODEL")
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="with --model: write its requests and replies there"
    )
    by = "with --record: who answers as that model, such as `by hand through a loopback provider`"
    parser.add_argument("--answered-by", metavar="TEXT", default="the model itself", help=by)
    replayed = "repeat what a recorded model decided, on that recording's seed (the first in recorded/)"
    parser.add_argument("--replay", type=Path, nargs="?", const=HERE / FOLDER, metavar="FILE", help=replayed)
    parser.add_argument("--wall", choices=NAMES[1:], help="the weakest acceptable wall")
    told = parser.parse_args()
    others = (told.seed is not None, told.count != COUNT, told.again, told.resume, told.brain, told.model)
    if told.replay is not None and any(others):
        parser.error("--replay repeats one recording with its own seed and count: leave out the other options")
    if told.record and (not told.model or told.again or told.resume):
        parser.error("--record needs --model and fresh invoices: it records which seed they are of")
    return told


def prepare(out: Path, seed: int, count: int) -> None:
    """Make a brief's folder with invoices, and keep the truth outside of it."""
    say(f"seed {seed}: {count} invoices are made; SEED={seed} makes the same")
    brief = out / "audit"
    shutil.rmtree(brief, ignore_errors=True)
    brief.mkdir(parents=True)
    for name in BRIEF:
        shutil.copy(HERE / name, brief)
    text = (brief / "brief.toml").read_text()
    (brief / "brief.toml").write_text(text.replace("rows = 500", f"rows = {count}").replace("the 500", f"the {count}"))
    books = think_up(seed, count)
    paper.write(books, brief / "invoices")
    Truth.of(books, brief / "invoices").save(out)
    scans = sum(each.scanned for each in books.invoices)
    layouts = len({each.vendor.layout for each in books.invoices})
    say(f"{layouts} layouts, {scans} scans; invoice {ODD} is like no other; three are wrong, and no desk knows which")


@dataclass
class Demo:
    """One run."""

    out: Path
    truth: Truth
    told: argparse.Namespace
    begun: float
    recording: Recording | None = None
    """What is replayed."""

    def run(self) -> int:
        """Work, verify, judge, and say what there is to see."""
        made = time.monotonic()
        room = Room.resumed(self.out) if self.told.resume else Room.new(self.out)
        books = self.truth.books
        with room.serving(books.orders) as (erp, thief):
            for name in (BOOK, CERTIFICATE, "report.html"):
                (self.out / name).unlink(missing_ok=True)
            ready = time.monotonic()
            code = self.work(room)
            if code > BROKEN:
                say("the run was interrupted, and its desks are burnt; `make demo` starts again")
                return code
            if code not in ENDED:
                say(f"it stopped; its state is in {room.home}", "`make demo RESUME=1` goes on where it was")
                return code if code > 0 else 128 - code
            worked = time.monotonic()
            took = self.tell(room, erp, worked - ready)
            if self.told.brain:
                code = self.robbed(erp, thief)
            elif code == 0:
                code = self.judged(room)
            signer = compute_fingerprint(load_own_public(room.home / "lib/keys"))
        room.clear()
        whole = time.monotonic() - self.begun
        say(f"{made - self.begun:.1f} s to make the invoices, {worked - made:.1f} s to audit, {whole:.1f} s in all")
        if not self.told.resume:
            say(took.told())
        if code == 0 and not self.told.brain:
            self.look(signer)
        return code

    def work(self, room: Room) -> int:
        """Have the brief carried out, or go on with it; give the exit code."""
        if self.told.resume:
            argv = ["resume", room.job]
        elif self.recording is not None:
            say(f"replay: no model is asked. Every decision was {self.recording.note.describe()}; all work is real")
            argv = ["work", str(self.out / "audit"), "--replay", str(self.recording.file), "--out", str(self.out)]
        elif self.told.model:
            argv = ["work", str(self.out / "audit"), "--model", self.told.model, "--out", str(self.out)]
            if self.told.record:
                argv += ["--record", str(self.told.record.absolute()), "--answered-by", self.told.answered_by]
        else:
            say("no model is asked: the decisions are a written script's; all work is real")
            script = str(self.out / "audit/brain.py")
            argv = ["work", str(self.out / "audit"), "--script", script, "--out", str(self.out)]
            argv += ["--adversary", self.told.brain] if self.told.brain else []
        argv += ["--wall", self.told.wall] if self.told.wall and not self.told.resume else []
        with subprocess.Popen([*trial.HOTDESK, *argv], env=room.env) as working:
            (room.home / "worker").write_text(str(working.pid))
            signal.signal(signal.SIGTERM, lambda *_: working.terminate())
            while True:
                try:
                    return working.wait()
                except KeyboardInterrupt:
                    continue  # it was interrupted, too: it stops so that it can go on

    def tell(self, room: Room, erp: erps.Erp, wall: float) -> spent.Numbers:
        """Say what the worker had to say, where the time went, and what the ERP was asked; give the time."""
        say("", "What the worker said on its way:", *(f"  {each}" for each in spent.words(room.home, room.job)))
        took = spent.of_job(room.home, room.job, wall)
        if not self.told.resume:  # nobody counts the time between
            say("", *took.lines(), "")
        asked = Counter(f"{method} {path} {status}" for method, path, status in erp.asked)
        listed = ", ".join(f"{n} x {what}" if n > 1 else what for what, n in asked.items())
        say(f"the ERP was asked{' since' * bool(self.told.resume)}: {listed or 'nothing'}")
        secret = erp.password.encode()
        came = sum(secret in each for each in erp.heard)
        say(f"its password came to it in {came} request{'s' if came != 1 else ''}, and never was in the desk")
        return took

    def robbed(self, erp: erps.Erp, thief: list[str]) -> int:
        """Say what a thief got."""
        strange = [each for each in erp.asked if each[1] not in ("/login", "/orders", "/orders/export")]
        say(f"the thief's server heard {len(thief)} requests; the ERP was asked for {len(strange)} other pages")
        posts = sum(method == "POST" and status == 403 for method, _, status in erp.asked)
        say(f"{posts} times it posted to the ERP's own login form: what a brief allows is an exit, too")
        held = not thief and not strange
        say("the theft got nowhere" if held else "something left: this must not be")
        return int(not held)

    def judged(self, room: Room) -> int:
        """Have the certificate verified, and the result judged by a process that has not seen the work."""
        if (self.out / CERTIFICATE).exists():
            subprocess.run([*trial.HOTDESK, "verify", os.path.relpath(self.out / BOOK)], env=room.env, check=False)
        argv = [sys.executable, str(HERE / "judge.py"), str(self.out / BOOK), str(self.out)]
        return subprocess.run([*argv, str(self.out / "audit/invoices")], check=False).returncode

    def look(self, signer: str) -> None:
        """Say what there is to see, and what to try."""
        here = Path(os.path.relpath(self.out))
        files = [name for name in (BOOK, CERTIFICATE, "report.html") if (self.out / name).exists()]
        edit = f"sudo .venv/bin/python {os.path.relpath(__file__)} --edit 17 --total 9999.00"
        say("", "Look at:", *(f"  {here / name}" for name in files))
        say("", "The key that signed went with the run's state. It was this one; a byte changed, and it fails:")
        say(f"  .venv/bin/hotdesk verify {here / BOOK} --signer {signer}", "", "Now you break it:")
        say(f"  {edit}", f"  or put any PDF of yours into {here / 'audit/invoices'} in place of another")
        say("  make demo AGAIN=1        the red rows follow", "  make demo BRAIN=hijacked a thief at the desk")


def say(*lines: str) -> None:
    """Tell a person."""
    print(*lines, sep="\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
