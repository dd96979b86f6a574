"""What examples are tried in: a state directory of a trial's own, gone when it ends, and `hotdesk` run in it."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from examples.recording import Recording, find_recording, write_note

from hotdesk import config
from hotdesk.errors import BriefError
from hotdesk.walls import NAMES

HOTDESK = [sys.executable, "-c", "from hotdesk.cli import main; main()"]
Right: TypeAlias = Callable[[str], bool]
"""What a person says yes to, of what is asked: a card as JSON."""
PAUSE = 0.5
"""Seconds between two looks at what waits for a person."""
ADVERSARIES = ("hijacked", "liar", "clumsy")


def arguments(what: str, **switches: str) -> argparse.Namespace:
    """Read the command line all examples have, and switches of one's own with what each means."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument(
        "--out", type=Path, default=Path(), help="the folder results are copied to; this one if not said"
    )
    parser.add_argument("--seed", type=int, default=0, help="another number, another task of the same kind (0)")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--model", metavar="NAME", help="who does it instead of the written script, as anthropic:MODEL")
    who.add_argument("--replay", type=Path, metavar="FILE", help="repeat what a recorded model decided, on its seed")
    who.add_argument("--adversary", choices=ADVERSARIES, help="who sits at the desk instead, behind the script's plan")
    parser.add_argument("--record", type=Path, metavar="FILE", help="with --model: write requests and replies there")
    by = "with --record: who answers as that model, such as `by hand through a loopback provider`"
    parser.add_argument("--answered-by", metavar="TEXT", default="", help=by)
    parser.add_argument(
        "--minutes", type=int, metavar="N", help="time limit in minutes, if that is not what the brief says"
    )
    parser.add_argument("--wall", choices=NAMES[1:], help="the weakest acceptable wall")
    for name, meaning in switches.items():
        parser.add_argument(f"--{name}", action="store_true", help=meaning)
    told = parser.parse_args()
    if told.record and not told.model:
        parser.error("--record needs --model: a script makes no requests")
    if told.record:
        write_note(told.record, told.answered_by or "the model itself", told.model, told.seed)
    if told.replay:
        recording = recording_of(told)
        told.replay, told.seed = recording.file, recording.note.seed
        say(f"replay: no model is asked. Every decision was {recording.note.describe()}; all work is real")
    told.out.mkdir(parents=True, exist_ok=True)
    return told


def recording_of(told: argparse.Namespace) -> Recording:
    """Find the recording that is to be replayed."""
    try:
        return find_recording(told.replay)
    except BriefError as e:
        raise SystemExit(f"Cannot replay: {e}") from None


@contextmanager
def state(name: str) -> Iterator[Path]:
    """Give a state directory for the length of a block."""
    home = Path(tempfile.mkdtemp(prefix=f"hotdesk-{name}-"))
    home.chmod(0o711)  # desks' own users must be able to reach their rooms
    try:
        yield home
    finally:
        shutil.rmtree(home)


def make_way(brief: Path, out: Path) -> None:
    """Remove what an earlier trial left: its state is gone, and so nobody could say that it was a copy of ours."""
    for item in tomllib.loads((brief / "brief.toml").read_text())["deliverables"]:
        for name in (item["path"], f"{item['path']}.certificate.json"):
            (out / name).unlink(missing_ok=True)


def command(brief: Path, told: argparse.Namespace) -> list[str]:
    """Give the command line that carries a brief out, by whomever the example's command line names."""
    argv = [*HOTDESK, "work", str(brief), "--out", str(told.out)]
    if told.model:
        argv += ["--model", told.model]
    elif told.replay:
        argv += ["--replay", str(told.replay)]
    else:
        argv += ["--script", str(brief / "brain.py")]
    argv += ["--adversary", told.adversary] if told.adversary else []
    argv += ["--wall", told.wall] if told.wall else []
    if told.record:
        argv += ["--record", str(told.record.absolute()), "--answered-by", told.answered_by or "the model itself"]
    return argv + (["--seconds", str(told.minutes * 60)] if told.minutes else [])


def work(home: Path, brief: Path, told: argparse.Namespace, settings: str = "") -> int:
    """Carry out a brief as a person would; give the exit code of `hotdesk work`."""
    (home / "etc").mkdir(exist_ok=True)
    (home / "etc/config.toml").write_text(settings)
    own = {"HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(config.load().images), "PICTURES": str(told.out)}
    make_way(brief, told.out)
    try:
        return subprocess.run(command(brief, told), env={**os.environ, **own}, check=False).returncode
    except KeyboardInterrupt:
        return 130  # it burns its desks itself


def attended(brief: Path, told: argparse.Namespace, env: dict[str, str], right: Right) -> int:
    """Carry out a brief; say yes meanwhile to what is right of what it asks, no to all else. Give the exit code."""
    make_way(brief, told.out)
    with subprocess.Popen(command(brief, told), env=env, stdin=subprocess.DEVNULL) as working:
        try:
            while working.poll() is None:
                answer(env, right)
                time.sleep(PAUSE)
            return working.returncode
        except KeyboardInterrupt:
            return 130  # it was interrupted, too, and burns its desks itself


def answer(env: dict[str, str], right: Right) -> None:
    """Answer what waits, as a person would with another terminal; what is asked comes as JSON."""
    listed = subprocess.run([*HOTDESK, "approve", "--json"], env=env, capture_output=True, check=False)
    for each in json.loads(listed.stdout or b"[]"):
        word = "approve" if right(json.dumps(each)) else "refuse"
        done = subprocess.run([*HOTDESK, word, str(each["id"])], env=env, capture_output=True, check=False)
        say(f"another process: hotdesk {word} {each['id']}, exit code {done.returncode}")


def say(text: str) -> None:
    """Tell a person."""
    print(text, file=sys.stderr, flush=True)
