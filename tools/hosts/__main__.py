"""Try hotdesk on the machines of the lab: `python -m tools.hosts [MACHINE...]`, as root."""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tools.hosts import disk, emulator, kit, machines, results, root
from tools.hosts.emulator import MachineError
from tools.hosts.machines import Machine
from tools.hosts.prepare import prepare
from tools.hosts.results import MachineResult, StepResult
from tools.hosts.steps import STEPS, Step, StepError, Visit

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
    parser.add_argument("--again", action="store_true", help="also what passed before")
    parser.add_argument("--steps", help="only these, and those that everything needs: doctor,tests")
    parser.add_argument("--keep", action="store_true", help="keep the machine's disk, for --begin")
    parser.add_argument("--begin", metavar="STEP", help="begin with this step, on the disk that --keep kept")
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
        result = replace(try_machine(machine, steps, cache, arguments), key=key)
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


def try_machine(machine: Machine, steps: tuple[Step, ...], cache: Path, arguments: argparse.Namespace) -> MachineResult:
    """Make a machine, start it, run the steps, and delete it."""
    folder = arguments.out / machine.name
    made = root.make(machine, cache)
    root_disk = folder / "root.img"
    if arguments.begin is None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        disk.make_root_disk(machine, made, folder)
    brought = kit.make(made, root_disk, kit.export_base(cache), cache)
    if arguments.prepared:
        prepare(machine, root_disk, brought, folder / "mnt")
    argv = emulator.command(machine, made, root_disk, brought, keep_changes=arguments.keep)
    began = time.monotonic()
    done: list[StepResult] = []
    facts: dict[str, str] = {}
    try:
        with emulator.start(argv, folder, arguments.minutes * 60, arguments.patience) as session:
            done.append(note("boot", began, "the agent answers", cpu_seconds=session.read_cpu_seconds()))
            visit = Visit(session, machine, brought, facts)
            take(steps, visit, done)
            if arguments.keep:
                session.run("sync")
    except MachineError as e:
        done.append(note("machine", began, f"{e}: see {folder.name}/console.log", passed=False))
    finally:
        if not arguments.keep and not arguments.begin:
            root_disk.unlink(missing_ok=True)
    expected = STEPS if arguments.prepared else steps
    missing = tuple(step.name for step in expected if step.name not in {each.name for each in done})
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return MachineResult(machine.name, "", now, time.monotonic() - began, facts, tuple(done), missing)


def take(steps: Iterable[Step], visit: Visit, done: list[StepResult]) -> None:
    """Run the steps in order; a failed step does not stop the others, unless they need it."""
    for step in steps:
        began, used = time.monotonic(), visit.session.read_cpu_seconds()
        try:
            text, passed = step.act(visit), True
        except StepError as e:
            text, passed = str(e), False
        cpu_seconds = visit.session.read_cpu_seconds() - used
        result = note(step.name, began, text, passed=passed, cpu_seconds=cpu_seconds)
        done.append(result)
        print(f"  {result.name:12} {result.seconds:6.1f} s, {cpu_seconds:.1f} s of processor  {text[:300]}", flush=True)
        if step.is_needed and not passed:
            return


def note(name: str, began: float, text: str, *, passed: bool = True, cpu_seconds: float = 0.0) -> StepResult:
    return StepResult(name, passed, round(time.monotonic() - began, 1), text, round(cpu_seconds, 1))


if __name__ == "__main__":
    main()
