"""Tests of the hands that need no screen, in one real desk, used as a worker does."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from hotdesk.brief import Scope
from hotdesk.config import Config
from hotdesk.desk.seam import Desk, Spec
from hotdesk.door.policy.presets import PackageSources, build_preset_environment, get_preset_rules
from hotdesk.drive.journal import FILE, read
from hotdesk.event import Used
from hotdesk.hands.files import Files
from hotdesk.hands.packages import Packages
from hotdesk.hands.search import Search
from hotdesk.hands.shell import Shell
from hotdesk.hands.toolbox import Free, Toolbox
from hotdesk.host import Host
from tests.e2e.installing import python_index
from tests.upstream import upstream

pytestmark = pytest.mark.container


@dataclass
class Room:
    """A desk and a worker's toolbox."""

    desk: Desk
    toolbox: Toolbox

    async def use(self, name: str, **arguments: object) -> str:
        seen = await self.toolbox.use(name, arguments)
        assert seen.ok, seen.text
        return seen.text

    async def fail(self, name: str, **arguments: object) -> str:
        seen = await self.toolbox.use(name, arguments)
        assert not seen.ok, seen.text
        return seen.text


@pytest.fixture(scope="module")
async def opened(settings: Config, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Host, Desk]]:
    """Yield a desk whose door admits one small index; its root has started."""
    machine = PackageSources(pip=("http://mirror.test:3141/root/simple/",), default_pip=False)
    with upstream(tmp_path_factory.mktemp("mirror"), "mirror.test", tls=False) as mirror:
        mirror.answers |= {
            path: (200, {"Content-Type": "text/html"}, data) for path, data in python_index("/root").items()
        }
        spec = Spec(root=True, env=build_preset_environment(["pypi"], machine))
        scope = Scope(get_preset_rules("pypi", machine), names={"mirror.test": mirror.address})
        async with Host(settings, control=False) as host, host.open_desk(spec, scope) as desk:
            await desk.run(["true"], user="root")
            yield host, desk


@pytest.fixture
async def room(opened: tuple[Host, Desk]) -> AsyncIterator[Room]:
    host, desk = opened
    shell = Shell(desk, {"DISPLAY": ":0"})
    yield Room(desk, Toolbox([shell, Files(desk), Search(desk), Packages(desk)], host.note, Free(), desk.id))
    await shell.close()


async def test_a_worker_writes_runs_corrects_and_searches_a_program(room: Room) -> None:
    await room.use("file_create", path="sums/sum.py", content="import sys\nprint(sum(map(int, sys.stdin)) + 1)\n")
    assert await room.use("run", argv=["python3", "sums/sum.py"], stdin="1\n2\n") == "4\n[exit code 0]"
    await room.use("file_replace", path="sums/sum.py", old=" + 1", new="")
    assert (
        await room.use("shell", command="cd sums; seq 10 | python3 sum.py") == "55\n[exit code 0, in /home/user/sums]"
    )
    assert (await room.use("file_view", path="sums/sum.py", start=2)).endswith("print(sum(map(int, sys.stdin)))")
    found = await room.use("search", pattern=r"sum\(map", glob="*.py", context=1)
    assert found.splitlines() == [
        "/home/user/sums/sum.py-1-import sys",
        "/home/user/sums/sum.py:2:print(sum(map(int, sys.stdin)))",
    ]
    assert await room.use("find_files", glob="*.py") == "/home/user/sums/sum.py"
    assert "Nothing in /home/user/sums matches" in await room.use("search", pattern="nowhere", path="sums")
    assert "regex parse error" in await room.fail("search", pattern="(")
    await room.use("file_undo", path="sums/sum.py")
    assert await room.use("run", command="echo 1 | python3 sums/sum.py") == "2\n[exit code 0]"


async def test_omitted_output_is_in_the_named_file(room: Room) -> None:
    text = await room.use("shell", command="seq 50000", session="long")
    path = text.partition("the complete output is in ")[2].partition(":")[0]
    assert await room.use("search", pattern="^31416$", path=path) == f"/home/user/{path[2:]}:31416:31416"
    assert await room.use("file_view", path=path, start=31416, end=31416) == " 31416\t31416"
    seen = await room.toolbox.use("search", {"pattern": "1", "path": path, "limit": 20})
    assert len(seen.text.splitlines()) == 20
    assert seen.note.startswith("there may be more")


async def test_packages_come_through_the_door_or_the_missing_rule_is_named(room: Room) -> None:
    assert await room.use("packages", manager="pip", names=["tiny==1.0"]) == "tiny-1.0"
    assert "tiny==1.0" in await room.use("packages", manager="pip", action="list")
    assert "tiny-1.0" in await room.use("packages", manager="pip", action="remove", names=["tiny"])
    assert "No matching distribution" in await room.fail("packages", manager="pip", names=["tiny==2.0"])
    assert "No network rule admits" in (told := await room.fail("packages", manager="apt", names=["figlet"]))
    assert "`--allow debian`" in told
    assert await room.fail("packages", manager="npm", names=["left-pad"]) == "npm is not installed at this desk."
    assert "bash " in await room.use("packages", manager="apt", action="list")


async def test_an_interrupted_command_leaves_its_session_and_jobs_in_a_real_desk(room: Room) -> None:
    await room.use("shell", command="x=5; python3 -m http.server 8123 >/dev/null 2>&1 & sleep 0.5", session="web")
    began = time.monotonic()
    assert "its session continues" in await room.fail("shell", command="sleep 60", timeout=0.3, session="web")
    assert time.monotonic() - began < 20
    assert (await room.use("shell", command="echo $x; curl -sI localhost:8123 | head -1", session="web")).startswith(
        "5\nHTTP/1.0 200 OK"
    )


async def test_every_tool_call_is_in_the_journal_without_its_arguments(room: Room, settings: Config) -> None:
    await room.use("shell", command="echo secret-word")
    await room.fail("file_view", path="/secret-word")
    await room.fail("shell", comand="secret-word")
    await room.fail("secret-word")
    rows = [row.read_event() for row in read(settings.lib / "keys" / FILE, desk=room.desk.id)]
    uses = [event for event in rows if isinstance(event, Used)][-4:]
    assert [(use.tool, use.outcome) for use in uses] == [
        ("shell", "done"),
        ("file_view", "failed"),
        ("shell", "wrong"),
        ("?", "wrong"),
    ]
    assert not any("secret-word" in str(use) for use in uses)
