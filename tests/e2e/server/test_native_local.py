"""Tests of `hotdesk` and the library for ordinary users of a server's machine who are in the group, by its socket."""

from __future__ import annotations

import grp
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import environment
from tests.e2e.server.conftest import Served

pytestmark = pytest.mark.container
SOMEBODY = 60000
"""The uid of a person with an account."""
GROUP = grp.getgrnam("hotdesk").gr_gid
RUN = "from hotdesk.cli import main; main()"
LIBRARY = """
import anyio, hotdesk
async def main():
    async with hotdesk.open_desk() as desk:
        await desk.write("told", b"by the library")
        print(desk.id, (await desk.run(["cat", "told"])).stdout)
anyio.run(main)
"""


def as_somebody(server: Served, groups: list[int], *argv: str, program: str = RUN) -> tuple[int, str, str]:
    """Run a program as an ordinary user who is in some groups; return its exit code and output."""
    sock = server.settings.run / "serve.sock"
    env = {**environment(server.settings), "HOTDESK_SERVER": str(sock), "HOME": "/", "PYTHONPATH": str(source())}
    member = ["--groups", ",".join(map(str, groups))] if groups else ["--clear-groups"]
    reading = "+dac_read_search"  # Python itself may be where only root can read
    who = ["--reuid", str(SOMEBODY), "--regid", str(SOMEBODY), *member, "--inh-caps", reading,
           "--ambient-caps", reading]  # fmt: skip
    command = ["setpriv", *who, sys.executable, "-c", program, *argv]
    done = subprocess.run(command, env=env, capture_output=True, check=False, timeout=60, cwd="/", text=True)
    return done.returncode, done.stdout, done.stderr


def source() -> Path:
    return Path(__file__).parents[3] / "src"


def test_group_members_run_programs_at_desks(server: Served) -> None:
    assert as_somebody(server, [GROUP], "run", "--", "echo", "hello") == (0, "hello\n", "")


def test_group_members_run_programs_with_egress(server: Served) -> None:
    code, said, complained = as_somebody(server, [GROUP], "run", "--allow", "example.test", "printenv", "HTTPS_PROXY")
    assert (code, complained) == (0, ""), complained
    assert said.startswith("http://")


@pytest.mark.long
def test_a_group_members_desks_are_found_by_the_beginning_of_their_ids(server: Served) -> None:
    code, opened, complained = as_somebody(server, [GROUP], "open")
    desk = opened.strip()
    assert code == 0, complained
    assert as_somebody(server, [GROUP], "exec", desk[:10], "echo", "-n", "-e", "hi") == (0, "hi", "")
    code, used, complained = as_somebody(server, [GROUP], "usage")
    assert (code, desk in used) == (0, True), complained
    assert as_somebody(server, [GROUP], "burn", desk[:10]) == (0, "", "")


def test_group_members_use_the_library(server: Served) -> None:
    code, said, complained = as_somebody(server, [GROUP], program=LIBRARY)
    desk, _, told = said.partition(" ")
    assert (code, told) == (0, "b'by the library'\n"), complained
    assert desk not in os.listdir(server.settings.run / "desks")


def test_the_socket_is_open_to_the_group_only(server: Served) -> None:
    found = (server.settings.run / "serve.sock").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (0, GROUP, 0o660)


@pytest.mark.parametrize("argv", [("run", "--", "true"), ("ps",), ("burn", "i" + "0" * 20)], ids=["run", "ps", "burn"])
def test_a_user_outside_the_group_gets_an_error_with_the_remedy(server: Served, argv: tuple[str, ...]) -> None:
    code, said, complained = as_somebody(server, [], *argv)
    assert (code, said) == (125, "")
    assert "group hotdesk" in complained
    assert "Traceback" not in complained
