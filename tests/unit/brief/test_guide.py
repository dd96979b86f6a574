"""Tests of the guide to briefs: each code block is valid, and the table has every field."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from hotdesk import config
from hotdesk.brief.brief import Brief
from hotdesk.brief.keys import KEYS
from hotdesk.brief.load import parse_job
from hotdesk.checks import find
from hotdesk.config import CEILING
from hotdesk.door.policy.scope import scope_of

GUIDE = (Path(__file__).parents[3] / "docs/guide/brief.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
BRIEFS = [(form, text) for form, text in BLOCKS if form in ("toml", "json") and "# config.toml" not in text]
SETTINGS = [text for form, text in BLOCKS if form == "toml" and "# config.toml" in text]
NEEDED = {"goal": 'goal = "x"\n', "deliverables": '[[deliverables]]\npath = "a.xlsx"\nchecks = []\n'}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "invoices").mkdir()
    return tmp_path


@pytest.mark.parametrize(("form", "text"), BRIEFS, ids=range(len(BRIEFS)))
def test_every_brief_in_the_guide_is_valid(folder: Path, form: str, text: str) -> None:
    if form == "toml":
        table = tomllib.loads(text)
        text = ("" if "goal" in table else NEEDED["goal"]) + text
        text += "" if "deliverables" in table else NEEDED["deliverables"]
    job = parse_job(text.encode(), folder, scope_of, "json" if form == "json" else "toml")
    for wanted in (wanted for item in job.deliverables for wanted in item.checks):
        assert find(wanted.check, wanted.expect)


def test_the_python_of_the_guide_gives_a_brief() -> None:
    (code,) = [text for form, text in BLOCKS if form == "python"]
    names: dict[str, object] = {}
    exec(code, names)  # noqa: S102 - our own guide
    assert isinstance(names["job"], Brief)
    assert names["job"].budget.acts == 200


@pytest.mark.parametrize("text", SETTINGS, ids=range(len(SETTINGS)))
def test_every_setting_in_the_guide_exists(tmp_path: Path, text: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/config.toml").write_text(text)
    assert config.load({"HOTDESK_HOME": str(tmp_path)}) != config.load({"HOTDESK_HOME": str(tmp_path / "other")})


def test_the_guide_has_every_field_and_every_bound() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .* \| .* \|$", GUIDE, re.MULTILINE)
    assert sorted(rows) == sorted(KEYS)
    ceilings = [tomllib.loads(text).get("ceiling", {}) for text in SETTINGS]
    assert any(set(each) == set(CEILING) for each in ceilings)


def test_every_field_is_in_an_example_of_the_guide() -> None:
    shown = {key for form, text in BRIEFS if form == "toml" for key in tomllib.loads(text)}
    assert set(KEYS) - shown == {"names"}
