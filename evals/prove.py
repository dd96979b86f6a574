"""Prove evaluation tasks: generate one, solve it by its reference solution, and grade that and every spoilt variant.

sudo .venv/bin/python evals/prove.py [documents/contract_clauses …] [--seeds 1 2 3]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from hotdesk import config

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples import trial, website

EVALS = Path(__file__).parent
DESK_SECONDS = 300
MIN_VARIANTS = 3
MAX_SHOWN_BYTES = 2000
"""Bytes of a failed program's output that a message repeats."""


class ProofError(Exception):
    """A step of a proof failed; the message says which."""


def list_tasks() -> list[str]:
    """Return the names of all tasks, as `family/task`."""
    return sorted(str(path.parent.relative_to(EVALS)) for path in EVALS.glob("*/*/task.toml"))


def prove(name: str, seed: int, home: Path) -> None:
    """Generate, solve and grade a task in an empty state directory; raise `ProofError` if a step fails."""
    task, room = EVALS / name, home / "proof"
    room.mkdir()
    env = {**os.environ, "HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(config.load().images)}
    image = tomllib.loads((task / "task.toml").read_text())["image"]
    run_at_desk(env, image, {task / "generate.py": "generate.py"}, {"brief": room, "hidden": room}, str(seed))
    with open_site(task, home, env, room):
        solve(task, room, env)
    if result := grade(task, room, env, image):
        raise ProofError(f"the reference solution fails: {'; '.join(result)}")
    given = {room / part: part for part in ("hidden", "delivered", "site.json") if (room / part).exists()}
    run_at_desk(env, image, {task / "spoil.py": "spoil.py", **given}, {"spoilt": room})
    variants = sorted((room / "spoilt").iterdir())
    if len(variants) < MIN_VARIANTS:
        raise ProofError(f"spoil.py wrote {len(variants)} variants; at least {MIN_VARIANTS} are needed")
    for variant in variants:
        faults = grade(task, with_variant(room, variant), env, image)
        if not faults:
            raise ProofError(f"grade.py passes the spoilt variant {variant.name}")
        print(f"  {variant.name}: {faults[0]}", file=sys.stderr)


def with_variant(room: Path, variant: Path) -> Path:
    """Copy a variant as a result: its files are the deliverables; a `site.json` among them is the site's state."""
    other = room / f"graded-{variant.name}"
    shutil.copytree(variant, other / "delivered", ignore=shutil.ignore_patterns("site.json"))
    shutil.copytree(room / "hidden", other / "hidden")
    state = variant / "site.json" if (variant / "site.json").exists() else room / "site.json"
    if state.exists():
        shutil.copy(state, other / "site.json")
    return other


def solve(task: Path, room: Path, env: dict[str, str]) -> None:
    """Carry out the brief by the reference solution; collect its deliverables in `delivered`."""
    out = room / "out"
    argv = [*trial.HOTDESK, "work", str(room / "brief"), "--script", str(task / "solution.py"), "--out", str(out)]
    done = subprocess.run(argv, env=env, check=False, capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise ProofError(f"hotdesk work ended with exit code {done.returncode}: {show(done)}")
    for item in tomllib.loads((room / "brief/brief.toml").read_text())["deliverables"]:
        target = room / "delivered" / item["path"]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(out / item["path"], target)


def grade(task: Path, room: Path, env: dict[str, str], image: str) -> list[str]:
    """Grade a result at a clean desk; return its faults, none if it passes."""
    given = {room / part: part for part in ("hidden", "delivered", "site.json") if (room / part).exists()}
    result = json.loads(run_at_desk(env, image, {task / "grade.py": "grade.py", **given}, {}))
    if set(result) != {"passed", "faults"} or result["passed"] == bool(result["faults"]):
        raise ProofError(f"grade.py contradicts itself: {result}")
    return list(result["faults"])


def run_at_desk(
    env: dict[str, str], image: str, given: dict[Path, str], taken: dict[str, Path], *arguments: str
) -> bytes:
    """Run the first of the given files at a fresh desk without network; copy folders out; return its output."""
    files = [part for local, remote in given.items() for part in ("--in", f"{local}:{remote}")]
    files += [part for remote, local in taken.items() for part in ("--out", f"{remote}:{local / remote}")]
    program = next(iter(given.values()))
    limits = ["--image", image, "--timeout", str(DESK_SECONDS)]
    argv = [*trial.HOTDESK, "run", *limits, *files, "--", "python3", program, *arguments]
    done = subprocess.run(argv, env=env, check=False, capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise ProofError(f"{program} ended with exit code {done.returncode}: {show(done)}")
    return done.stdout


@contextmanager
def open_site(task: Path, home: Path, env: dict[str, str], room: Path) -> Iterator[None]:
    """Serve the task's sites for the length of a block, and write their state to `site.json` at its end."""
    if not (task / "site.py").exists():
        yield
        return
    site, hidden = load_module(task / "site.py"), json.loads((room / "hidden/truth.json").read_text())
    talk = site.talk(hidden)
    ca, chain = website.certify_hosts(home, *site.HOSTS)
    with website.serve_website(talk, chain) as port:
        (home / "etc").mkdir(exist_ok=True)
        (home / "etc/config.toml").write_text(website.format_door_settings(ca, dict.fromkeys(site.HOSTS, port)))
        store_secrets(site, hidden, env)
        yield
    if hasattr(talk, "state"):
        (room / "site.json").write_text(json.dumps(talk.state()))


def store_secrets(site: ModuleType, hidden: dict[str, Any], env: dict[str, str]) -> None:
    """Put the secrets of a site into the vault."""
    secrets: dict[str, str] = site.secrets(hidden) if hasattr(site, "secrets") else {}
    for name, value in secrets.items():
        argv = [*trial.HOTDESK, "vault", "set", name]
        subprocess.run(argv, env=env, input=value.encode(), check=True, stdout=subprocess.DEVNULL)


def load_module(path: Path) -> ModuleType:
    """Import a file by its path."""
    spec = importlib.util.spec_from_file_location(f"eval_{path.parent.name.replace('-', '_')}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def show(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the end of a program's output."""
    return (done.stderr + done.stdout)[-MAX_SHOWN_BYTES:].decode("utf-8", "replace")


def main() -> int:
    """Prove the named tasks, or all."""
    parser = argparse.ArgumentParser(description="Prove evaluation tasks.")
    parser.add_argument("tasks", nargs="*", help="as documents/contract_clauses; without any, all")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    arguments = parser.parse_args()
    failed = 0
    for name in arguments.tasks or list_tasks():
        for seed in arguments.seeds:
            trial.print_status(f"{name}, seed {seed}")
            try:
                with trial.state_directory("eval") as home:
                    prove(name, seed, home)
            except ProofError as e:
                failed += 1
                trial.print_status(f"  FAILED: {e}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
