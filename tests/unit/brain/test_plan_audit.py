"""Tests of the plan audit: a table of plans that violate their brief in one way each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.brain.plan_audit import audit
from hotdesk.brief import Scope, parse_grant, parse_rule
from hotdesk.brief.brief import Brief, Deliverable, JobBudget
from hotdesk.plan import Action, Plan, Step
from hotdesk.tool import Parameter, Tool

RULES = (
    "read erp.test",
    "POST erp.test/orders/*",
    "read shop.test step=buy",
    "write any.test",
    "deny erp.test/admin/**",
)
GRANTS = ("erp@erp.test bearer", "shop@shop.test bearer step=buy")
JOB = Brief(
    "Compare the invoices with the orders.",
    (Deliverable("out/report.xlsx", "xlsx"),),
    Path(),
    "",
    inputs=("invoices",),
    scope=Scope(tuple(parse_rule(each) for each in RULES), tuple(parse_grant(each) for each in GRANTS)),
    tools=("shell", "browser_*"),
)
TOOLS = (
    Tool("shell", "", (Parameter("command", "text", "what", required=True),)),
    Tool("browser_goto", ""),
    Tool("packages", ""),
)
READ = Step(
    "read", "Read.", ("shell", "browser_*"), ("GET erp.test/orders/*",), ("erp",), ("invoices/1.pdf",), ("a.csv",)
)
MAKE = Step("make", "Make.", ("shell",), (), (), ("a.csv",), ("out",))
CHOOSE = replace(
    MAKE,
    kind="choose",
    actions=(Action("yes", "shell", {"command": "true"}), Action("no", "shell", {"command": "false"})),
)
PROGRAM = replace(MAKE, kind="program", program="make-report", tools=None)


@pytest.mark.parametrize("last", [MAKE, CHOOSE, PROGRAM])
def test_a_plan_within_its_brief_has_no_findings(last: Step) -> None:
    assert audit(Plan((READ, last)), JOB, TOOLS) == ()


def test_a_script_that_lists_nothing_has_what_the_brief_has() -> None:
    assert audit(Plan((Step("count", "Count."), Step("buy", "Buy."))), JOB, TOOLS) == ()


def test_a_rule_for_one_step_holds_for_a_step_of_that_name() -> None:
    buys = Step("buy", "Buy.", hosts=("GET shop.test/x",), grants=("shop",), files=("invoices",))
    assert audit(Plan((READ, MAKE, buys)), JOB, TOOLS) == ()
    assert audit(Plan((READ, MAKE, replace(buys, name="look"))), JOB, TOOLS) != ()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"name": "read"}, "2 steps are called 'read'"),
        ({"name": "a b"}, "is not a valid step name"),
        ({"name": ""}, "is not a valid step name"),
        ({"name": "verify"}, "cannot be called 'verify'"),
        ({"tools": ("fly",)}, "this tool does not exist"),
        ({"tools": ("packages",)}, "the brief does not allow this tool"),
        ({"tools": ("screen_*",)}, "this tool does not exist"),
        ({"hosts": ("GET ,",)}, "write it like"),
        ({"hosts": ("GET evil.test",)}, "not covered by a single rule of the brief"),
        ({"hosts": ("GET erp.test/admin/x",)}, "not covered by a single rule of the brief"),
        ({"hosts": ("GET shop.test",)}, "not covered by a single rule of the brief"),
        ({"hosts": ("deny erp.test",)}, "A plan lists only the hosts that a step uses"),
        ({"hosts": ("GET erp.test step=read",)}, "is for another step"),
        ({"hosts": ("write any.test/x",)}, "allows any write"),
        ({"hosts": ("POST any.test",)}, "allows any write"),
        ({"hosts": ("POST any.test/*/**",)}, "allows any write"),
        ({"grants": ("gold",)}, "grants no secret 'gold'"),
        ({"grants": ("shop",)}, "grants no secret 'shop'"),
        ({"grants": ("erp",)}, "no rule of this step admits that host"),
        ({"grants": ("erp",), "hosts": ("GET http://erp.test",)}, "no rule of this step admits that host"),
        ({"makes": ("other",)}, "No step makes the deliverable 'out/report.xlsx'"),
        ({"files": ("b.csv",)}, "in `makes` of no earlier step"),
        ({"files": ("/etc/passwd",)}, "is not a path in the home folder"),
        ({"files": ("../x",)}, "is not a path in the home folder"),
        ({"files": ("*.csv",)}, "is not a path in the home folder"),
        ({"makes": ("out", "x\u202ey")}, "is not a path in the home folder"),
        ({"keeps": True, "desk": "fresh"}, "but asks for a fresh desk"),
        ({"live": True, "desk": "fresh"}, "the step has `live`"),
        ({"kind": "program"}, "but no program"),
        ({"kind": "program", "program": "x"}, "cannot use tools"),
        ({"program": "x"}, "its kind is not `program`"),
        ({"actions": CHOOSE.actions}, "its kind is not `choose`"),
        ({"kind": "choose", "actions": CHOOSE.actions[:1]}, "at least two actions"),
        ({"kind": "choose", "actions": CHOOSE.actions * 2}, "have the same name"),
        ({"kind": "choose", "actions": (*CHOOSE.actions, Action("go", "packages"))}, "which this step cannot use"),
        ({"kind": "choose", "actions": (*CHOOSE.actions, Action("go", "shell", {}))}, "command is missing"),
    ],
)
def test_mistakes_are_found_and_reported(change: dict[str, object], expected: str) -> None:
    findings = audit(Plan((READ, replace(MAKE, **change))), JOB, TOOLS)  # type: ignore[arg-type]
    assert any(expected in each for each in findings), findings


@pytest.mark.parametrize(
    ("host", "rules", "expected"),
    [
        (
            "GET erp.test/login",
            ("read erp.test/login?",),
            "The brief's rule allows no query: write `GET erp.test/login?`.",
        ),
        (
            "GET erp.test/x?b=1",
            ("read erp.test/x?a=*",),
            "only the query parameters a=*: write `GET erp.test/x?`.",
        ),
        ("GET erp.test/x up=2M", ("read erp.test up=1M",), "at most up=1M: write `GET erp.test/x up=1M`."),
        ("GET erp.test/x", ("GET erp.test step=export",), "Name this step `export`."),
        ("GET erp.test/x", ("GET erp.test step=read",), "for the step `read` only. List it in that step."),
        ("PUT erp.test/x", ("GET erp.test/x", "POST erp.test/y"), "erp.test/x`: the brief's rule allows GET only."),
        ("GET http://erp.test/x", ("GET https://erp.test",), "the brief's rule is for https port 443 only."),
        ("GET erp.test/x", ("GET erp.test/y",), "the brief's rule is for the path /y."),
        ("GET erp.test/admin/x", ("read erp.test", "deny erp.test/admin/**"), "`deny erp.test/admin/**` applies"),
        ("GET evil.test/x", ("GET erp.test",), "The brief allows this step no access to evil.test."),
    ],
)
def test_a_rule_outside_the_brief_is_reported_with_difference_and_remedy(
    host: str, rules: tuple[str, ...], expected: str
) -> None:
    job = replace(JOB, scope=Scope(tuple(map(parse_rule, rules))))
    findings = audit(Plan((replace(READ, hosts=(), grants=()), replace(MAKE, hosts=(host,)))), job, TOOLS)
    assert any(expected in each for each in findings), findings


def test_the_rules_of_the_brief_are_listed_once() -> None:
    findings = audit(Plan((READ, replace(MAKE, hosts=("GET a.test", "GET b.test", "GET c.test")))), JOB, TOOLS)
    assert sum("POST erp.test/orders/*" in each for each in findings) == 1


def test_a_secret_for_another_step_is_reported_with_that_step() -> None:
    findings = audit(Plan((READ, replace(MAKE, grants=("shop",)))), JOB, TOOLS)
    assert any("It grants the secret to the step `buy`" in each for each in findings), findings


def test_a_program_with_secrets_does_not_run_where_foreign_content_was_read() -> None:
    pays = replace(PROGRAM, hosts=("GET erp.test",), grants=("erp",))
    assert audit(Plan((READ, pays)), JOB, TOOLS) == ()
    for kept in (replace(pays, keeps=True), replace(pays, desk="same")):
        assert "untrusted content" in "".join(audit(Plan((READ, kept)), JOB, TOOLS))


def test_the_first_step_has_nothing_to_keep() -> None:
    assert "no programs to keep" in "".join(audit(Plan((replace(READ, keeps=True), MAKE)), JOB, TOOLS))


def test_a_plan_with_more_steps_than_acts_is_refused() -> None:
    tight = replace(JOB, budget=JobBudget(acts=1))
    assert "fewer, larger steps" in "".join(audit(Plan((READ, MAKE)), tight, TOOLS))
    assert "1 to 100" in "".join(audit(Plan(()), JOB, TOOLS))


@pytest.mark.slow
def test_a_plan_too_large_for_the_door_is_found() -> None:
    hosts = [f"h{number}.test" for number in range(100)]
    wide = replace(JOB, scope=Scope(tuple(parse_rule(f"read {host}") for host in hosts)))
    gets = tuple(f"GET {host}" for host in hosts)
    steps = [Step(f"s{number}", "", (), gets, (), ("invoices",), ("out",)) for number in range(10)]
    assert "Join steps" in "".join(audit(Plan(tuple(steps)), wide, TOOLS))
