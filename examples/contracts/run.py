"""Read generated contracts, each at a desk of its own, and compare the register with the truth.

sudo .venv/bin/python examples/contracts/run.py [--count N] [--seed N] [--out FOLDER] [--pilot N] [--adversary NAME]
sudo .venv/bin/python examples/contracts/run.py --replay [FILE]                repeat what recorded models decided
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from hotdesk import config

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import trial
from examples.contracts.generate import Planted, generate
from examples.recording import FOLDER, write_note

HERE = Path(__file__).parent
RESULTS = (
    "register.xlsx",
    "register.xlsx.certificate.json",
    "swarm-certificate.json",
    "records.jsonl",
    "results.zip",
    "swarm.html",
)
MAX_OUTPUT_BYTES = 64 << 20


def main() -> int:
    """Generate contracts, run the swarm, judge the register, and print what it took."""
    options = parse_arguments()
    with trial.state_directory("contracts") as home:
        brief = home / "brief"
        brief.mkdir()
        text = (HERE / "brief.toml").read_text()
        if options.minutes:
            text = text.replace("\nseconds = 120\n", f"\nseconds = {options.minutes * 60}\n")
        (brief / "brief.toml").write_text(text)
        planted = generate(brief / "contracts", options.count, options.seed)
        for name in RESULTS:
            (options.out / name).unlink(missing_ok=True)
        env = {**os.environ, "HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(config.load().images)}
        began, before = time.monotonic(), measure_cpu()
        code = subprocess.run(make_command(brief, options), env=env, check=False).returncode
        took, cpu = time.monotonic() - began, measure_cpu() - before
        if code not in (0, 1) or not (options.out / "register.xlsx").exists():
            return code or 1
        size = sum(path.stat().st_size for path in (home / "lib/keys").glob("journal.db*"))
        trial.print_status(
            f"{options.count} items in {took:.1f} s; each took {cpu / options.count * 1000:.0f} ms of all processors "
            f"and {size / options.count / 1024:.2f} KiB of journal"
        )
        faults = judge(env, options.out, planted)
    for each in faults[:20]:
        trial.print_status(f"judge: {each}")
    trial.print_status(
        f"judge: {len(planted)} contracts, " + (f"{len(faults)} faults" if faults else "the register is right")
    )
    return int(bool(faults))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Contracts are read, each at a desk of its own.")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/swarm"))
    parser.add_argument("--pilot", type=int, default=0)
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--adversary", choices=trial.ADVERSARIES)
    who.add_argument("--model", metavar="NAME", help="use a model, such as anthropic:MODEL, and not the written script")
    replayed = "repeat recorded models' decisions, on their contracts (the first recording in recorded/)"
    who.add_argument("--replay", type=Path, nargs="?", const=HERE / FOLDER, metavar="FILE", help=replayed)
    parser.add_argument("--record", type=Path, metavar="FILE", help="with --model: write requests and replies to FILE")
    by = "with --record: who gives the replies, such as `by hand through a loopback provider`"
    parser.add_argument("--answered-by", metavar="TEXT", default="the model itself", help=by)
    parser.add_argument("--minutes", type=int, metavar="N", help="time limit of a contract, in place of the brief's")
    parser.add_argument("--most", type=int, metavar="N", help="read at most N contracts at the same time")
    options = parser.parse_args()
    if options.record and not options.model:
        parser.error("--record needs --model: a script makes no requests")
    if options.record:
        write_note(options.record, options.answered_by, options.model, options.seed, options.count)
    if options.replay:
        note = (recording := trial.open_recording(options)).note
        options.replay, options.seed, options.count = recording.file, note.seed, note.count
        trial.print_status(f"replay: no model is called. The decisions were {note.describe()}; the work is done again")
    options.out.mkdir(parents=True, exist_ok=True)
    return options


def make_command(brief: Path, options: argparse.Namespace) -> list[str]:
    argv = [*trial.HOTDESK, "swarm", str(brief), "--out", str(options.out)]
    if options.model:
        argv += ["--model", options.model]
    elif options.replay:
        argv += ["--replay", str(options.replay)]
    else:
        argv += ["--script", str(HERE / "brain.py")]
    if options.record:
        argv += ["--record", str(options.record.absolute()), "--answered-by", options.answered_by]
    argv += ["--pilot", str(options.pilot)] if options.pilot else []
    argv += ["--most", str(options.most)] if options.most else []
    return argv + (["--adversary", options.adversary] if options.adversary else [])


def measure_cpu() -> float:
    """Return the seconds that this machine's processors have worked."""
    ticks = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def judge(env: dict[str, str], out: Path, planted: list[Planted]) -> list[str]:
    """List the register's faults; it is opened in a desk of its own."""
    argv = [*trial.HOTDESK, "run", "--image", "office", "--in", f"{out / 'register.xlsx'}:register.xlsx"]
    argv += ["--in", f"{HERE / 'look.py'}:look.py", "--", "python3", "look.py"]
    done = subprocess.run(argv, env=env, capture_output=True, timeout=300, check=True)
    rows, unread = json.loads(done.stdout[:MAX_OUTPUT_BYTES])
    found = {row[0]: row for row in rows}
    named = {row[0] for row in unread}
    faults = [f"{each.name} ({each.kind}): {why}" for each in planted if (why := compare(each, found, named))]
    return faults + ([f"{len(rows)} rows for {len(found)} contracts"] if len(rows) != len(found) else [])


def compare(each: Planted, found: dict[str, list[object]], unread: set[str]) -> str:
    """Return what is wrong with one contract in the register; empty if nothing."""
    if not each.can_be_read:
        return "" if each.name in unread and each.name not in found else "it is in the register, but cannot be read"
    if each.name not in found:
        return "it is not in the register"
    truth = each.truth
    parties = truth["parties"]
    assert isinstance(parties, list)
    right = [each.name, *parties, *(truth[name] for name in ("term", "notice", "cap", "law", "renewal"))]
    return "" if found[each.name][:-1] == right else f"{found[each.name][:-1]} is not {right}"


if __name__ == "__main__":
    sys.exit(main())
