"""Try hotdesk on the machines of the lab: `python -m tools.hosts [MACHINE...]`, as root."""

from __future__ import annotations

import argparse
import os
import shutil
import time
from pathlib import Path

from tools.hosts import disk, emulator, kit, machines, results, root, state
from tools.hosts.emulator import MachineError
from tools.hosts.machines import Machine
from tools.hosts.prepare import prepare
from tools.hosts.results import MachineResult
from tools.hosts.row import BOOT, Row, note
from tools.hosts.state import RowState
from tools.hosts.steps import STEPS, Step, Visit

LIMIT_MINUTES = 180.0
PATIENCE = 4.0


def main() -> None:
    """Try each machine that has not passed yet, print a line for it, and fail if one does not pass."""
    parser = argparse.ArgumentParser(prog="tools.hosts", description=__doc__)
    parser.add_argument("machine", nargs="*", help="names of machines (all)")
    parser.add_argument("--out", type=Path, default=kit.ROOT / "out/hosts", help="results, logs and cache")
    parser.add_argument(
        "--minutes", type=float, default=LIMIT_MINUTES, help="stop a machine after this many minutes (180)"
    )
    parser.add_argument(
        "--patience", type=float, default=PATIENCE, help="by how much the limits of commands are extended (4)"
    )
    parser.add_argument("--budget", type=float, help="begin no machine after this many minutes")
    parser.add_argument("--again", action="store_true", help="also what passed before, and from the beginning")
    parser.add_argument("--steps", help="only these, and those that everything needs: doctor,tests")
    parser.add_argument("--keep", action="store_true", help="keep the machine's state before each step, for --begin")
    parser.add_argument("--begin", metavar="STEP", help="begin with this step, from the state that --keep kept")
    parser.add_argument(
        "--prepared", action="store_true", help="install and set up before the machine starts; it cannot pass then"
    )
    parser.add_argument("--list", action="store_true", help="print the machines, and what came of them")
    arguments = parser.parse_args()
    chosen = machines.find(arguments.machine)
    path = arguments.out / "results.json"
    if arguments.list:
        found = results.load(path)
        print("\n".join(str(found.get(each.name, f"{each.name:28} not tried")) for each in chosen))
        return
    if os.geteuid() != 0:
        raise SystemExit("Making file systems and images needs root: run it with sudo.")
    if not try_all(chosen, path, arguments):
        raise SystemExit(1)


def try_all(chosen: list[Machine], path: Path, arguments: argparse.Namespace) -> bool:
    """Try machines one after the other; return whether all of them passed."""
    cache = arguments.out / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    tests, wheel, began = kit.digest_tests(), kit.hash_file(kit.find_wheel()), time.monotonic()
    steps = choose_steps(arguments.steps, arguments.begin)
    if arguments.prepared:
        steps = tuple(step for step in steps if step.name not in ("install", "setup"))
    passed = True
    for machine in chosen:
        key = results.key_of(machine, wheel, tests, os.uname().machine)
        before = results.load(path).get(machine.name)
        if before is not None and before.key == key and before.passed and not arguments.again:
            print(f"{before}  (before)", flush=True)
            continue
        if arguments.budget and time.monotonic() - began > arguments.budget * 60:
            print(f"{machine.name:28} not tried: no time left", flush=True)
            passed = False
            continue
        result = try_machine(machine, key, steps, cache, arguments)
        if arguments.steps is None and arguments.begin is None and not arguments.prepared:
            results.save(path, {**results.load(path), machine.name: result})
        print(result, flush=True)
        passed &= result.passed
    return passed


def choose_steps(names: str | None, begin: str | None = None) -> tuple[Step, ...]:
    """Return all steps, or the named ones with those that all others need; only from `begin` on, if it is given."""
    wanted = names.split(",") if names else [step.name for step in STEPS]
    first = [step.name for step in STEPS].index(begin) if begin else 0
    return tuple(step for step in STEPS[first:] if step.is_needed or step.name in wanted)


def try_machine(
    machine: Machine, key: str, steps: tuple[Step, ...], cache: Path, arguments: argparse.Namespace
) -> MachineResult:
    """Make a machine or continue with one, run its steps, and delete it."""
    folder = arguments.out / machine.name
    made = root.make(machine, cache)
    if arguments.prepared:
        key = f"{key}-prepared"
    before = find_state(folder, key, arguments)
    root_disk = folder / "root.img"
    if before is None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        disk.make_root_disk(machine, made, folder)
    brought = kit.make(made, root_disk, kit.export_base(cache), cache)
    if before is None:
        if arguments.prepared:
            prepare(machine, root_disk, brought, folder / "mnt")
        emulator.make_changes_disk(root_disk, folder)
        before = RowState(key, "", "", 0.0, ())
    row = Row(folder, before, keep=arguments.keep)
    try:
        argv = emulator.command(machine, made, brought, before.snapshot)
        seconds = arguments.minutes * 60 - before.seconds
        with emulator.start(argv, folder, seconds, arguments.patience, before.boot) as session:
            visit = Visit(session, machine, brought, dict(before.facts), before.api_key)
            row.take(steps, visit)
    except MachineError as e:
        row.done.append(note("machine", row.began, f"{e}: see {folder.name}/console.log", passed=False))
    if arguments.keep:
        (folder / state.CONCLUDED).touch()
    else:
        for path in (root_disk, folder / emulator.CHANGES, folder / state.RECORD):
            path.unlink(missing_ok=True)
    return row.conclude(machine, STEPS if arguments.prepared else steps)


def find_state(folder: Path, key: str, arguments: argparse.Namespace) -> RowState | None:
    """Return the state with which a row continues, or `None` if it starts from the beginning."""
    if arguments.begin is not None:
        return state.load_before(folder, key, arguments.begin, [BOOT, *(step.name for step in STEPS)])
    return None if arguments.again else state.load(folder, key)


if __name__ == "__main__":
    main()
