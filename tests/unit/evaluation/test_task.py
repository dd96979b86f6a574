"""Tests of reading tasks, finding them below a folder, and selecting them by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.errors import BriefError
from hotdesk.evaluation.task import find_tasks, read_task

SAMPLES = Path(__file__).parents[2] / "evals"
LINES = {
    "title": 'title = "A title"',
    "family": 'family = "code"',
    "source": 'source = ""',
    "image": 'image = "base"',
    "minutes": "minutes = 5",
}


def write_task(folder: Path, **changes: str) -> Path:
    """Write a task whose task.toml has other lines; an empty one is left out."""
    folder.mkdir(parents=True)
    lines = {**LINES, **changes}
    (folder / "task.toml").write_text("\n".join(line for line in lines.values() if line))
    for name in ("generate.py", "grade.py", "solution.py"):
        (folder / name).write_text("")
    return folder


def test_the_sample_is_a_task() -> None:
    [task] = find_tasks(SAMPLES)
    assert (task.name, task.format_label(7), task.has_site) == ("code/sample", "code-sample-7", True)
    assert find_tasks(SAMPLES / "code/sample") == [task]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": ""}, "title: it is missing"),
        ({"family": 'family = "games"'}, "family: expected one of 'documents'"),
        ({"minutes": 'minutes = "5"'}, "minutes: expected an integer from 1 to 1440"),
        ({"minutes": "minutes = 0"}, "minutes: expected an integer from 1 to 1440"),
        ({"image": 'image = "../base"'}, "image: expected a string like"),
        ({"extra": "points = 3"}, "unknown key 'points'"),
        ({"title": "title ="}, "Invalid value"),
    ],
)
def test_whatever_is_wrong_with_a_task_file_is_named(tmp_path: Path, change: dict[str, str], message: str) -> None:
    with pytest.raises(BriefError, match=message):
        read_task(write_task(tmp_path / "task", **change))


def test_a_task_needs_its_programs_and_a_plain_name(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "task")
    (folder / "grade.py").unlink()
    with pytest.raises(BriefError, match=r"has no file grade\.py"):
        read_task(folder)
    with pytest.raises(BriefError, match="not a valid task name"):
        read_task(write_task(tmp_path / "a b"))


def test_tasks_are_found_in_families_and_selected_by_name(tmp_path: Path) -> None:
    for name in ("code/two", "code/one", "tables/three"):
        family = name.partition("/")[0]
        write_task(tmp_path / name, family=f'family = "{family}"')
    assert [task.name for task in find_tasks(tmp_path)] == ["code/one", "code/two", "tables/three"]
    assert [task.name for task in find_tasks(tmp_path, ["code/t*", "three"])] == ["code/two", "tables/three"]
    assert [task.name for task in find_tasks(tmp_path / "code")] == ["code/one", "code/two"]
    with pytest.raises(
        BriefError, match=r"No task matches --task four\. The tasks are code/one, code/two, tables/three"
    ):
        find_tasks(tmp_path, ["one", "four"])


def test_a_folder_without_tasks_and_two_tasks_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BriefError, match="There is no task in"):
        find_tasks(tmp_path)
    write_task(tmp_path / "code/one")
    write_task(tmp_path / "web/one")
    with pytest.raises(BriefError, match="are called code/one"):
        find_tasks(tmp_path)
