"""Tests of `hotdesk brief`: what a brief means is shown, mistakes are refused, and every template is valid."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hotdesk import cli
from hotdesk.cli.brief_summary import format_bytes
from hotdesk.cli.jobs.brief import find_templates
from hotdesk.errors import BriefError

Run = Callable[..., str]
EXAMPLES = Path(__file__).parents[4] / "examples"
BRIEF = """goal = "Compare\\n\\u001b[2J them."
inputs = ["files", "one.txt", "drive:orders.csv@2"]
egress = ["GET https://erp.test/orders/*"]
grants = ["erp-token@erp.test"]
[[deliverables]]
path = "report.xlsx"
expect = {columns = ["A"], rows = 5}
[[deliverables]]
path = "notes.md"
checks = []
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `hotdesk brief` in a folder and state directory of this test; return its output."""
    monkeypatch.setenv("HOTDESK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def run(*argv: str) -> str:
        capsys.readouterr()
        assert cli.carry_out(["brief", *argv]) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def brief(tmp_path: Path) -> Path:
    (tmp_path / "files/deep").mkdir(parents=True)
    (tmp_path / "files/a").write_bytes(b"x" * 1000)
    (tmp_path / "files/deep/b").write_bytes(b"x" * 1048)
    (tmp_path / "one.txt").write_bytes(b"x")
    (tmp_path / "brief.toml").write_text(BRIEF)
    return tmp_path / "brief.toml"


def configure(brief: Path, text: str) -> None:
    (brief.parent / "home/etc").mkdir(parents=True, exist_ok=True)
    (brief.parent / "home/etc/config.toml").write_text(text)


def test_allowed_active_content_is_shown_and_must_be_known(run: Run, brief: Path) -> None:
    text = brief.read_text()
    brief.write_text(text.replace("rows = 5}", 'rows = 5}\nactive = ["macros", "queries"]', 1))
    assert 'rows": 5}, and may contain macros, queries\n' in run("check", str(brief))
    brief.write_text(text.replace("rows = 5}", 'rows = 5}\nactive = ["magic"]', 1))
    with pytest.raises(
        BriefError, match=r"deliverable 'report.xlsx': 'magic' is not a kind of active content; write active = "
    ):
        run("check", str(brief))


def test_a_brief_is_shown_as_a_table(run: Run, brief: Path) -> None:
    lines = run("check", str(brief)).splitlines()
    table, told = lines[:13], lines[13:]
    assert told[0] == "requirements  report.xlsx:"
    headings = "Row 1 of the first sheet must have exactly these headings, in this order: "
    assert told[1] == f'                - {headings}"A".'
    assert all(line.startswith("                - ") for line in told[1:])
    assert len(told) > 10
    assert table == [
        "goal          Compare \\x1b[2J them.",
        "inputs        files, 2 files, 2 KiB",
        "              one.txt, 1 file, 1 byte",
        "              drive:orders.csv@2, from the drive",
        'deliverables  report.xlsx (xlsx), checked by xlsx {"columns": ["A"], "rows": 5}',
        "              notes.md (md), not checked",
        "network       GET https://erp.test/orders/*",
        "secrets       erp-token@erp.test",
        "tools         all tools of the desk",
        "models        the model given on the command line",
        "budget        15 min; no limit on tokens, dollars or tool calls",
        "approvals     auto: starting the job approves the plan; a request without an answer is refused after 24 h",
        "desk          base behind the wall container, 2 CPUs, 2 GiB of memory, 16 GiB of disk",
    ]


def test_models_names_and_tools_are_shown_where_there_are_any(run: Run, brief: Path) -> None:
    more = 'models = {plan = ["anthropic:a", "openai:b"], act = "anthropic:c"}\nlook = "openai:d"\n'
    more += 'tools = ["shell", "file_*"]\n'
    brief.write_text(f'{more}names = {{"erp.test" = "127.0.0.1:1"}}\n{BRIEF}')
    told = run("check", str(brief))
    assert "models        planning: anthropic:a (fallback: openai:b)\n              acting: anthropic:c\n" in told
    assert "              looking at pictures: openai:d\n" in told
    assert "tools         shell, file_*\n" in told
    assert "names         erp.test maps to 127.0.0.1:1\n" in told


def test_long_lists_are_cut_on_a_terminal_and_whole_in_json(run: Run, brief: Path) -> None:
    hosts = [f"h{number}.test" for number in range(29)]
    brief.write_text(BRIEF.replace('orders/*"]', f'orders/*", {str(hosts)[1:]}'))
    assert "and 10 more: see --json" in run("check", str(brief))
    assert len(json.loads(run("check", str(brief), "--json"))["egress"]) == 30


def test_a_brief_is_shown_as_json(run: Run, brief: Path) -> None:
    told = json.loads(run("check", str(brief.parent), "--json"))
    assert told["inputs"] == [
        {"name": "files", "files": 2, "bytes": 2048},
        {"name": "one.txt", "files": 1, "bytes": 1},
        {"name": "drive:orders.csv@2"},
    ]
    assert told["deliverables"][0] == {
        "path": "report.xlsx",
        "kind": "xlsx",
        "checks": [{"check": "xlsx", "expect": {"columns": ["A"], "rows": 5}}],
        "active": [],
    }
    assert (told["egress"], told["grants"]) == (["GET https://erp.test/orders/*"], ["erp-token@erp.test"])
    assert told["budget"] == {"tokens": None, "dollars": None, "acts": None, "seconds": 900.0}
    assert (told["models"], told["approve"]) == ({"plan": [], "act": [], "look": ""}, "auto")


def test_limits_the_brief_does_not_set_are_shown_as_they_will_be(run: Run, brief: Path) -> None:
    configure(brief, '[ceiling]\ntokens = 1000\nseconds = 60\napprove = "plan"\n')
    told = run("check", str(brief))
    assert "budget        1 min, 1,000 tokens; no limit on dollars or tool calls" in told
    assert "approvals     plan: a person approves the plan;" in told


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ("[ceiling]\ngrants = []", "does not allow the secret erp-token (allowed: none); remove its grant"),
        (
            '[ceiling]\nhosts = ["read other.test"]',
            "the operator's ceiling does not allow GET https://erp.test/orders/*, erp-token@erp.test; remove this from",
        ),
        (
            '[door]\nceiling = ["read other.test"]',
            "the operator's ceiling does not allow GET https://erp.test/orders/*, erp-token@erp.test; remove this from",
        ),
        ('[ceiling]\nwall = "microvm"', "the wall microvm is not available here: "),
    ],
)
def test_a_brief_beyond_the_ceiling_is_refused(run: Run, brief: Path, settings: str, why: str) -> None:
    configure(brief, settings)
    with pytest.raises(BriefError) as refused:
        run("check", str(brief))
    assert str(refused.value).startswith(f"{brief}: ")
    assert why in str(refused.value)


def test_a_brief_cannot_map_names_under_a_ceiling_of_hosts(run: Run, brief: Path) -> None:
    configure(brief, '[ceiling]\nhosts = ["read *.example.test"]')
    text = f'names = {{"erp.example.test" = "127.0.0.1:1"}}\n{BRIEF}'
    brief.write_text(text.replace("erp.test", "erp.example.test"))
    with pytest.raises(BriefError, match="only the operator may map host names"):
        run("check", str(brief))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            "checks = []",
            "",
            "deliverable 'notes.md': unknown check 'md'; the checks are ",
        ),
        ("rows = 5", "rows = -5", "deliverable 'report.xlsx': "),
        ('goal = "', 'gaol = "', ", line 1: a brief has no field 'gaol'"),
    ],
)
def test_a_brief_that_fails_its_check_is_refused(run: Run, brief: Path, old: str, new: str, why: str) -> None:
    brief.write_text(BRIEF.replace(old, new))
    with pytest.raises(BriefError) as refused:
        run("check", str(brief))
    assert why in str(refused.value)


def test_a_brief_that_is_refused_is_exit_code_125(
    run: Run, brief: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    brief.write_text("goal = 5")
    monkeypatch.setattr("sys.argv", ["hotdesk", "brief", "check", str(brief)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 125
    first, missing, wrong = capsys.readouterr().err.splitlines()
    assert first == f"hotdesk: {brief}: 2 faults"
    assert missing.startswith("  the field deliverables is missing; write ")
    assert wrong.startswith("  line 1: goal must be a text of at most 10000 characters, not 5; write ")


def test_inputs_without_content_are_warned_of(run: Run, brief: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (brief.parent / "empty").mkdir()
    (brief.parent / "one.txt").write_bytes(b"")
    brief.write_text(BRIEF.replace('"files"', '"files", "empty"'))
    assert cli.carry_out(["brief", "check", str(brief)]) == 0
    assert capsys.readouterr().err.splitlines()[:2] == [
        "warning: the input 'empty' is a folder without files; put the files there, or remove it from inputs",
        "warning: the input 'one.txt' is an empty file; write its content, or remove it from inputs",
    ]


@pytest.mark.parametrize(
    ("rule", "meant"),
    [
        ("allow everything", "a rule cannot stand for every host; list each host that the job needs, such as"),
        ("deny all", "requests that no rule allows are refused anyway, so remove this rule"),
        ("none", "a brief without egress rules reaches nothing, so remove this rule"),
        ("pipy", "did you mean the preset 'pypi'? Write only its name as the rule."),
        ("GET wikipedia/data/*", "write the whole name of the host, such as 'wikipedia.com'"),
        ("localhost", ""),
        ("erp", ""),
        ("[2001:db8::1]", ""),
        ("pypi", ""),
    ],
)
def test_a_rule_for_a_host_of_one_word_is_warned_of(
    run: Run, brief: Path, capsys: pytest.CaptureFixture[str], rule: str, meant: str
) -> None:
    names = 'names = {erp = "127.0.0.1:8443"}'
    brief.write_text(BRIEF.replace("egress = [", f'{names}\negress = ["{rule}", '))
    assert cli.carry_out(["brief", "check", str(brief)]) == 0
    found = [line for line in capsys.readouterr().err.splitlines() if "is for one host with the name" in line]
    assert len(found) == bool(meant)
    assert all(line.startswith("warning: the egress rule ") and meant in line for line in found)


def test_an_archive_that_cannot_be_inspected_is_warned_of(
    run: Run, brief: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = '\n[[deliverables]]\npath = "all.tar.gz"\ncheck = "command"\nexpect = {run = ["true"]}\n'
    brief.write_text(BRIEF + item)
    assert cli.carry_out(["brief", "check", str(brief)]) == 0
    assert "'all.tar.gz' cannot pass its checks: only zip archives" in capsys.readouterr().err
    brief.write_text(BRIEF + item + 'active = ["unknown-format"]\n')
    assert cli.carry_out(["brief", "check", str(brief)]) == 0
    assert "tar.gz' cannot" not in capsys.readouterr().err


def test_an_image_that_is_not_built_is_warned_of_with_the_nearest(
    run: Run, brief: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    brief.write_text(f'image = "ofice"\n{BRIEF}')
    (brief.parent / "home/images/images").mkdir(parents=True)
    assert cli.carry_out(["brief", "check", str(brief)]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: the image 'ofice' is not on this machine; did you mean 'office'? ")


def test_templates_are_listed(run: Run) -> None:
    lines = run("new").splitlines()
    assert [line.split()[0] for line in lines] == ["patch", "report", "web"]
    assert all(len(line.split()) > 5 for line in lines)


@pytest.mark.parametrize("name", find_templates())
def test_every_template_passes_its_check(run: Run, tmp_path: Path, name: str) -> None:
    assert run("new", name) == f"created {name}/brief.toml; edit it, then run `hotdesk brief check {name}`\n"
    assert "deliverables" in run("check", name)
    run("new", name, str(tmp_path / "other/place"))
    assert run("check", str(tmp_path / "other/place")) == run("check", name)
    assert not [path for path in (tmp_path / name).rglob("*") if "__pycache__" in str(path)]


def test_a_template_overwrites_nothing(run: Run, tmp_path: Path) -> None:
    run("new", "report", "here")
    (tmp_path / "here/brief.toml").write_text("mine")
    for name in ("report", "web"):
        with pytest.raises(BriefError, match=r"exists already; choose another folder"):
            run("new", name, "here")
    assert (tmp_path / "here/brief.toml").read_text() == "mine"


def test_a_partly_existing_target_is_left_unchanged(run: Run, tmp_path: Path) -> None:
    (tmp_path / "here/files").mkdir(parents=True)
    (tmp_path / "here/files/orders.csv").symlink_to("/nowhere")
    with pytest.raises(BriefError, match=r"orders.csv exists already"):
        run("new", "report", "here")
    assert not (tmp_path / "here/brief.toml").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(BriefError, match=r"file cannot be written: .*; choose another folder"):
        run("new", "report", "file")


def test_an_unknown_template_is_refused(run: Run) -> None:
    with pytest.raises(BriefError, match="unknown template 'raport'; the templates are patch, report, web"):
        run("new", "raport")


@pytest.mark.parametrize("name", sorted(path.parent.name for path in EXAMPLES.glob("*/brief.toml")))
def test_every_example_passes_its_check(run: Run, name: str) -> None:
    assert run("check", str(EXAMPLES / name))


@pytest.mark.parametrize(
    ("size", "told"),
    [(0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1024, "1 KiB"), (1536, "1.5 KiB"), (1 << 20, "1 MiB"),
     (1023 << 20, "1023 MiB"), (1 << 30, "1 GiB"), (5 << 50, "5120 TiB")],
)  # fmt: skip
def test_an_amount_is_written_for_people(size: int, told: str) -> None:
    assert format_bytes(size) == told
