"""Tests of the preflight: a plan's needs are tried within a time limit, and reported in short lines."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.brief import Scope, parse_grant, parse_rule
from hotdesk.brief.brief import Brief
from hotdesk.errors import HostError
from hotdesk.job.preflight import run_preflight
from hotdesk.plan import Plan, Step
from hotdesk.tool import Tool

RULES = ("read erp.test", "read gone.test", "read slow.test", "read *.wide.test", "read 192.0.2.1", "read inner.test")
GRANTS = ("erp@erp.test bearer", "gold@erp.test header=X-Gold")
HOSTS = ("GET erp.test/x", "GET gone.test", "GET a.wide.test", "GET *.wide.test", "GET 192.0.2.1", "GET inner.test")
TOOLS = (Tool("shell", ""), Tool("browser_goto", ""))
PLAN = Plan(
    (
        Step("one", "", ("shell", "browser_*", "fly"), HOSTS, ("erp",)),
        Step("two", "", (), (), ("erp", "gold")),
        Step("three", "", (), (), ()),
    )
)


def find(name: str) -> object:
    if name == "slow.test":
        time.sleep(2)
    if name in ("erp.test", "a.wide.test", "slow.test"):
        return []
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


async def had(scope: Scope) -> Sequence[str]:
    assert len(scope.grants) == 2
    return [f"there is no secret {each.secret}" if each.secret == "gold" else "" for each in scope.grants]


@pytest.fixture
def job(tmp_path: Path) -> Brief:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("never told")
    (tmp_path / "in" / "b.txt").write_text("12345")
    scope = Scope(tuple(parse_rule(each) for each in RULES), tuple(parse_grant(each) for each in GRANTS))
    return Brief("goal", (), tmp_path, "", inputs=("in", "in/a.txt", "absent"), scope=scope)


async def test_the_preflight_reports_what_held_and_what_failed(job: Brief) -> None:
    held, failed = await run_preflight(PLAN, job, TOOLS, had, {"inner.test": "127.0.0.1:8443"}, find=find)
    assert held == (
        "host a.wide.test",
        "host erp.test",
        "host inner.test maps to 127.0.0.1:8443",
        "input in, 2 files, 15 bytes",
        "input in/a.txt, 1 file, 10 bytes",
        "secret erp for erp.test",
        "tool browser_*",
        "tool shell",
    )
    assert failed == (
        "host gone.test: the name has no address: Name or service not known",
        "input absent: absent cannot be read: No such file or directory",
        "secret gold for erp.test: there is no secret gold",
        "tool fly: no tool of the desk has this name",
    )


async def test_an_unresolvable_name_does_not_hold_the_job_up(job: Brief) -> None:
    plan = Plan((Step("one", "", (), ("GET slow.test", "GET erp.test"), ()),))
    began = time.monotonic()
    held, failed = await run_preflight(plan, replace(job, inputs=()), TOOLS, had, find=find, seconds=0.2)
    assert time.monotonic() - began < 1.8
    assert held == ("host erp.test",)
    assert failed == ("host slow.test: no reply within 0.2 s",)


async def test_keys_that_cannot_be_asked_are_a_finding(job: Brief) -> None:
    async def gone(scope: Scope) -> Sequence[str]:
        raise HostError("the vault is locked")

    plan = Plan((Step("one", "", (), (), ("erp",)),))
    _, failed = await run_preflight(plan, replace(job, inputs=()), TOOLS, gone, find=find)
    assert failed == ("secret erp for erp.test: the vault is locked",)


async def test_an_input_that_is_not_a_file_holds_nothing_up(job: Brief, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    held, _ = await run_preflight(Plan((Step("one", "", (), (), ()),)), replace(job, inputs=("pipe",)), TOOLS, had)
    assert held == ("input pipe, 0 files, 0 bytes",)
