"""Run an example: `hotdesk` in a temporary state directory, which is removed afterwards."""

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
Approves: TypeAlias = Callable[[str], bool]
"""Whether a person approves a request; it gets the approval card as JSON."""
POLL_INTERVAL_S = 0.5
"""Seconds between two looks for requests that wait for a person."""
ADVERSARIES = ("hijacked", "liar", "clumsy")


def parse_arguments(what: str, **switches: str) -> argparse.Namespace:
    """Parse the options that all examples have, and `switches`: more flags, each with its help text."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the results (the current one)")
    parser.add_argument("--seed", type=int, default=0, help="generate another task of the same kind (0)")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--model", metavar="NAME", help="use a model, such as anthropic:MODEL, and not the written script")
    who.add_argument("--replay", type=Path, metavar="FILE", help="repeat a recorded model's decisions, with its seed")
    who.add_argument(
        "--adversary", choices=ADVERSARIES, help="replace the worker by an adversary, after the script's plan"
    )
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="with --model: write its requests and replies to FILE"
    )
    by = "with --record: who gives the replies, such as `by hand through a loopback provider`"
    parser.add_argument("--answered-by", metavar="TEXT", default="", help=by)
    parser.add_argument("--minutes", type=int, metavar="N", help="time limit in minutes, in place of the brief's")
    parser.add_argument("--wall", choices=NAMES[1:], help="the weakest acceptable wall")
    for name, meaning in switches.items():
        parser.add_argument(f"--{name}", action="store_true", help=meaning)
    options = parser.parse_args()
    if options.record and not options.model:
        parser.error("--record needs --model: a script makes no requests")
    if options.record:
        write_note(options.record, options.answered_by or "the model itself", options.model, options.seed)
    if options.replay:
        recording = open_recording(options)
        options.replay, options.seed = recording.file, recording.note.seed
        print_status(
            f"replay: no model is called. The decisions were {recording.note.describe()}; the work is done again"
        )
    options.out.mkdir(parents=True, exist_ok=True)
    return options


def open_recording(options: argparse.Namespace) -> Recording:
    """Find the recording that --replay names; end the program with the reason if there is none."""
    try:
        return find_recording(options.replay)
    except BriefError as e:
        raise SystemExit(f"Cannot replay: {e}") from None


@contextmanager
def state_directory(name: str) -> Iterator[Path]:
    """Create a state directory, and remove it at the end of the block."""
    home = Path(tempfile.mkdtemp(prefix=f"hotdesk-{name}-"))
    home.chmod(0o711)  # desks' own users must be able to reach their rooms
    try:
        yield home
    finally:
        shutil.rmtree(home)


def remove_old_results(brief: Path, out: Path) -> None:
    """Remove the deliverables of an earlier run, which `hotdesk work --out` would refuse to overwrite."""
    for item in tomllib.loads((brief / "brief.toml").read_text())["deliverables"]:
        for name in (item["path"], f"{item['path']}.certificate.json"):
            (out / name).unlink(missing_ok=True)


def make_command(brief: Path, options: argparse.Namespace) -> list[str]:
    """Return the `hotdesk work` command for a brief, with the model, recording or script that the options name."""
    argv = [*HOTDESK, "work", str(brief), "--out", str(options.out)]
    if options.model:
        argv += ["--model", options.model]
    elif options.replay:
        argv += ["--replay", str(options.replay)]
    else:
        argv += ["--script", str(brief / "brain.py")]
    argv += ["--adversary", options.adversary] if options.adversary else []
    argv += ["--wall", options.wall] if options.wall else []
    if options.record:
        argv += ["--record", str(options.record.absolute()), "--answered-by", options.answered_by or "the model itself"]
    return argv + (["--seconds", str(options.minutes * 60)] if options.minutes else [])


def run_brief(home: Path, brief: Path, options: argparse.Namespace, settings: str = "") -> int:
    """Carry out a brief in a state directory; return the exit code of `hotdesk work`."""
    (home / "etc").mkdir(exist_ok=True)
    (home / "etc/config.toml").write_text(settings)
    own = {"HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(config.load().images), "PICTURES": str(options.out)}
    remove_old_results(brief, options.out)
    try:
        return subprocess.run(make_command(brief, options), env={**os.environ, **own}, check=False).returncode
    except KeyboardInterrupt:
        return 130  # `hotdesk work` got the signal, too, and burns its desks


def run_with_answers(brief: Path, options: argparse.Namespace, env: dict[str, str], approves: Approves) -> int:
    """Carry out a brief, and approve or refuse its requests meanwhile; return the exit code of `hotdesk work`."""
    remove_old_results(brief, options.out)
    with subprocess.Popen(make_command(brief, options), env=env, stdin=subprocess.DEVNULL) as working:
        try:
            while working.poll() is None:
                answer_requests(env, approves)
                time.sleep(POLL_INTERVAL_S)
            return working.returncode
        except KeyboardInterrupt:
            return 130  # `hotdesk work` got the signal, too, and burns its desks


def answer_requests(env: dict[str, str], approves: Approves) -> None:
    """Answer every request that waits, as a person would in another terminal."""
    listed = subprocess.run([*HOTDESK, "approve", "--json"], env=env, capture_output=True, check=False)
    for each in json.loads(listed.stdout or b"[]"):
        word = "approve" if approves(json.dumps(each)) else "refuse"
        done = subprocess.run([*HOTDESK, word, str(each["id"])], env=env, capture_output=True, check=False)
        print_status(f"another process: hotdesk {word} {each['id']}, exit code {done.returncode}")


def print_status(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
