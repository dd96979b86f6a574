"""Tests of an unprivileged member of the group `hotdesk` at the server's socket: what they may do, and what not."""

from __future__ import annotations

import grp
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.server.conftest import Served
from tests.ordinary_user import OrdinaryUser

pytestmark = [pytest.mark.container, pytest.mark.timeout(180)]
GROUP = grp.getgrnam("hotdesk").gr_gid


@pytest.fixture(scope="module")
def member(server: Served) -> Iterator[OrdinaryUser]:
    folder = Path(tempfile.mkdtemp(prefix="member-", dir="/var/tmp"))
    folder.chmod(0o755)
    variables = {"HOTDESK_SERVER": str(server.settings.run / "serve.sock")}
    yield OrdinaryUser(folder, (GROUP,), variables).prepare()
    shutil.rmtree(folder)


def opened(member: OrdinaryUser) -> str:
    done = member.run("open")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_member_without_any_privilege_uses_a_desk_from_its_opening_to_its_end(member: OrdinaryUser) -> None:
    desk = opened(member)
    (member.folder / "home/in.txt").write_text("hello")
    assert member.run("cp", str(member.folder / "home/in.txt"), f"{desk}:/tmp/in.txt").returncode == 0
    assert member.run("exec", desk, "cat", "/tmp/in.txt").stdout == "hello"
    assert member.run("cp", f"{desk}:/tmp/in.txt", str(member.folder / "home/out.txt")).returncode == 0
    assert (member.folder / "home/out.txt").read_text() == "hello"
    assert desk in member.run("ps").stdout
    assert member.run("burn", desk).returncode == 0
    assert desk not in member.run("ps").stdout


@pytest.mark.long
def test_a_member_snapshots_rolls_back_forks_and_pauses(member: OrdinaryUser) -> None:
    desk = opened(member)
    done = member.run("snapshot", desk)
    assert done.returncode == 0, done.stderr
    snapshot = done.stdout.strip()
    assert member.run("rollback", desk, snapshot).returncode == 0
    assert member.run("pause", desk).returncode == 0
    assert member.run("resume", desk).returncode == 0
    done = member.run("fork", desk)
    assert done.returncode == 0, done.stderr
    for each in (desk, *done.stdout.split()):
        assert member.run("burn", each).returncode == 0


@pytest.mark.long
def test_members_share_their_desks(member: OrdinaryUser) -> None:
    """The guide promises less here: all members of the group are one party."""
    desk = opened(member)
    other = OrdinaryUser(member.folder, member.groups, member.variables, uid=60001)
    assert other.run("exec", desk, "echo", "mine, too").stdout == "mine, too\n"
    assert other.run("burn", desk).returncode == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("approve", "Only root may decide"),
        ("image save {} mine", "only whoever runs this machine keeps images"),
        ("watch {}", "Only root can read"),
        ("setup", "needs root"),
        ("gc", "needs root"),
    ],
)
def test_an_ordinary_user_cannot_use_the_operators_commands(member: OrdinaryUser, line: str, part: str) -> None:
    desk = opened(member)
    done = member.run(*line.format(desk).split())
    member.run("burn", desk)
    assert done.returncode != 0
    assert part in done.stderr
    assert "Traceback" not in done.stderr
