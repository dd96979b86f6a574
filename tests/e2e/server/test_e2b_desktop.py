"""Tests of E2B's desktop package, unchanged, at this server."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from e2b import CommandExitException, SandboxException, SandboxNotRunningException, SandboxQuery, TimeoutException
from e2b import Sandbox as Plain
from e2b_desktop import Sandbox
from e2b_desktop.main import _VNCServer as Stream
from PIL import Image
from websockets.asyncio.client import connect

from hotdesk.host import Host
from tests.e2e.server.conftest import Served

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]

PATIENCE = 20.0
EVENTS = "/tmp/events"


@pytest.fixture(scope="module")
def desktop(server: Served) -> Iterator[Sandbox]:
    found = Sandbox.create(resolution=(1024, 768), dpi=96, timeout=600, **server.e2b)
    found.commands.run(
        f"stdbuf -oL xev -geometry 1000x600+10+100 -name watcher >{EVENTS} 2>&1", background=True, timeout=0
    )
    until(lambda: "watcher" in titles(found), "the window does not come")
    window = found.commands.run("xdotool search --name watcher").stdout.split()[0]
    found.commands.run(f"xdotool windowactivate --sync {window}; sleep 0.3")
    yield found
    found.kill()


def until(holds: Callable[[], bool], complaint: str) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, complaint
        time.sleep(0.2)


def titles(desktop: Sandbox) -> str:
    return str(desktop.commands.run("wmctrl -l || true").stdout)


def seen(desktop: Sandbox, act: Callable[[], object], *words: str) -> None:
    desktop.commands.run(f": >{EVENTS}")
    act()
    until(lambda: all(word in desktop.files.read(EVENTS) for word in words), f"{words} was not seen")


# -- the screen ------------------------------------------------------------------------------------------------


def test_a_screenshot_shows_the_screen(desktop: Sandbox) -> None:
    picture = Image.open(io.BytesIO(desktop.screenshot()))
    assert picture.size == (1024, 768)
    assert len(picture.convert("RGB").getcolors(1 << 20) or ()) > 100


def test_a_screenshot_can_be_read_as_a_stream(desktop: Sandbox) -> None:
    data = b"".join(desktop.screenshot(format="stream"))
    assert data.startswith(b"\x89PNG")


def test_the_size_of_the_screen_is_returned(desktop: Sandbox) -> None:
    assert desktop.get_screen_size() == (1024, 768)


# -- windows that open and close -------------------------------------------------------------------------------

FLICKER = """for n in 1 2 3 4; do
    (while [ ! -e /tmp/steady ]; do timeout 0.2 xev -name flicker >/dev/null 2>&1; echo >>/tmp/flickered; done) &
done; wait"""
SEARCH = "for n in $(seq 40); do xdotool search --name watcher || exit $?; done"


@pytest.mark.long
def test_a_search_for_windows_does_not_fail_while_others_open_and_close(desktop: Sandbox) -> None:
    flicker = desktop.commands.run(FLICKER, background=True, timeout=0)
    try:
        until(lambda: len(desktop.commands.run("cat /tmp/flickered || true").stdout) >= 8, "no window comes and goes")
        found = desktop.commands.run(SEARCH, timeout=60).stdout.split()
    finally:
        desktop.commands.run("touch /tmp/steady")  # a kill would leave its child processes
        flicker.wait()
    assert len(set(found)) == 1
    assert len(found) == 40


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("xdotool search --name nothing-is-called-so; echo $?", "1"),
        ("xdotool search --name watcher getwindowname", "watcher"),
    ],
    ids=["nothing", "chained"],
)
def test_a_search_returns_the_output_of_xdotool(desktop: Sandbox, command: str, said: str) -> None:
    assert desktop.commands.run(command).stdout.strip() == said


# -- without a screen ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dark(server: Served) -> Iterator[Sandbox]:
    plain = Plain.create(timeout=300, **server.e2b)
    yield Sandbox.connect(plain.sandbox_id, **server.e2b)
    plain.kill()


@pytest.mark.long
def test_a_template_that_is_not_a_desktop_gives_none_and_is_killed(server: Served) -> None:
    with pytest.raises(SandboxException, match="not found"):
        Sandbox.create("nobodys", **server.e2b)
    with pytest.raises(TimeoutException, match="Xvfb"):
        Sandbox.create("base", metadata={"no": "desktop"}, **server.e2b)
    assert Plain.list(query=SandboxQuery(metadata={"no": "desktop"}), **server.e2b).next_items() == []


def test_without_a_screen_every_call_fails(dark: Sandbox) -> None:
    with pytest.raises(CommandExitException):
        dark.screenshot()
    with pytest.raises(CommandExitException):
        dark.left_click(5, 5)
    with pytest.raises(CommandExitException):
        dark.double_click(5, 5)
    with pytest.raises(CommandExitException):
        dark.right_click(5, 5)
    with pytest.raises(CommandExitException):
        dark.middle_click(5, 5)
    with pytest.raises(CommandExitException):
        dark.scroll("up")
    with pytest.raises(CommandExitException):
        dark.move_mouse(5, 5)
    with pytest.raises(CommandExitException):
        dark.mouse_press()
    with pytest.raises(CommandExitException):
        dark.mouse_release()
    with pytest.raises(CommandExitException):
        dark.drag((1, 1), (2, 2))
    with pytest.raises(CommandExitException):
        dark.get_cursor_position()
    with pytest.raises(CommandExitException):
        dark.get_screen_size()
    with pytest.raises(CommandExitException):
        dark.write("x")
    with pytest.raises(CommandExitException):
        dark.press("enter")
    with pytest.raises(CommandExitException):
        dark.get_current_window_id()
    with pytest.raises(CommandExitException):
        dark.get_application_windows("xterm")
    with pytest.raises(CommandExitException):
        dark.get_window_title("1")


def test_a_desktop_that_has_ended_opens_nothing(server: Served) -> None:
    with Plain.create(**server.e2b) as plain:
        ended = Sandbox.connect(plain.sandbox_id, **server.e2b)
    with pytest.raises(SandboxNotRunningException):
        ended.launch("xfce4-terminal")
    with pytest.raises(SandboxNotRunningException):
        ended.open("/etc/hostname")
    with pytest.raises(SandboxNotRunningException):
        ended.wait(10)
    with pytest.raises(SandboxNotRunningException):
        Stream(ended).stop()


# -- the mouse -------------------------------------------------------------------------------------------------


def test_the_mouse_moves_to_the_given_point(desktop: Sandbox) -> None:
    desktop.move_mouse(300, 400)
    assert desktop.get_cursor_position() == (300, 400)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        pytest.param(lambda d: d.left_click(400, 300), ["ButtonPress", "button 1", "root:(400,300)"], id="left"),
        pytest.param(lambda d: d.right_click(410, 310), ["button 3", "root:(410,310)"], id="right"),
        pytest.param(lambda d: d.middle_click(420, 320), ["button 2", "root:(420,320)"], id="middle"),
        pytest.param(lambda d: d.double_click(430, 330), ["button 1", "root:(430,330)"], id="double"),
        pytest.param(lambda d: d.scroll("down", 2), ["button 5"], id="down"),
        pytest.param(lambda d: d.scroll("up", 1), ["button 4"], id="up"),
        pytest.param(lambda d: d.mouse_press("left"), ["ButtonPress"], id="press"),
        pytest.param(lambda d: d.mouse_release("left"), ["ButtonRelease"], id="release"),
        pytest.param(
            lambda d: d.drag((300, 300), (500, 350)),
            ["ButtonPress", "root:(300,300)", "MotionNotify", "ButtonRelease", "root:(500,350)"],
            id="drag",
        ),
    ],
)
def test_a_window_gets_every_event_of_the_mouse(
    desktop: Sandbox, act: Callable[[Sandbox], object], words: list[str]
) -> None:
    seen(desktop, lambda: act(desktop), *words)


def test_a_click_with_one_coordinate_is_refused(desktop: Sandbox) -> None:
    with pytest.raises(ValueError, match="together"):
        desktop.right_click(x=5)


# -- the keyboard ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "words"),
    [
        pytest.param(
            lambda d: d.write("h,x", chunk_size=2, delay_in_ms=5), ["68, h", "2c, comma", "78, x"], id="write"
        ),
        pytest.param(lambda d: d.press("enter"), ["Return"], id="press"),
        pytest.param(lambda d: d.press(["ctrl", "f"]), ["Control_L", "keysym 0x66, f"], id="together"),
    ],
)
def test_a_window_sees_the_keyboard(desktop: Sandbox, act: Callable[[Sandbox], object], words: list[str]) -> None:
    seen(desktop, lambda: act(desktop), *words)


# -- windows and programs --------------------------------------------------------------------------------------


def test_windows_are_found_by_application_and_have_titles(desktop: Sandbox) -> None:
    current = desktop.get_current_window_id()
    assert current.isdigit()
    assert desktop.get_window_title(current) == "watcher"
    desktop.launch("xfce4-terminal")
    until(lambda: "Terminal" in titles(desktop), "the terminal does not come")
    windows = desktop.get_application_windows("xfce4-terminal")
    assert any("Terminal" in desktop.get_window_title(each) for each in windows)


def test_a_file_opens_in_its_application(desktop: Sandbox) -> None:
    desktop.files.write("/home/user/note.txt", "what was written")
    desktop.open("/home/user/note.txt")
    until(lambda: "note.txt" in titles(desktop), "the file does not open")


def test_waiting_takes_its_time(desktop: Sandbox) -> None:
    began = time.monotonic()
    desktop.wait(300)
    assert time.monotonic() - began >= 0.3


# -- the stream ------------------------------------------------------------------------------------------------


def through(server: Served, desktop: Sandbox, port: int) -> dict[str, str]:
    return {"E2b-Sandbox-Id": desktop.sandbox_id, "E2b-Sandbox-Port": str(port)}


def test_the_screen_is_streamed_to_a_page(server: Served, desktop: Sandbox) -> None:
    with pytest.raises(RuntimeError):
        desktop.stream.get_auth_key()
    desktop.stream.start()
    try:
        with pytest.raises(RuntimeError, match="already running"):
            desktop.stream.start()
        url = desktop.stream.get_url(view_only=True)
        assert desktop.get_host(6080) in url
        assert "view_only=true" in url
        headers = through(server, desktop, 6080)
        page = httpx.get(f"{server.url}/vnc.html", headers=headers, timeout=20)
        assert page.status_code == 200
        assert "noVNC" in page.text
        assert asyncio.run(greeting(server, headers)).startswith(b"RFB 003.")
    finally:
        desktop.stream.stop()


def test_the_stream_of_one_window_asks_for_a_key(server: Served, desktop: Sandbox) -> None:
    desktop.stream.start(vnc_port=5901, port=6081, require_auth=True, window_id=desktop.get_current_window_id())
    try:
        key = desktop.stream.get_auth_key()
        assert f"password={key}" in desktop.stream.get_url(auth_key=key)
        assert asyncio.run(offered(server, through(server, desktop, 6081))) == [2]
    finally:
        desktop.stream.stop()


async def greeting(server: Served, headers: dict[str, str]) -> bytes:
    url = f"{server.url.replace('http', 'ws', 1)}/websockify"
    async with connect(url, additional_headers=headers, subprotocols=["binary"], proxy=None) as found:  # type: ignore[list-item]
        first = await found.recv()
        return first if isinstance(first, bytes) else first.encode()


async def offered(server: Served, headers: dict[str, str]) -> list[int]:
    url = f"{server.url.replace('http', 'ws', 1)}/websockify"
    async with connect(url, additional_headers=headers, subprotocols=["binary"], proxy=None) as found:  # type: ignore[list-item]
        await found.recv()
        await found.send(b"RFB 003.008\n")
        ways = await found.recv()
        assert isinstance(ways, bytes)
        return list(ways[1:])


def test_our_screen_tools_are_not_offered_for_e2bs_screen(server: Served) -> None:
    host = Host(server.settings)
    assert [host.has_screen(name) for name in ("desktop", "e2b-desktop", "base")] == [True, False, False]
    assert not [
        tool.name for tool in host.list_worker_tools("e2b-desktop") if tool.name.startswith(("screen_", "browser_"))
    ]
