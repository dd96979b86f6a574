"""Tests of loading briefs from TOML, JSON and Python: mistakes are refused with their line and a remedy."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from pathlib import Path

import pytest

from hotdesk.brief import CLOSED, Rule, compute_digest
from hotdesk.brief.brief import Brief, Deliverable, DeskSize, JobBudget, Models, RequiredCheck
from hotdesk.brief.keys import KEYS
from hotdesk.brief.load import MAX_BRIEF_BYTES, brief_of, parse_job, parse_table, read_job
from hotdesk.brief.reserved import OPERATOR_ONLY, SWITCH
from hotdesk.checks import find
from hotdesk.cli import options
from hotdesk.cli.parser import Parser
from hotdesk.config import GIB
from hotdesk.desk.wall.local import runtime
from hotdesk.door.policy.scope import scope_of
from hotdesk.errors import BriefError

LEAST = """goal = "Compare."
[[deliverables]]
path = "out/report.xlsx"
"""
WHOLE = """memory = "orders"  # a brief
goal = "Compare."
inputs = ["invoices", "drive:orders/2025.csv@3"]
egress = [
    "GET https://erp.test/orders/* step=ask",
    {host = "example.test", path = "/data/*"},
]
grants = ["erp-token@erp.test bearer step=ask"]
names = {"erp.test" = "127.0.0.1:8443"}
image = "office"
seconds = 60
approve = "plan"
look = "openai:eyes"
tools = ["shell", "browser_*"]
wall = "container"
wait = "2h"
sensitive_wall = "gvisor"
[size]
cpus = 4
memory = "4G"
disk = 1073741824

[budget]
tokens = 1000
dollars = 2.5
acts = 50

[models]
plan = "anthropic:large"
act = ["anthropic:org/small:4b", "openai:small"]

[[deliverables]]
path = "report.xlsx"
check = "xlsx"
expect = {rows = 5}

[[deliverables]]
path = "notes.txt"
kind = "text"

[[deliverables.checks]]
check = "text"

[[deliverables.checks]]
check = "words"
expect = {least = 10}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "invoices").mkdir()
    return tmp_path


def refusal(folder: Path, text: str, name: str = "brief.toml") -> str:
    (folder / name).write_text(text)
    with pytest.raises(BriefError) as refused:
        read_job(folder / name, scope_of)
    return str(refused.value).removeprefix(f"{folder}/")


def test_a_brief_needs_a_goal_and_a_deliverable_and_reaches_nothing(folder: Path) -> None:
    job = parse_job(LEAST.encode(), folder, scope_of)
    assert job == Brief(
        "Compare.",
        (Deliverable("out/report.xlsx", "xlsx", (RequiredCheck("xlsx"),)),),
        folder,
        hashlib.sha256(LEAST.encode()).hexdigest(),
        explicit=frozenset({"goal", "deliverables"}),
    )
    assert (job.scope, job.wall, job.approve, job.budget) == (CLOSED, "container", "auto", JobBudget())


def test_every_field_of_a_brief_is_read(folder: Path) -> None:
    job = parse_job(WHOLE.encode(), folder, scope_of)
    assert (job.inputs, job.image, job.seconds) == (("invoices", "drive:orders/2025.csv@3"), "office", 60.0)
    assert job.scope.rules[1] == Rule("example.test", path="/data/*")
    assert job.scope.names == {"erp.test": "127.0.0.1:8443"}
    assert (job.approve, job.look, job.tools, job.wall) == ("plan", "openai:eyes", ("shell", "browser_*"), "container")
    assert (job.memory, job.sensitive_wall) == ("orders", "gvisor")
    assert (job.size, job.budget, job.wait) == (DeskSize(4.0, 4 * GIB, GIB), JobBudget(1000, 2.5, 50), 7200.0)
    assert job.models == Models(("anthropic:large",), ("anthropic:org/small:4b", "openai:small"))
    assert job.deliverables == (
        Deliverable("report.xlsx", "xlsx", (RequiredCheck("xlsx", {"rows": 5}),)),
        Deliverable("notes.txt", "text", (RequiredCheck("text"), RequiredCheck("words", {"least": 10}))),
    )
    assert set(KEYS) - {"each", "reduce"} == job.explicit  # those are for swarms


def test_toml_json_and_python_mean_the_same(folder: Path) -> None:
    table = tomllib.loads(WHOLE)
    (folder / "brief.json").write_text(json.dumps(table))
    found = [
        parse_job(WHOLE.encode(), folder, scope_of),
        read_job(folder, scope_of),
        parse_table(table, folder, scope_of),
        brief_of(scope_of, folder, **table),
    ]
    assert len({job.digest for job in found}) == 3
    assert all({**fields(job), "digest": ""} == {**fields(found[0]), "digest": ""} for job in found)


def fields(job: Brief) -> dict[str, object]:
    return {name: getattr(job, name) for name in Brief.__slots__}


def test_python_may_use_its_own_types(folder: Path) -> None:
    job = brief_of(scope_of, folder, goal="x", inputs=(Path("invoices"),), deliverables=({"path": Path("a.xlsx")},))
    assert (job.inputs, job.deliverables[0].path, job.folder) == (("invoices",), "a.xlsx", folder)
    assert brief_of(scope_of, goal="x", deliverables=[{"path": "a.xlsx"}]).folder == Path.cwd()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"seconds": 0}, "the brief: seconds: seconds must be a number from 1 to 604800, not 0; write seconds=900"),
        ({"size": {"memory": 1}}, "the brief: size.memory: size.memory must be a size from 16M to 1048576G, not 1; "
         "write size=dict(memory='2G')"),
        ({"deliverables": [{"path": "a.xlsx"}, {}]}, "the brief: deliverables[1]: a deliverable has no path; "),
        ({"colour": 1}, "the brief: colour: a brief has no field 'colour'; its fields are goal, inputs"),
        ({"goal": None}, "the brief: goal: goal must be a text"),
        ({"goal": b"x"}, "the brief: a value cannot be expressed in JSON"),
        ({"expect": {1, 2}}, "the brief: a value cannot be expressed in JSON"),
        ({"seconds": float("inf")}, "the brief: a value cannot be expressed in JSON"),
        ({"script": "brain.py"}, "the brief: script: this brief must not set script: "),
    ],
    ids=str,
)  # fmt: skip
def test_in_python_the_field_is_named(folder: Path, wrong: dict[str, object], why: str) -> None:
    right: dict[str, object] = {"goal": "x", "deliverables": [{"path": "a.xlsx"}]}
    with pytest.raises(BriefError) as refused:
        parse_table({**right, **wrong}, folder, scope_of)
    assert str(refused.value).startswith(why)


@pytest.mark.parametrize(
    ("key", "meant"), [("secnods", "seconds"), ("minutes", "seconds"), ("secrets", "grants"), ("goals", "goal")]
)
def test_an_unknown_field_that_resembles_another_suggests_it(folder: Path, key: str, meant: str) -> None:
    with pytest.raises(BriefError, match=f"has no field '{key}'.*; did you mean '{meant}'\\?"):
        parse_table({"goal": "x", "deliverables": [{"path": "a.xlsx"}], key: 1}, folder, scope_of)


@pytest.mark.parametrize("word", ["write", "POST"])
def test_a_method_behind_the_host_of_a_rule_is_refused_with_its_place(folder: Path, word: str) -> None:
    brief = {"goal": "x", "deliverables": [{"path": "a.xlsx"}], "egress": [f"ledger.test/totals {word}"]}
    with pytest.raises(BriefError, match=f"'{word}' is in the wrong place; write read, write or"):
        parse_table(brief, folder, scope_of)


def test_an_unknown_field_that_resembles_none_suggests_nothing(folder: Path) -> None:
    with pytest.raises(BriefError) as refused:
        parse_table({"goal": "x", "deliverables": [{"path": "a.xlsx"}], "colour": 1}, folder, scope_of)
    assert "did you mean" not in str(refused.value)


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
    assert compute_digest(job.scope) == compute_digest(given)
    assert len(given.rules) > 2


def test_a_brief_is_found_by_its_name_or_its_folder(folder: Path) -> None:
    (folder / "brief.toml").write_text(WHOLE)
    assert read_job(folder, scope_of) == read_job(folder / "brief.toml", scope_of)
    assert read_job(folder, scope_of).folder == folder
    with pytest.raises(
        BriefError, match=r"cannot be read: No such file or directory; pass the path of a brief or its folder"
    ):
        read_job(folder / "other.toml", scope_of)
    (folder / "brief.json").write_text("{}")
    with pytest.raises(BriefError, match=r"has both brief.toml and brief.json; pass the path of one of them"):
        read_job(folder, scope_of)


@pytest.mark.parametrize(
    ("told", "name", "seconds"),
    [("wait = 5", "wait", 5.0), ('wait = "90s"', "wait", 90.0), ('wait = "15m"', "wait", 900.0),
     ('wait = "1d"', "wait", 86400.0), ("seconds = 1.5", "seconds", 1.5)],
)  # fmt: skip
def test_a_time_is_read(folder: Path, told: str, name: str, seconds: float) -> None:
    assert getattr(parse_job(f"{told}\n{LEAST}".encode(), folder, scope_of), name) == seconds


def test_a_deliverable_is_of_the_kind_its_suffix_says_and_checked_as_such(folder: Path) -> None:
    def read(told: str) -> Deliverable:
        return parse_job(f'goal = "x"\n[[deliverables]]\n{told}'.encode(), folder, scope_of).deliverables[0]

    assert read('path = "./a/B.PDF"') == Deliverable("a/B.PDF", "pdf", (RequiredCheck("pdf"),))
    assert read('path = "a.pdf"\nkind = "scan"') == Deliverable("a.pdf", "scan", (RequiredCheck("scan"),))
    assert read('path = "a"\ncheck = "program"') == Deliverable("a", "file", (RequiredCheck("program"),))
    assert read('path = "a.xlsx"\nexpect = {rows = 1}').checks == (RequiredCheck("xlsx", {"rows": 1}),)
    assert read('path = "a.patch"\nchecks = []') == Deliverable("a.patch", "patch", ())
    assert read('path = "a.xlsm"\nactive = ["macros"]').active == ("macros",)
    for wrong in ('"macros"', "[5]", '["no family"]', "5"):
        with pytest.raises(ValueError, match="active must be a list of the kinds of active content"):
            read(f'path = "a.xlsm"\nactive = {wrong}')


GRID = [
    ("seconds = 60", "secnods = 60", 11, "a brief has no field 'secnods'; its fields are goal"),
    ('goal = "Compare."', 'goal = " "', 2, 'goal must be a text of at most 10000 characters, not " "; write goal = "'),
    ('goal = "Compare."', "goal = 5", 2, "goal must be a text"),
    ('goal = "Compare."', f'goal = "{"x" * 10001}"', 2, "goal must be a text"),
    # inputs
    ('["invoices"', '["missing"', 3, "is not a file or a folder next to the brief; copy it there"),
    ('["invoices"', '["../invoices"', 3, "input '../invoices' must be a path relative to the brief's folder"),
    ('["invoices"', '["/etc"', 3, "input '/etc' must be a path relative to the brief's folder"),
    ('["invoices"', '[""', 3, "must be a path relative to the brief's folder"),
    ('["invoices"', '["invoices", "./invoices"', 3, "two inputs have the name 'invoices'"),
    ('["invoices"', '["invoices", "drive:invoices"', 3, "two inputs have the name 'invoices'"),
    ('["invoices"', "[5", 3, 'inputs must be a list of texts, but one item is 5; write inputs = ["invoices"]'),
    ('"drive:orders/2025.csv@3"', '"drive:"', 3, "must be a relative path without '..'; write the input like"),
    ('"drive:orders/2025.csv@3"', '"drive:../x"', 3, "must be a relative path without '..'; write the input like"),
    ('"drive:orders/2025.csv@3"', '"drive:x@0"', 3, "'0' is not a version number; write the input like"),
    ('"drive:orders/2025.csv@3"', '"drive:x@"', 3, "'' is not a version"),
    ('"drive:orders/2025.csv@3"', '"drive:x@latest"', 3, "'latest' is not a version"),
    ('["invoices", "drive:orders/2025.csv@3"]', '"invoices"', 3, "must be a list of at most 100 texts"),
    # where it may go
    ("GET https://erp.test/orders/*", "GET ftp://erp.test/", 5, "neither http nor https"),
    ("GET https://erp.test/orders/*", "alow erp.test", 5, "is not an option of a rule; the options are"),
    ("GET https://erp.test/orders/*", "alow erp.test", 5, "('alow' was read as the host)"),
    ('{host = "example.test"', '{hots = "example.test"', 6, "is not a field of a rule"),
    ('{host = "example.test", path = "/data/*"}', "5", 6, "egress must be a list of lines or tables"),
    ("erp-token@erp.test", "erp-token@*.test", 8, "a secret needs one exact host name"),
    ("erp-token@erp.test", "erp-token@other.test", 8, "but no rule admits that host"),
    ('grants = ["erp-token@erp.test bearer step=ask"]', 'grants = "x"', 8, "list of at most 100 lines or tables"),
    ('"127.0.0.1:8443"', '"127.0.0.1"', 9, "write NAME=HOST:PORT"),
    ('"127.0.0.1:8443"', "8443", 9, "names must be a table of at most 100"),
    ('names = {"erp.test" = "127.0.0.1:8443"}', "names = 5", 9, "names must be a table of at most 100"),
    # with what
    ('"office"', '"../office"', 10, 'write image = "base"'),
    ('"office"', "5", 10, 'write image = "base"'),
    ("seconds = 60", "seconds = true", 11, "seconds must be a number from 1 to 604800, not true; write seconds = 900"),
    ("seconds = 60", "seconds = 0", 11, "from 1 to"),
    ("seconds = 60", "seconds = nan", 11, "from 1 to"),
    ("seconds = 60", "seconds = 604801", 11, "from 1 to"),
    ("seconds = 60", 'seconds = "1h"', 11, "from 1 to"),
    ('approve = "plan"', 'approve = "never"', 12,
     'one of every, plan, risky, auto (strictest first), not "never"; write approve = "every"'),
    ('approve = "plan"', "approve = true", 12, '(strictest first), not true; write approve = "plan"'),
    ('approve = "plan"', "approve = []", 12, '(strictest first), not []; write approve = "plan"'),
    ('"openai:eyes"', "5", 13, 'write look = "anthropic:MODEL"'),
    ('"openai:eyes"', '"openai"', 13, "'openai' is not a model name of the form PROVIDER:MODEL"),
    ('"openai:eyes"', '"scripted:brain.py"', 13, "is not a model name"),
    ('"openai:eyes"', '"chat:http://10.0.0.1/x"', 13, "is not a model name"),
    ('"openai:eyes"', '"chat:small"', 13, "where PROVIDER is anthropic or openai; write look"),
    ('"openai:eyes"', '"ollama:qwen3"', 13, "where PROVIDER is anthropic or openai; write look"),
    ('"openai:eyes"', '"chat:\\u001b[2J"', 13, "x1b[2J' is not a model name"),
    ('["shell", "browser_*"]', "[]", 14, "tools is empty"),
    ('["shell", "browser_*"]', '"shell"', 14, "must be a list of at most 200 texts"),
    ('["shell", "browser_*"]', '["Shell"]', 14, "'Shell' is neither the name of a tool nor a prefix of tool names"),
    ('["shell", "browser_*"]', '["*_goto"]', 14, "'*_goto' is neither the name of a tool"),
    ('["shell", "browser_*"]', "[[]]", 14, "tools must be a list of texts"),
    ('sensitive_wall = "gvisor"', 'sensitive_wall = "paper"', 17,
     'one of microvm, gvisor, container (strongest first), not "paper"; write sensitive_wall = "gvisor"'),
    ('sensitive_wall = "gvisor"', 'sensitive_wall = "local"', 17, "sensitive_wall must be one of"),
    ('sensitive_wall = "gvisor"', "sensitive_wall = [1]", 17, "sensitive_wall must be one of"),
    ('wall = "container"', 'wall = "paper"', 15,
     'wall must be one of microvm, gvisor, container (strongest first), not "paper"; write wall = "gvisor"'),
    ('wall = "container"', "wall = 5", 15, "wall must be one of"),
    ('wall = "container"', "wall = []", 15, "wall must be one of"),
    ('wait = "2h"', 'wait = "2 h"', 16,
     'wait must be a time from 1 second to 30 days (2592000 seconds), not "2 h"; write wait = "2h"'),
    ('wait = "2h"', 'wait = "2w"', 16, "wait must be a time from 1 second"),
    ('wait = "2h"', 'wait = "h"', 16, "wait must be a time from 1 second"),
    ('wait = "2h"', "wait = 0", 16, "wait must be a time from 1 second"),
    ('wait = "2h"', "wait = true", 16, "wait must be a time from 1 second"),
    ('wait = "2h"', "wait = []", 16, "wait must be a time from 1 second"),
    ('wait = "2h"', 'wait = "99999d"', 16, "wait must be a time from 1 second"),
    ('wait = "2h"', f"wait = {'9' * 400}", 16, "wait must be a time from 1 second"),
    ('wait = "2h"', "wait = inf", 16, "wait must be a time from 1 second"),
    ("cpus = 4", "cpus = 0", 19, "size.cpus must be a number from 0.01 to 1024, not 0; write size.cpus = 2"),
    ("cpus = 4", 'cpus = "4"', 19, "size.cpus must be a number"),
    ("cpus = 4", "cores = 4", 19, "size has no field 'cores'; its fields are cpus, memory, disk"),
    ('memory = "4G"', 'memory = "much"', 20,
     'must be a size from 16M to 1048576G, not "much"; write size.memory = "2G"'),
    ('memory = "4G"', 'memory = "1M"', 20, "size.memory must be a size"),
    ('memory = "4G"', "memory = true", 20, "size.memory must be a size"),
    ('memory = "4G"', "memory = 4e9", 20, "size.memory must be a size"),
    ("disk = 1073741824", "disk = -1", 21, "size.disk must be a size"),
    ("tokens = 1000", "tokens = 0", 24, "budget.tokens must be a number from 1 to 1000000000000"),
    ("tokens = 1000", "tokens = 1e3", 24,
     "budget.tokens must be a whole number, not 1000.0; write budget.tokens = 1000000"),
    ("tokens = 1000", "token = 1000", 24, "budget has no field 'token'; its fields are tokens, dollars, acts"),
    ("dollars = 2.5", "dollars = -1", 25, "budget.dollars must be a number from 0.01 to 1000000"),
    ("dollars = 2.5", 'dollars = "2.5"', 25, "budget.dollars must be a number"),
    ("dollars = 2.5", "dollars = nan", 25, "budget.dollars must be a number"),
    ("acts = 50", "acts = false", 26, "budget.acts must be a number"),
    ("acts = 50", "acts = 1.5", 26, "budget.acts must be a whole number"),
    ('plan = "anthropic:large"', "", 28, 'models has no plan model; write models.plan = "anthropic:MODEL"'),
    ('plan = "anthropic:large"', "plan = []", 29, "plan must be a model or a list of 1 to 8"),
    ('plan = "anthropic:large"', "plan = 5", 29, "plan must be a model or a list"),
    ('plan = "anthropic:large"', 'plan = "large"', 29, "'large' is not a model name"),
    ('plan = "anthropic:large"', 'plan = "scripted:/tmp/x.py"', 29, "is not a model name"),
    ('plan = "anthropic:large"', 'plan = "replay:j0b"', 29, "is not a model name"),
    ('plan = "anthropic:large"', 'planner = "x"', 29, "models has no field 'planner'; its fields are plan, act"),
    ('"openai:small"]', "7]", 30, "'7' is not a model name"),
    ('"openai:small"]', ", ".join(['"openai:small"'] * 8) + "]", 30, "act must be a model or a list of 1 to 8"),
    # what is wanted
    ('path = "report.xlsx"', "", 32, 'a deliverable has no path; write path = "report.xlsx"'),
    ('path = "report.xlsx"', "path = 5", 33, "deliverable '5' is not a text; write the path in quotes"),
    ('"report.xlsx"', '"/etc/report.xlsx"', 33, "deliverable '/etc/report.xlsx' must be a path relative to"),
    ('"report.xlsx"', '"a\\u001b.xlsx"', 33, "x1b.xlsx' contains control characters"),
    ('check = "xlsx"', "check = 5", 34, 'write check = "xlsx"'),
    ('check = "xlsx"', 'check = "../x"', 34, 'write check = "xlsx"'),
    ('check = "xlsx"', "checks = []", 34, "a deliverable with `checks` must not have"),
    ("expect = {rows", "expects = {rows", 35, "has no field 'expects'; its fields are path, kind, check, expect"),
    ("{rows = 5}", "5", 35, "expect must be a table"),
    ("{rows = 5}", "{day = 2025-01-01}", 35, "which is a date, an invalid number"),
    ("{rows = 5}", "{rows = nan}", 35, "which is a date, an invalid number"),
    ('path = "notes.txt"', 'path = "./report.xlsx"', 38, "two deliverables have the path 'report.xlsx'; give each"),
    ('path = "notes.txt"', 'path = "report.xlsx/a"', 38, "two deliverables have the path 'report.xlsx/a'"),
    ('kind = "text"', "kind = 5", 39, "kind must be one word in lower case, such as a file suffix"),
    ('kind = "text"', 'kind = "Text"', 39, "kind must be one word in lower case, such as a file suffix"),
    ('check = "text"', "", 41, 'an entry of `checks` has no field `check`; write check = "xlsx"'),
    ('check = "text"', 'checks = "text"', 42, "a check has no field 'checks'; its fields are check, expect"),
    ("expect = {least = 10}", "expect = []", 46, "expect must be a table"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "why"), GRID, ids=[f"{row[2]}-{row[1][:40]}" for row in GRID])
def test_an_invalid_value_is_refused_with_its_line(folder: Path, old: str, new: str, line: int, why: str) -> None:
    assert WHOLE.count(old) >= 1
    told = refusal(folder, WHOLE.replace(old, new, 1))
    assert told.startswith(f"brief.toml, line {line}: ")
    assert why in told
    assert ";" in told, "there is no remedy"


def test_all_faults_of_a_brief_are_reported_at_once_in_the_order_of_its_lines(folder: Path) -> None:
    text = WHOLE.replace('"Compare."', "5").replace('approve = "plan"', 'approve = "plna"')
    text = text.replace("cpus = 4", "cpus = 0")
    text = text.replace('"4G"', '"much"').replace("acts = 50", "act = 50").replace('["invoices"', '["invocies"')
    text = text.replace("{rows = 5}", "{rows = -5}").replace('kind = "text"', 'kind = "Text"')
    (folder / "brief.toml").write_text(text)
    with pytest.raises(BriefError) as refused:
        read_job(folder, scope_of, find)
    assert [fault.partition(":")[0] for fault in refused.value.faults] == [
        f"line {line}" for line in (2, 3, 12, 19, 20, 26, 35, 39)
    ]
    assert f"{folder}/brief.toml: 8 faults: (1) line 2: goal must be a text" in str(refused.value)
    assert "copy it there, or write 'invoices' if that is what you mean" in refused.value.faults[1]
    assert refused.value.faults[2].endswith('not "plna"; write approve = "plan"')
    assert "did you mean 'acts'?" in refused.value.faults[5]
    assert "deliverable 'report.xlsx': xlsx: invalid rows: " in refused.value.faults[6]
    assert "(the brief has -5); write rows = 5, or" in refused.value.faults[6]


@pytest.mark.parametrize(
    ("old", "new", "line", "why"),
    [
        ("cpus = 4", "cpus = 4\nbudget = 5", 20,
         "'budget' is a field of the brief itself: write it above the first line that begins with `[`, as budget = {"),
        ("seconds = 60", "tokens = 60", 11, "'tokens' is a field of budget: write budget.tokens = 1000000"),
        ("tokens = 1000", "minutes = 10", 24,
         "the time limit of a job is the field seconds of the brief itself: write it above the first line that begins "
         "with `[`, as seconds = 600"),
        ('kind = "text"', "time_limit = 60", 39, "as seconds = 600"),
        ('names = {"erp.test" = "127.0.0.1:8443"}', "names = {egress = []}", 9, "; 'egress' is a field of the brief"),
        ('kind = "text"', "seconds = 60", 39, "'seconds' is a field of the brief itself: write it above"),
        ('wall = "container"', 'wall = "contianer"', 15, 'write wall = "container"'),
        ('wall = "container"', 'wall = "chroot"', 15, 'write wall = "gvisor"'),
        ('approve = "plan"', 'approve = "none"', 12, 'write approve = "plan"'),
    ],
)  # fmt: skip
def test_misplaced_or_misspelt_fields_get_a_remedy(folder: Path, old: str, new: str, line: int, why: str) -> None:
    told = refusal(folder, WHOLE.replace(old, new, 1))
    assert told.startswith(f"brief.toml, line {line}: ")
    assert why in told


def test_egress_as_a_table_is_refused_with_the_faults_of_its_rules(folder: Path) -> None:
    (folder / "brief.toml").write_text(f'{LEAST}[egress]\nrules = ["GET erp.test", "GET erp.test:99999/data"]\n')
    with pytest.raises(BriefError) as refused:
        read_job(folder, scope_of)
    table, rule = refused.value.faults
    assert table == (
        "line 4: egress is a list of rules, not a table: instead of [egress], write the list above the first line of "
        'the brief that begins with `[`, as egress = ["GET https://erp.example.test/orders/*"]'
    )
    assert rule.startswith("line 5: rule 'GET erp.test:99999/data': port is '99999'; it must be a number from 1 to ")
    told = refusal(folder, '{"goal": "x", "deliverables": [{"path": "a.xlsx"}],\n"egress": {"rules": []}}', "b.json")
    assert told.startswith('b.json, line 2: egress must be a list of rules, not a table; write "egress": ["GET ')


@pytest.mark.parametrize(
    ("deliverable", "why"),
    [
        ('path = "a.pdf"\npages = 3',
         "; 'pages' is an option of the check pdf: move it into `expect`, as expect = {pages = 3}"),
        ('path = "a.txt"\ncheck = "csv"\nrows = 3\nexpect = {}',
         "; 'rows' is an option of the check csv: move it into `expect`"),
        ('path = "a.pdf"\nsheets = 3', "checks, active"),
        ('path = "a.pdf"\nkinds = "pdf"', "; did you mean 'kind'?"),
        ('path = "a.none"\ncheck = "active-content"\npages = 3', "checks, active"),
        ('path = "a.pdf"\nexpect = {egress = []}',
         "; 'egress' is a field of the brief itself: write it above the first line "
         'that begins with `[`, as egress = ["GET https://erp.example.test/orders/*"]'),
        ('path = "a.csv"\nexpect = {rwos = 1}', "; did you mean 'rows'?"),
    ],
)  # fmt: skip
def test_what_belongs_into_or_out_of_expect_has_its_place_named(folder: Path, deliverable: str, why: str) -> None:
    with pytest.raises(ValueError, match=r", line [3-6]: .*") as refused:
        parse_job(f'goal = "x"\n[[deliverables]]\n{deliverable}\n'.encode(), folder, scope_of, find_check=find)
    assert str(refused.value).split(" (2) ")[0].split("; (2)")[0].endswith(why)


@pytest.mark.parametrize("key", [key for key in KEYS if key not in ("goal", "deliverables", "names")])
@pytest.mark.parametrize("value", [None, {"a": [None]}, [[]], True, -1, "\ud800"], ids=repr)
def test_every_field_refuses_the_wrong_type_in_json_too(folder: Path, key: str, value: object) -> None:
    table = {"goal": "x", "deliverables": [{"path": "a.xlsx"}], key: value}
    told = refusal(folder, json.dumps(table, indent=1), "brief.json")
    assert re.match(r"brief\.json(, line [89]|: [23] faults: \(1\) line [58]): ", told)
    assert ";" in told


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"goal": "x",\n "goal": "y"}', "brief.json, line 2: 'goal' appears twice; remove one of them"),
        ('{"goal": "x",\n "seconds": NaN}', "brief.json, line 2: NaN is not valid JSON; write a number"),
        ('{"goal": "x"\n "seconds": 1}', "brief.json, line 2, column 2: invalid JSON: Expecting ',' delimiter"),
        ('{"deliverables": [{"path": "a.xlsx"}],\n"goal": "\\ud800"}', "brief.json, line 2: goal must be a text"),
        ('{"goal": "x", "deliverables": [{"path": "a.xlsx", "expect": {\n"a": ["\\ud800"]}}]}',
         "brief.json, line 2: expect contains "),
        ("[]", "brief.json: the brief must be a table with fields"),
        ("", "brief.json, line 1, column 1: invalid JSON: Expecting value"),
        ("{}", 'brief.json: 2 faults: (1) the field goal is missing; write "goal": "Compare'),
        ('{"goal": "x",\n\n"seconds": "y",\n"deliverables": [{"path": "a.xlsx"}]}', "brief.json, line 3: seconds must"),
        ('{"size":\n{"memory": 1},"goal": "x","deliverables": [{"path": "a.xlsx"}]}',
         'brief.json, line 2: size.memory must be a size from 16M to 1048576G, not 1; write "size": {"memory": "2G"}'),
        ("9" * 5000, "brief.json: invalid JSON: a number has more than 4300 digits"),
        ("[" * 100_000, "brief.json, line 1: lists or tables are nested deeper than 16 levels"),
    ],
    ids=range(12),
)  # fmt: skip
def test_an_invalid_brief_in_json_is_refused_with_its_place(folder: Path, text: str, why: str) -> None:
    assert refusal(folder, text, "brief.json").startswith(why)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "brief.toml: 2 faults: (1) the field goal is missing; write goal ="),
        ('goal = "x"', "brief.toml: the field deliverables is missing; write deliverables = [{path ="),
        ('goal = "x"\ndeliverables = []', "brief.toml, line 2: deliverables is empty; write"),
        (
            'goal = "x"\ndeliverables = 5',
            "brief.toml, line 2: deliverables must be a list of at most 100 tables, not 5; write",
        ),
        (
            'goal = "x"\ndeliverables = [5]',
            "brief.toml, line 2: deliverables must be a list of tables, but one item is 5; write",
        ),
        (
            'goal = "x"\n[[deliverables]]\npath = "a"',
            "brief.toml, line 2: 'a' has no check, and its",
        ),
        ("goal = ", "brief.toml: invalid TOML: Invalid value"),
        ("goal = 1\ngoal = 2\n", "brief.toml, line 2, column 9: invalid TOML: Cannot overwrite a value; correct"),
        ("#" * (MAX_BRIEF_BYTES + 1), "brief.toml: the brief is larger than 1 MiB"),
        ("a = " + "[" * 100_000, "brief.toml, line 1: lists or tables are nested deeper than 16 levels"),
        ("\n" + "a." * 100_000 + "a = 1", "brief.toml, line 2: lists or tables are nested deeper than 16 levels"),
        ("[" + "a." * 100_000 + "a]", "brief.toml, line 1: lists or tables are nested deeper than 16 levels"),
    ],
    ids=range(12),
)
def test_an_invalid_brief_is_refused(folder: Path, text: str, why: str) -> None:
    assert refusal(folder, text).startswith(why)


def test_text_that_is_not_utf_8_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"^, line 2: the text is not UTF-8"):
        parse_job(b'goal = "x"\n# \xff', folder, scope_of)


def test_no_link_leads_an_input_out_of_its_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (folder / "away").symlink_to(outside)
    (folder / "near").symlink_to(folder / "invoices")
    assert "line 1: the input 'away' is a symbolic link to a place outside" in refusal(
        folder, f'inputs = ["away"]\n{LEAST}'
    )
    assert parse_job(f'inputs = ["near"]\n{LEAST}'.encode(), folder, scope_of).inputs == ("near",)


def test_an_input_is_a_file_or_a_folder(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert "a file or a folder" in refusal(folder, f'inputs = ["pipe"]\n{LEAST}')


def test_without_the_switch_there_is_no_local_wall(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f'wall = "local"\n{LEAST}'
    assert SWITCH == runtime.SWITCH
    monkeypatch.setenv(SWITCH, "1")
    assert parse_job(text.encode(), folder, scope_of).wall == "local"
    for value in ("", "0", "yes"):
        monkeypatch.setenv(SWITCH, value)
        assert "line 1: the wall local isolates nothing" in refusal(folder, text)


@pytest.mark.parametrize("key", ["brain", "script", "command", "program"])
def test_a_brief_cannot_set_what_this_machine_runs(folder: Path, key: str) -> None:
    told = refusal(folder, f'{key} = "brain.py"\n{LEAST}')
    assert told.startswith(f"brief.toml, line 1: this brief must not set {key}: ")
    assert "the programs of this machine; name models in `models`" in told


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ('names = {"erp.test" = "127.0.0.1:1"}', True),
        ("names = {}", False),
        ('inputs = ["invoices"]', True),
        ('inputs = ["drive:x", "invoices"]', True),
        ('inputs = ["drive:x"]', False),
        ('wall = "local"', True),
        ('wall = "container"', False),
        ('brain = ""', True),
    ],
)
def test_other_users_may_set_fewer_fields_than_the_operator(folder: Path, line: str, refused: bool) -> None:
    text = f"{line}\n{LEAST}".encode()
    if not refused:
        assert parse_job(text, folder, scope_of, operator=False)
        return
    with pytest.raises(ValueError, match=r"^, line 1: this brief must not set \w+: .*; "):
        parse_job(text, folder, scope_of, operator=False)
    if not OPERATOR_ONLY[line.split()[0]].always:
        assert parse_job(text, folder, scope_of, operator=True)


MEMORY = 'goal = "x"\nmemory = "orders"\n'
WANTED = '[[deliverables]]\npath = "a.txt"\nchecks = []\n'


def test_a_memory_has_a_plain_name(tmp_path: Path) -> None:
    assert parse_job((MEMORY + WANTED).encode(), tmp_path, scope_of).memory == "orders"
    assert parse_job(('goal = "x"\n' + WANTED).encode(), tmp_path, scope_of).memory == ""
    for wrong in ("true", '""', '"Orders"', '"../x"', "[]"):
        with pytest.raises(
            ValueError, match=r', line 2: memory must be a name of lower-case letters.*; write memory = "'
        ):
            parse_job((MEMORY.replace('"orders"', wrong) + WANTED).encode(), tmp_path, scope_of)


@pytest.mark.parametrize(
    ("brief", "said"),
    [
        (
            MEMORY + 'inputs = ["memory"]\n' + WANTED,
            "memory/ is reserved for files of earlier jobs; give 'memory' another path",
        ),
        (MEMORY + WANTED.replace("a.txt", "memory/a.txt"), "give 'memory/a.txt' another path"),
        (MEMORY + 'inputs = ["drive:memory/orders/files/a.py"]\n' + WANTED, "no person has reviewed it"),
    ],
)
def test_no_input_can_use_the_path_of_a_memory(tmp_path: Path, brief: str, said: str) -> None:
    (tmp_path / "memory").mkdir()
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_job(brief.encode(), tmp_path, scope_of)
    without = brief.replace('memory = "orders"\n', "")
    if "drive:" not in brief:
        assert parse_job(without.encode(), tmp_path, scope_of)


def test_a_misspelt_field_hides_no_fault_of_its_value(folder: Path) -> None:
    text = refusal(folder, 'goal = "go"\napproval = "always"\n[[deliverables]]\npath = "a.csv"\n')
    assert "line 2: a brief has no field 'approval'" in text
    assert 'line 2: approve must be one of every, plan, risky, auto (strictest first), not "always"; ' in text
    assert 'write approve = "every"' in text


def test_a_faulty_rule_hides_no_fault_of_a_grant(folder: Path) -> None:
    rules = 'egress = ["GET https://a.example.test:443443/**"]\ngrants = ["login@a.example.test cookie"]\n'
    text = refusal(folder, f'goal = "go"\n{rules}[[deliverables]]\npath = "a.csv"\n')
    assert "port is '443443'" in text
    assert "line 3: grant 'login@a.example.test cookie': the place cookie needs the cookie's name" in text
