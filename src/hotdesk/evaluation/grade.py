"""Generates a task's brief and grades the deliverables, each at a clean desk without network.

Both use `hotdesk run`, which gives up its rights before it reads what a desk wrote, and checks the names of files that
it copies out.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from hotdesk.dataclass import dataclass
from hotdesk.drive.names import check_name
from hotdesk.errors import BriefError
from hotdesk.evaluation.command import CommandResult, StateDirectory, repeat_option
from hotdesk.evaluation.task import GENERATOR, GRADER, EvalTask
from hotdesk.strict import Length, StrictError, parse_json, read

_DESK_SECONDS = 300
"""Seconds a generator or grader may run."""
_OPEN_SECONDS = 120
"""Additional seconds for opening its desk and copying files."""
_DISK = "2G"
"""Disk size of the desk, and so the most that can be copied out of it."""


@dataclass(frozen=True, slots=True)
class Grade:
    """The output of a grader."""

    passed: bool
    faults: Annotated[tuple[Annotated[str, Length(10_000)], ...], Length(1000)]
    """What is wrong with the deliverables, one sentence each; empty if the grade is passed."""


async def generate(task: EvalTask, seed: int, state: StateDirectory, data: Path) -> None:
    """Generate the `brief` and `hidden` folders for a seed."""
    outputs = {"brief": data / "brief", "hidden": data / "hidden"}
    done = await _run_at_desk(task, GENERATOR, state, data, {}, outputs, str(seed))
    if done.exit_code:
        raise BriefError(f"{GENERATOR} ended with exit code {done.exit_code}: {done.complaint}")
    for name, folder in outputs.items():
        if not folder.is_dir():
            raise BriefError(f"{GENERATOR} wrote no folder `{name}`. It must write `brief` and `hidden`.")


async def grade(task: EvalTask, state: StateDirectory, data: Path) -> Grade:
    """Grade the files in `delivered`, with `hidden` and the site's state."""
    inputs = {name: data / name for name in ("hidden", "delivered", "site.json") if (data / name).exists()}
    done = await _run_at_desk(task, GRADER, state, data, inputs, {})
    if done.exit_code:
        raise BriefError(f"{GRADER} ended with exit code {done.exit_code}: {done.complaint}")
    return read_grade(done.output)


def read_grade(output: bytes) -> Grade:
    """Parse a grader's output strictly; raise `BriefError` if it is not one JSON object, or contradicts itself."""
    try:
        found = read(Grade, parse_json(output))
    except StrictError as e:
        raise BriefError(f'{GRADER} must print one JSON object, {{"passed": …, "faults": […]}}: {e}') from None
    if found.passed == bool(found.faults):
        raise BriefError(
            f"{GRADER} contradicts itself: `faults` must be empty if `passed` is true, and not empty if it is false."
        )
    return found


def lay_out(data: Path, paths: Mapping[str, str]) -> None:
    """Copy deliverables from a job's results to `delivered`, under their paths in the brief."""
    (data / "delivered").mkdir()
    for path, source in paths.items():
        target = data / "delivered" / check_name(path)
        if Path(source).is_symlink() or not Path(source).is_file():
            raise BriefError(f"The deliverable {path} is not a regular file.")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


async def _run_at_desk(
    task: EvalTask,
    program: str,
    state: StateDirectory,
    data: Path,
    inputs: Mapping[str, Path],
    outputs: Mapping[str, Path],
    *arguments: str,
) -> CommandResult:
    """Run a program of a task at a new desk, with files copied in before and folders copied out after."""
    shutil.copyfile(task.folder / program, data / program)  # a path with a colon cannot be passed to --in
    copied_in = [f"{local}:{name}" for name, local in {program: data / program, **inputs}.items()]
    copied_out = [f"{name}:{local}" for name, local in outputs.items()]
    return await state.run(
        *("run", "--image", task.file.image, "--disk", _DISK, "--timeout", str(_DESK_SECONDS)),
        *repeat_option("--in", copied_in),
        *repeat_option("--out", copied_out),
        *("--", "python3", program, *arguments),
        seconds=_DESK_SECONDS + _OPEN_SECONDS,
    )
