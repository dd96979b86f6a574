"""Tests of the checker of names and folders: it finds violations."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.conventions import KEEPER, MAX_MODULES, ROOT, SOURCE, complaints, find_sharing_faults


@pytest.mark.long
@pytest.mark.slow
def test_the_source_keeps_every_rule() -> None:
    assert complaints(SOURCE) == []
    assert find_sharing_faults(ROOT) == []


def test_a_name_used_twice_a_banned_one_and_a_crowded_folder_are_found(tmp_path: Path) -> None:
    for name, text in {
        "a": "class Desk: ...",
        "b": (
            "class Desk: ...\nclass Told: ...\nheld = 1\n"
            "def opened(): ...\ndef folder_of(): ...\ndef match_one_of(): ..."
        ),
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "crowd").mkdir()
    for number in range(MAX_MODULES + 1):
        (tmp_path / f"crowd/m{number}.py").write_text("")
    (tmp_path / KEEPER).mkdir(parents=True)
    (tmp_path / KEEPER / "open.py").write_text('name == "container"')
    (tmp_path / "hotdesk/host.py").write_text(
        'import_module("hotdesk.door"); import_module("keyring"); import_module(name)'
    )
    assert complaints(tmp_path) == [
        "class Desk is defined in a.py, b.py",
        "b.py: class Told: use the domain's word",
        "b.py:3: held is no name; use the word for the thing",
        "b.py:4: opened: name a function by an imperative verb",
        "b.py:5: folder_of: name a function by an imperative verb",
        f"{KEEPER}/open.py: names the wall container; ask for a trait",
        *["hotdesk/host.py:1: imports by text; use an import statement"] * 2,
        f"crowd has {MAX_MODULES + 1} modules; at most {MAX_MODULES}",
    ]


def test_used_private_names_and_unused_shared_names_are_found(tmp_path: Path) -> None:
    for name, text in {
        "src/hotdesk/a.py": "def _hide(): ...\ndef show(): ...\ndef lonely(): ...\n@route\ndef registered(): ...\n",
        "src/hotdesk/b.py": "from hotdesk.a import _hide\n",
        "tests/test_a.py": "from hotdesk import a\na._hide()\na.show()\na.__doc__\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert find_sharing_faults(tmp_path) == [
        "src/hotdesk/b.py: imports the private _hide",
        "tests/test_a.py:2: uses the private a._hide",
        "src/hotdesk/a.py:3: lonely is used in this file only; begin it with an underscore",
    ]
