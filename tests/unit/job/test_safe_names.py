"""Tests of how inputs are named to a planner."""

from __future__ import annotations

from pathlib import Path

from hotdesk.job.safe_names import SHOWN, describe_input


def fill(top: Path, *names: str) -> Path:
    for name in names:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("x")
    return top


def test_a_repository_is_shown_by_its_paths_those_at_the_top_first_and_without_its_objects(tmp_path: Path) -> None:
    objects = [f".git/objects/{number:02x}/{'0' * 38}" for number in range(30)]
    repo = fill(tmp_path, *objects, "sub/.git", "tests/unit/test_tax.py", "billing/tax.py", "README.md", "a/b c.py")
    assert describe_input(repo, "repo") == (
        "repo/ with 4 files, .git not counted: README.md, a/b_c.py, billing/tax.py, tests/unit/test_tax.py"
    )


def test_of_a_large_folder_forty_paths_are_listed_and_its_folders_are_counted(tmp_path: Path) -> None:
    fill(tmp_path, *(f"invoices/{number:03}.pdf" for number in range(100)), "TASK.md", "erp/orders.csv")
    text = describe_input(tmp_path, "inputs")
    names, counts = text.removeprefix("inputs/ with 102 files: ").split(". Files in each folder: ")
    listed = names.split(", ")
    assert listed[:3] == ["TASK.md", "erp/orders.csv", "invoices/000.pdf"]
    assert listed[-1] == "and 62 more"
    assert len(listed) == SHOWN + 1
    assert counts == "invoices/ 100, erp/ 1"


def test_a_file_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    assert describe_input(fill(tmp_path, "notes.md") / "notes.md", "notes.md") == "notes.md"
    (tmp_path / "empty").mkdir()
    assert describe_input(tmp_path / "empty", "empty") == "empty/ with 0 files: "
