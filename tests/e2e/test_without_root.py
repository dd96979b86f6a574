"""Tests of an ordinary user on a machine without a server: each command's answer, with a real other uid."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ordinary_user import OrdinaryUser

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
EXAMPLE = Path(__file__).parents[2] / "examples/invoices-small"
DESK = "i" + "0" * 20
JOB = "j" + "0" * 20
NO_SERVER = ("needs root", "no `hotdesk serve` listens at", "use sudo", "group hotdesk")
OWN_STATE = ("you are not root", "`sudo hotdesk")
SAMPLE = {
    "run -- true": (125, NO_SERVER),
    "jobs": (0, OWN_STATE),
    "gc": (125, ("cleaning up this machine needs root: use sudo",)),
}
REST = {
    "open": (125, NO_SERVER),
    "ps": (0, NO_SERVER),
    f"burn {DESK}": (125, NO_SERVER),
    f"exec {DESK} true": (125, NO_SERVER),
    f"cp /etc/hostname {DESK}:/tmp/x": (125, NO_SERVER),
    f"ssh --stdio {DESK}": (125, NO_SERVER),
    f"forward {DESK} 8000": (125, NO_SERVER),
    f"use {DESK} run command=true": (125, NO_SERVER),
    f"pause {DESK}": (125, NO_SERVER),
    f"snapshot {DESK}": (125, NO_SERVER),
    f"rollback {DESK} s": (125, NO_SERVER),
    f"fork {DESK}": (125, NO_SERVER),
    "usage": (0, NO_SERVER),
    "approve": (125, ("Only root may decide", "use sudo")),
    "refuse x": (125, ("Only root may decide", "use sudo")),
    "mcp": (125, NO_SERVER),
    f"watch {DESK}": (125, ("Only root can read", "`sudo hotdesk watch`")),
    f"show {JOB}": (125, OWN_STATE),
    f"report {JOB}": (125, OWN_STATE),
    f"forget {JOB}": (125, ("only root can delete",)),
    "journal show": (125, OWN_STATE),
    "door log": (125, OWN_STATE),
    "image ls": (0, OWN_STATE),
    "image build base": (125, ("making an image needs root: use sudo",)),
    "vault ls": (0, OWN_STATE),
    "key ls": (0, OWN_STATE),
    "serve": (125, ("serving desks needs root",)),
    "setup": (125, ("needs root",)),
    "completion bash": (0, ()),
}


@pytest.fixture(scope="module")
def somebody() -> Iterator[OrdinaryUser]:
    folder = Path(tempfile.mkdtemp(prefix="somebody-", dir="/var/tmp"))
    folder.chmod(0o755)
    nowhere = {"HOTDESK_SERVER": str(folder / "serve.sock")}  # no server of this machine is found
    yield OrdinaryUser(folder, variables=nowhere).prepare()
    shutil.rmtree(folder)


@pytest.mark.parametrize("line", [*SAMPLE, *(pytest.param(each, marks=pytest.mark.long) for each in REST)])
def test_a_command_names_what_an_ordinary_user_lacks_and_the_remedy(somebody: OrdinaryUser, line: str) -> None:
    code, parts = {**SAMPLE, **REST}[line]
    done = somebody.run(*line.split())
    assert done.returncode == code, done.stderr
    assert [part for part in parts if part not in done.stderr] == []
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_brief_is_checked_and_not_carried_out(somebody: OrdinaryUser) -> None:
    brief = somebody.folder / "home/brief"
    shutil.copytree(EXAMPLE, brief)
    assert somebody.run("brief", "check", str(brief)).returncode == 0
    done = somebody.run("work", str(brief), "--out", str(somebody.folder / "home/out"))
    assert done.returncode == 125
    assert "needs root: use `sudo hotdesk work`" in done.stderr
    assert not (somebody.folder / "home/.local").exists(), "nothing was made for it"


def test_doctor_describes_the_machine_and_claims_nothing_it_cannot_test(somebody: OrdinaryUser) -> None:
    done = somebody.run("doctor", "--json")
    assert done.returncode == 125, done.stderr
    found = json.loads(done.stdout)
    assert found["host"]["description"]
    states = {each["name"]: each["state"] for each in found["measures"]}
    assert {state for name, state in states.items() if name.startswith("host-")} == {"untested"}
    assert "sudo hotdesk doctor" in found["unopened"]
