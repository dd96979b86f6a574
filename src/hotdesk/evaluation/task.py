"""A task of an evaluation: a folder with task.toml, a generator, a grader and a reference solution."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError, make_printable
from hotdesk.strict import Length, Range, StrictError, read

_Family: TypeAlias = Literal["documents", "tables", "web", "code", "screen", "research"]
FILE, GENERATOR, GRADER, SOLUTION, SITE = "task.toml", "generate.py", "grade.py", "solution.py", "site.py"
_PROGRAMS = (GENERATOR, GRADER, SOLUTION)
_NAME_SHAPE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MAX_FILE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class TaskFile:
    """The content of task.toml."""

    title: Annotated[str, Length(200, 1)]
    family: _Family
    source: Annotated[str, Length(300)]
    """The public benchmark it is modelled on; empty: there is none."""
    image: Annotated[str, re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")]
    """The desk image of generator and grader."""
    minutes: Annotated[int, Range(1, 1440)]
    """Minutes the worker may take."""


@dataclass(frozen=True, slots=True)
class EvalTask:
    """One task."""

    folder: Path
    file: TaskFile

    @property
    def name(self) -> str:
        return f"{self.file.family}/{self.folder.name}"

    def format_label(self, seed: int) -> str:
        """Return the name of one run's files: `family-task-seed`."""
        return f"{self.file.family}-{self.folder.name}-{seed}"

    @property
    def has_site(self) -> bool:
        return (self.folder / SITE).exists()


def read_task(folder: Path) -> EvalTask:
    """Read a task's folder; raise `BriefError` if it is invalid."""
    file = folder / FILE
    try:
        with file.open("rb") as source:
            data = source.read(_MAX_FILE_BYTES + 1)
        if len(data) > _MAX_FILE_BYTES:
            raise StrictError(f"the file is larger than {_MAX_FILE_BYTES >> 10} KiB")
        settings = read(TaskFile, tomllib.loads(data.decode()))
    except OSError as e:
        raise BriefError(f"Cannot read {make_printable(str(file))}: {e.strerror}.") from e
    except ValueError as e:
        raise BriefError(f"{make_printable(str(file))} is not valid: {make_printable(str(e))}. Correct it.") from None
    if not _NAME_SHAPE.fullmatch(folder.name):
        shown = make_printable(folder.name)
        raise BriefError(
            f"{shown!r} is not a valid task name. Name the folder with up to 64 characters of a-z, 0-9, - and _."
        )
    if missing := [name for name in _PROGRAMS if not (folder / name).is_file()]:
        raise BriefError(
            f"The task {make_printable(str(folder))} has no file {missing[0]}. Write the file, or remove the folder."
        )
    return EvalTask(folder, settings)


def find_tasks(folder: Path, globs: Sequence[str] = ()) -> list[EvalTask]:
    """Return the tasks in a folder, or the folder's own task, sorted by name; `globs` select some of them."""
    root = folder.absolute()
    places = [root] if (root / FILE).exists() else sorted(each.parent for each in _find_files(root))
    if not places:
        raise BriefError(
            f"There is no task in {make_printable(str(folder))}. Name a task's folder, or a folder of "
            f"FAMILY/TASK/{FILE}."
        )
    tasks = sorted((read_task(place) for place in places), key=lambda task: task.name)
    names = [task.name for task in tasks]
    if twice := [name for name in names if names.count(name) > 1]:
        raise BriefError(
            f"Two tasks in {make_printable(str(folder))} are called {twice[0]}. Rename one of the folders."
        )
    for pattern in globs:
        if not any(_is_match(name, pattern) for name in names):
            raise BriefError(
                f"No task matches --task {make_printable(pattern[:80])}. The tasks are {', '.join(names)}."
            )
    return [task for task in tasks if not globs or any(_is_match(task.name, pattern) for pattern in globs)]


def _find_files(root: Path) -> list[Path]:
    return [*root.glob(f"*/{FILE}"), *root.glob(f"*/*/{FILE}")]


def _is_match(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name.partition("/")[2], pattern)
