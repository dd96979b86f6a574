"""Briefs as TOML: what is meant is read, what is not is refused with its line and a remedy."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from hotdesk.brief import CLOSED, Rule, digest
from hotdesk.brief.job import LARGEST, Deliverable, parse_job, read_job
from hotdesk.cli import options
from hotdesk.cli.parser import Parser
from hotdesk.door.scope import scope_of
from hotdesk.errors import BriefError

LEAST = """goal = "Compare."
[[deliverables]]
path = "out/report.xlsx"
check = "xlsx"
"""
WHOLE = """# a brief
goal = "Compare."
inputs = ["invoices"]
egress = ["GET https://erp.test/orders/* step=ask", {host = "example.test", path = "/data/*"}]
grants = ["erp-token@erp.test bearer step=ask"]
names = {"erp.test" = "127.0.0.1:8443"}
image = "office"
seconds = 60
approve = "auto"
[[deliverables]]
path = "report.xlsx"
check = "xlsx"
expect = {rows = 5}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder that has the inputs."""
    (tmp_path / "invoices").mkdir()
    return tmp_path


def test_a_brief_needs_a_goal_and_a_deliverable_and_reaches_nothing(folder: Path) -> None:
    job = parse_job(LEAST.encode(), folder, scope_of)
    assert job.deliverables == (Deliverable("out/report.xlsx", "xlsx"),)
    assert (job.goal, job.inputs, job.image, job.seconds, job.approve) == ("Compare.", (), "base", 900.0, "auto")
    assert job.scope == CLOSED
    assert job.digest == hashlib.sha256(LEAST.encode()).hexdigest()


def test_everything_a_brief_says_is_read(folder: Path) -> None:
    job = parse_job(WHOLE.encode(), folder, scope_of)
    assert (job.inputs, job.image, job.seconds) == (("invoices",), "office", 60.0)
    assert job.deliverables[0].expect == {"rows": 5}
    assert job.scope.rules[1] == Rule("example.test", path="/data/*")
    assert job.scope.names == {"erp.test": "127.0.0.1:8443"}


def test_the_same_words_on_a_command_line_and_in_a_brief_give_the_same_policy(folder: Path) -> None:
    rules, grants = ["GET https://erp.test/orders/*", "github-read"], ["erp-token@erp.test env=TOKEN"]
    text = f"""egress = {rules}\ngrants = {grants}\nnames = {{"erp.test" = "127.0.0.1:1"}}\n{LEAST}"""
    job = parse_job(text.encode(), folder, scope_of)
    parser = Parser()
    options.add_scope(parser)
    argv = [
        *(word for rule in rules for word in ("--allow", rule)),
        "--grant",
        *grants,
        "--map",
        "erp.test=127.0.0.1:1",
    ]
    given = options.make_scope(parser.parse_args(argv))
    assert job.scope == given
    assert digest(job.scope) == digest(given)
    assert len(given.rules) > 2


def test_a_brief_is_found_by_its_name_or_its_folder(folder: Path) -> None:
    (folder / "brief.toml").write_text(WHOLE)
    assert read_job(folder, scope_of) == read_job(folder / "brief.toml", scope_of)
    assert read_job(folder, scope_of).folder == folder
    with pytest.raises(BriefError, match=r"cannot be read: No such file or directory; name it or its folder"):
        read_job(folder / "other.toml", scope_of)


@pytest.mark.parametrize(
    ("old", "new", "line", "why"),
    [
        ("seconds = 60", "secnods = 60", 8, "a brief has no 'secnods'; it has goal"),
        ("expect =", "expects =", 13, "a deliverable has no 'expects'; it has path, check, expect"),
        ("seconds = 60", "seconds = true", 8, "from 1 to"),
        ("seconds = 60", "seconds = 0", 8, "from 1 to"),
        ("seconds = 60", "seconds = nan", 8, "from 1 to"),
        ('"auto"', '"never"', 9, 'the only way to approve is "auto"'),
        ('"office"', '"../office"', 7, 'write image = "base"'),
        ('image = "office"', "look = 5", 7, 'write look = "anthropic:MODEL"'),
        ('image = "office"', 'look = "anthropic"', 7, 'write look = "anthropic:MODEL"'),
        ('["invoices"]', '["missing"]', 3, "is not there; it must lie beside the brief"),
        ('["invoices"]', '["../invoices"]', 3, "no path below a folder"),
        ('["invoices"]', '"invoices"', 3, "no list of at most 100 texts"),
        ('"report.xlsx"', '"/etc/report.xlsx"', 11, "no path below a folder"),
        ('"report.xlsx"', '"a\\u001b.xlsx"', 11, "x1b.xlsx' is no path"),
        ('path = "report.xlsx"', "path = 5", 10, "one path, or one has none"),
        ('check = "xlsx"', "check = 5", 12, 'write check = "xlsx"'),
        ("{rows = 5}", "5", 13, "expect is no table"),
        ("GET https://erp.test/orders/*", "GET ftp://erp.test/", 4, "neither http nor https"),
        ('{host = "example.test"', '{hots = "example.test"', 4, "is no field of a rule"),
        ("erp-token@erp.test", "erp-token@*.test", 5, "a secret goes to one host"),
        ('"127.0.0.1:8443"', '"127.0.0.1"', 6, "a name leads to a host and port"),
        ('"127.0.0.1:8443"', "8443", 6, "names is no table of at most 100"),
        ("erp-token@erp.test", "erp-token@other.test", 4, "where no rule lets the desk go"),
        ('egress = ["GET', 'egress = [5, "GET', 4, "no list of at most 1000 lines or tables"),
        ('goal = "Compare."', 'goal = " "', 2, "the goal is no text"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(folder: Path, old: str, new: str, line: int, why: str) -> None:
    text = WHOLE.replace(old, new)
    assert text != WHOLE
    (folder / "brief.toml").write_text(text)
    with pytest.raises(BriefError) as refused:
        read_job(folder, scope_of)
    assert f"brief.toml, line {line}: " in str(refused.value)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "brief.toml: it has no goal; write goal ="),
        ('goal = "x"', "brief.toml: it has no deliverables; write [[deliverables]]"),
        ("goal = ", "brief.toml: it is not TOML: Invalid value (at"),
        (LEAST + LEAST[18:], "line 2: two deliverables have one path"),
        ("#" * (LARGEST + 1), "larger than 1 MiB"),
    ],
)
def test_what_is_no_brief_is_refused(folder: Path, text: str, why: str) -> None:
    (folder / "brief.toml").write_text(text)
    with pytest.raises(BriefError) as refused:
        read_job(folder, scope_of)
    assert why in str(refused.value)
