"""Attacks by a desk whose screen, browser and programs lie, and by people without control of it."""

from __future__ import annotations

import base64
import os
import signal
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from hotdesk.config import Config
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Done, Spec
from hotdesk.errors import DeskError, FileError, LinkError
from hotdesk.hands import packages
from hotdesk.hands.page.login import PageLogin, PageSession
from hotdesk.hands.page.server import PageFile, PageServer
from hotdesk.hands.screen.reader_client import DeskSeat
from hotdesk.host import Host
from hotdesk.ipc.tasks import background
from tests.origins import Origin
from tests.security.guards import Removal, falls_without, no_guard

pytestmark = [pytest.mark.container, pytest.mark.timeout(90)]

GREETING = b"RFB 003.008\n\x01\x01"
X11 = {"DISPLAY": ":0"}
LIAR = r"""
import base64, hashlib, socket, struct, threading
PIXELS = struct.pack(">BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
FRAME = struct.pack(">BxHHHHHi", 0, 1, 0, 0, 1280, 800, 0) + bytes(1280 * 800 * 4)

def lie():
    with open("/tmp/lie") as file:
        return file.read()

def show(sock, what):
    say = lambda lied, true, usual: sock.sendall(lied if what == true else usual)
    say(b"RFB 003.003\n", "speaks another version", b"RFB 003.008\n")
    sock.recv(12)
    say(b"\x01\x02", "asks for a password", b"\x01\x01")
    sock.recv(1)
    sock.sendall(bytes(4))
    sock.recv(1)
    say(struct.pack(">HH", 65535, 65535), "is of another size", struct.pack(">HH", 1280, 800))
    sock.sendall(PIXELS)
    name = b"n" * (2 << 20 if what == "has a name of megabytes" else 4)
    sock.sendall(struct.pack(">I", len(name)) + name)
    say(b"\x05", "sends a message nobody knows", b"")
    say(struct.pack(">BxHHHHHi", 0, 1, 0, 0, 1, 1, 5) + bytes(4), "sends what was not asked for", b"")
    say(struct.pack(">BxHHHHHi", 0, 1, 1279, 0, 2, 1, 0) + bytes(8), "paints outside itself", b"")
    say(b"\x03\0\0\0" + struct.pack(">I", 6) + b"jacked", "has a clipboard", b"")
    while what == "never pauses":
        sock.sendall(b"\x02" * 65536)
    sock.sendall(FRAME)
    while data := sock.recv(4096):
        with open("/tmp/heard", "ab") as file:
            file.write(data)

def browse(sock, what):
    head = sock.recv(4096).decode()
    with open("/tmp/asked", "a") as file:
        file.write(head.splitlines()[0] + "\n")
    if "/json/version" in head:
        path = "/internal/admin" if what == "leads elsewhere" else "/devtools/browser/1"
        body = '{"webSocketDebuggerUrl": "ws://127.0.0.1:9222%s"}' % path
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body.encode()))
        return
    key = next(line.split(": ")[1] for line in head.splitlines() if line.lower().startswith("sec-websocket-key"))
    accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
    sock.sendall(b"HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
                 + accept + b"\r\n\r\n")
    sock.sendall(b"\x81\x7f" + struct.pack(">Q", 40 << 20) + b" " * ((40 << 20) - 2) + b"{}")
    while sock.recv(4096):
        pass

def serve(port, work):
    with socket.create_server(("127.0.0.1", port), backlog=20) as listener:
        while True:
            threading.Thread(target=attempt, args=(work, listener.accept()[0]), daemon=True).start()

def attempt(work, sock):
    with sock:
        try:
            work(sock, lie())
        except OSError:
            pass

threading.Thread(target=serve, args=(9222, browse), daemon=True).start()
serve(5900, show)
"""
"""Poses as a desk's screen and browser and lies about one thing, which a file names; all else is correct."""
SCREENS = (
    "speaks another version",
    "asks for a password",
    "is of another size",
    "has a name of megabytes",
    "sends a message nobody knows",
    "sends what was not asked for",
    "paints outside itself",
)
PRESSED = """
import ctypes
x = ctypes.CDLL("libX11.so.6")
x.XOpenDisplay.restype = ctypes.c_void_p
display, keys = ctypes.c_void_p(x.XOpenDisplay(None)), (ctypes.c_char * 32)()
x.XQueryKeymap(display, keys)
print(sum(byte.bit_count() for byte in keys.raw))
"""
LOGGER = """
import time
with open("/tmp/log", "w", buffering=1) as file:
    while True:
        print(time.monotonic(), file=file)
        time.sleep(0.005)
"""
UNNAME = r"""
until id=$(wmctrl -l | head -n 1 | cut -d' ' -f1) && [ "$id" ]; do sleep 0.05; done
xprop -id "$id" -f _NET_WM_NAME 8u -set _NET_WM_NAME '' && xprop -id "$id" -f WM_NAME 8s -set WM_NAME ''
"""


@pytest.fixture(scope="module")
async def host(settings: Config, behind: Origin) -> AsyncIterator[Host]:
    async with Host(settings, control=False) as made:
        assert isinstance(made.runtime, KeeperRuntime)
        made.runtime = behind(made.runtime)
        yield made


@pytest.fixture(scope="module")
async def liar(host: Host) -> AsyncIterator[LinkedDesk]:
    async with host.open_desk(Spec(image="desktop")) as desk:
        assert isinstance(desk, LinkedDesk)
        await desk.write("/tmp/lie", b"")
        process = await desk.start(["python3", "-c", LIAR], stdin=False)
        with anyio.fail_after(10):
            while not (await desk.run(["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/5900 4<>/dev/tcp/127.0.0.1/9222"])).ok:
                await anyio.sleep(0.05)
        await host.get_seat(desk).ask("screen.cursor")
        yield desk
        await process.kill()


@pytest.fixture(scope="module")
async def desktop(host: Host) -> AsyncIterator[LinkedDesk]:
    async with host.open_desk(Spec(image="desktop")) as desk:
        assert isinstance(desk, LinkedDesk)
        assert (await desk.run(["/usr/local/lib/hotdesk/session"], timeout=30)).ok
        await host.hands(desk)
        await host.get_seat(desk).ask("screen.cursor")
        yield desk


@asynccontextmanager
async def looking(seat: DeskSeat) -> AsyncIterator[tuple[int, socket.socket]]:
    """View a desk; yield the viewer's number and its end of the stream."""
    ours, theirs = socket.socketpair()
    ours.settimeout(30)
    with ours:
        with theirs:
            number = await seat.join(theirs)
        ours.sendall(GREETING)
        with anyio.fail_after(10):
            while b"desk" not in await anyio.to_thread.run_sync(ours.recv, 4096):
                pass
        yield number, ours


# -- a desk that lies -------------------------------------------------------------------------------------------


@falls_without(
    "a version of RFB",
    Removal(
        "reader/rfb.py",
        "        if (version := (yield from take(len(VERSION)))) != VERSION:\n",
        "        if not (version := (yield from take(len(VERSION)))):\n",
    ),
    cases="speaks another version",
)
@falls_without(
    "no password of a screen's",
    Removal(
        "reader/rfb.py",
        "        if NO_SECURITY not in (yield from take(count)):\n",
        "        if not (yield from take(count)):\n",
    ),
    cases="asks for a password",
)
@falls_without(
    "one size of a screen",
    Removal("reader/rfb.py", "        if (width, height) != (self.width, self.height):\n", "        if not width:\n"),
    cases="is of another size",
)
@falls_without(
    "short names of screens",
    Removal("reader/rfb.py", "MAX_NAME_BYTES = 1 << 10\n", "MAX_NAME_BYTES = 1 << 30\n"),
    cases="has a name of megabytes",
)
@falls_without(
    "messages of screens that are known",
    Removal(
        "reader/rfb.py",
        '                    raise ProtocolError(f"the screen sends an unexpected message of type {kind}")\n',
        "                    kind\n",
    ),
    cases="sends a message nobody knows",
)
@falls_without(
    "raw pixels only",
    Removal("reader/rfb.py", "        if encoding != 0:\n", "        if encoding < 0:\n"),
    cases="sends what was not asked for",
)
@falls_without(
    "pixels within the screen",
    Removal("reader/rfb.py", "        if rectangle.x + rectangle.width > self.width or ", "        if "),
    cases="paints outside itself",
)
@pytest.mark.parametrize("lie", SCREENS)
async def test_a_screen_that_lies_shows_nothing(host: Host, liar: LinkedDesk, lie: str) -> None:
    await liar.write("/tmp/lie", lie.encode())
    with anyio.fail_after(15), pytest.raises(LinkError, match="hotdesk rejected data from"):
        await host.get_seat(liar).ask("screen.shot")
    assert (await liar.run(["true"])).ok


@no_guard("a control: the lies are one point each")
async def test_an_honest_screen_is_shown(host: Host, liar: LinkedDesk) -> None:
    await liar.write("/tmp/lie", b"")
    assert (await host.get_seat(liar).ask("screen.shot")).blob.startswith(b"\x89PNG")


@falls_without(
    "where a browser is spoken to",
    Removal("reader/websocket.py", "    if not PATH.fullmatch(path):\n", "    if not path:\n"),
)
async def test_a_browser_cannot_direct_its_reader_to_other_hosts(host: Host, liar: LinkedDesk) -> None:
    await liar.write("/tmp/lie", b"leads elsewhere")
    with anyio.fail_after(25), suppress(DeskError):
        await host.get_seat(liar).ask("browser.tabs")
    assert "internal" not in (await liar.read("/tmp/asked")).decode()


@falls_without(
    "messages of browsers that are short",
    Removal("reader/websocket.py", "max_size=MAX_MESSAGE_BYTES)", "max_size=None)"),
)
async def test_a_browser_cannot_send_without_limit(host: Host, liar: LinkedDesk) -> None:
    await liar.write("/tmp/lie", b"")
    with anyio.fail_after(25), pytest.raises(LinkError, match="hotdesk rejected data from"):
        await host.get_seat(liar).ask("browser.tabs")


@falls_without(
    "turns between two sides",
    Removal(
        "reader/view.py", "    await anyio.lowlevel.checkpoint()\n    return await sockets", "    return await sockets"
    ),
)
async def test_a_screen_that_never_pauses_does_not_block_its_reader(host: Host, liar: LinkedDesk) -> None:
    await liar.write("/tmp/lie", b"never pauses")
    seat = host.get_seat(liar)
    async with looking(seat) as (number, _):
        with anyio.fail_after(15):
            await seat.ask("view.lease", number=number)
    await liar.write("/tmp/lie", b"")


@falls_without(
    "no clipboard of a desk's",
    Removal(
        "reader/relay.py",
        "                case ServerMessage.CUT_TEXT:\n"
        '                    self.drop_text(int.from_bytes((yield 7)[3:], "big", signed=True))\n',
        "                case ServerMessage.CUT_TEXT:\n"
        "                    told = yield 7\n"
        "                    self.out += bytes([3]) + told\n"
        '                    self.passing = int.from_bytes(told[3:], "big")\n',
    ),
)
async def test_a_desks_clipboard_does_not_reach_the_viewer(host: Host, liar: LinkedDesk) -> None:
    await liar.write("/tmp/lie", b"has a clipboard")
    async with looking(host.get_seat(liar)) as (_, stream):
        seen = await anyio.to_thread.run_sync(stream.recv, 4096)
    assert b"jacked" not in seen
    assert seen[:1] == b"\0"


@falls_without(
    "no clipboard of a person's",
    Removal(
        "reader/relay.py",
        "                case Person.PASTE:\n"
        '                    self.drop_text(int.from_bytes((yield 7)[3:], "big", signed=True))\n',
        "                case Person.PASTE:\n"
        "                    told = yield 7\n"
        "                    self.out += bytes([6]) + told\n"
        '                    self.passing = int.from_bytes(told[3:], "big")\n',
    ),
)
async def test_a_viewers_clipboard_does_not_reach_the_desk(host: Host, liar: LinkedDesk) -> None:
    await liar.write("/tmp/lie", b"")
    seat = host.get_seat(liar)
    async with looking(seat) as (number, stream):
        await seat.ask("view.lease", number=number)
        key = struct.pack(">BBxxI", 4, 1, ord("k"))
        stream.sendall(b"\x06\0\0\0" + struct.pack(">I", 6) + b"mine!!" + key)
        with anyio.fail_after(20):  # what was sent after it arrives, at a screen whose pictures are read
            while key not in (heard := await liar.read("/tmp/heard")):
                with suppress(BlockingIOError):
                    stream.recv(1 << 20, socket.MSG_DONTWAIT)
                await anyio.sleep(0.05)
    assert b"mine" not in heard


# -- people -----------------------------------------------------------------------------------------------------


@falls_without(
    "input only from who drives",
    Removal(
        "reader/relay.py",
        "        if not self.driving:\n            return\n        buttons = data[0]\n",
        "        buttons = data[0]\n",
    ),
)
async def test_a_viewer_without_control_cannot_move_or_press(host: Host, desktop: LinkedDesk) -> None:
    seat = host.get_seat(desktop)
    await seat.ask("screen.input", events=[["move", 5, 5]])
    async with looking(seat) as (number, stream):
        acts = struct.pack(">BBHH", 5, 0, 300, 300) + struct.pack(">BBxxI", 4, 1, ord("a"))
        stream.sendall(acts)
        await anyio.sleep(0.5)
        where = (await desktop.run(["xdotool", "getmouselocation"], env=X11)).text
        pressed = (await desktop.run(["python3", "-c", PRESSED], env=X11)).text
        await seat.ask("view.lease", number=number)
        stream.sendall(acts)
        with anyio.fail_after(10):  # with control, the same arrives
            while (await desktop.run(["python3", "-c", PRESSED], env=X11)).text != "1\n":
                await anyio.sleep(0.05)
    assert where.startswith("x:5 y:5 ")
    assert pressed == "0\n"


async def logged(desk: LinkedDesk, count: int) -> list[float]:
    """Wait until the logger has written so many times; return them."""
    with anyio.fail_after(20):
        while True:
            with suppress(FileError):
                *lines, _ = (await desk.read("/tmp/log")).split(b"\n")
                if len(lines) >= count:
                    return [float(line) for line in lines]
            await anyio.sleep(0.05)


@falls_without(
    "tools while a person drives",
    Removal(
        "screen/takeover.py",
        "        if self.holder is None:\n            return None\n        seconds",
        "        if self.holder is None or self.holder:\n            return None\n        seconds",
    ),
)
@falls_without(
    "programs while a person drives",
    Removal(
        "keeper/operations.py",
        "room.cgroup.suspend([pid for pid in room.cgroup.list_unsuspended() if",
        "room.cgroup.suspend([pid for pid in () if",
    ),
)
async def test_programs_are_stopped_and_tools_refused_while_a_person_drives(host: Host, desktop: LinkedDesk) -> None:
    hands, wheel = await host.hands(desktop), host.get_wheel(desktop)
    logger = await desktop.start(["python3", "-c", LOGGER], stdin=False)
    await logged(desktop, 10)
    async with looking(host.get_seat(desktop)) as (number, _):
        await wheel.take(number, "a test")
        with anyio.fail_after(10):
            seen = await hands.use("screen_screenshot", {})
        await anyio.sleep(0.6)
        await wheel.hand_back(number, "a test")
    times = await logged(desktop, len(await logged(desktop, 10)) + 10)
    await logger.kill()
    assert not seen.ok
    assert not seen.image
    assert max(after - before for before, after in pairwise(times)) > 0.5


@falls_without(
    "titles that are none", Removal("screen/takeover.py", "for words in rows if len(words) == 4)", "for words in rows)")
)
async def test_a_window_without_a_title_does_not_prevent_driving(host: Host, desktop: LinkedDesk) -> None:
    other = await desktop.start(["xterm"], env=X11, stdin=False)
    assert (await desktop.run(["bash", "-c", UNNAME], env=X11, timeout=20)).ok
    wheel = host.get_wheel(desktop)
    async with looking(host.get_seat(desktop)) as (number, _):
        await wheel.take(number, "a test")
        assert wheel.explain_refusal()
        await wheel.hand_back(number, "a test")
    assert await wheel.welcome()
    await other.kill()


# -- a reader that was turned -----------------------------------------------------------------------------------


@falls_without(
    "readers that are dismissed",
    Removal("keeper/readers.py", "            os.kill(self.pids[name], signal.SIGKILL)", "            pass"),
)
async def test_a_reader_that_does_not_exit_is_ended_with_its_seat(host: Host, desktop: LinkedDesk) -> None:
    seat = host.get_seat(desktop)
    before = readers()
    await seat.ask("screen.cursor")
    seat.close()
    with anyio.fail_after(10):
        while readers() - before or seat.reader is None or seat.reader.failure is None:
            await anyio.sleep(0.02)
    known = readers()
    await seat.ask("screen.cursor")
    (pid,) = readers() - known
    try:
        os.kill(pid, signal.SIGSTOP)  # it ignores both the end of its connection and the alarm
        seat.close()
        with anyio.move_on_after(5):
            while pid in readers():
                await anyio.sleep(0.02)
        assert pid not in readers()
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def readers() -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            pid = int(entry.name)
            line, parent = (entry / "cmdline").read_bytes(), parent_of(pid)
            if b"hotdesk.hands.reader.process" in line and parent_of(parent) == os.getpid():
                found.add(pid)
    return found


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


NONSENSE = {
    "a length beyond all bounds": struct.pack(">II", 1 << 31, 0),
    "what is no JSON": struct.pack(">II", 1, 0) + b"x",
    "no object": struct.pack(">II", 2, 0) + b"[]",
    "an end with asks unread": b"",
}


@falls_without(
    "an owner that outlives its readers",
    Removal(
        "screen/reader_client.py",
        "        except (OSError, FrameError) as e:  # also a reset",
        "        except KeyError as e:  #",
    ),
)
@pytest.mark.parametrize("said", NONSENSE)
async def test_invalid_data_from_a_reader_is_refused(desktop: LinkedDesk, said: str) -> None:
    talk, theirs = socket.socketpair()
    hand, takes = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    async def start() -> tuple[socket.socket, socket.socket]:
        return talk, hand

    async def dismiss(_: socket.socket) -> None:
        return

    async with background() as tasks:
        seat = DeskSeat(desktop, start, tasks, dismiss)
        async with anyio.create_task_group() as asking:
            asking.start_soon(refused, seat)
            await anyio.sleep(0.1)
            theirs.sendall(NONSENSE[said])
            theirs.close()
            takes.close()


async def refused(seat: DeskSeat) -> None:
    with anyio.fail_after(30), pytest.raises(LinkError):
        await seat.ask("screen.shot")


# -- the page ---------------------------------------------------------------------------------------------------


class Shown:
    """The owner of a desk that is shown."""

    async def open_screen(self, viewer: str, control: bool) -> socket.socket:
        ours, theirs = socket.socketpair()
        theirs.sendall(b"picture")
        theirs.close()
        ours.setblocking(False)
        return ours

    async def get_wheel(self) -> dict[str, object]:
        return {"viewers": 1}

    async def turn(self, act: str, viewer: str, secret: str) -> dict[str, object]:
        return {}


Get = Callable[..., Awaitable[bytes]]


@pytest.fixture
async def page() -> AsyncIterator[tuple[Get, PageLogin, PageSession, str]]:
    """Serve a page to a signed-in user; yield a function that sends requests, and the user's credentials."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        entry = PageLogin(time.monotonic)
        session = entry.enter(entry.invite())
        assert session is not None
        web = PageServer("d", Shown(), entry, {"": PageFile("text/html", b"page")}, port, control=True)

        async def get(target: str, method: str = "GET", **headers: str) -> bytes:
            told = {"Host": f"127.0.0.1:{port}", "Cookie": f"desk={session.key}", **headers}
            lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in told.items())
            return await anyio.to_thread.run_sync(exchange, port, f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(web.serve, listener)
            yield get, entry, session, f"http://127.0.0.1:{port}"
            tasks.cancel_scope.cancel()


def exchange(port: int, request: bytes) -> bytes:
    """Send a request; return the beginning of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
        sock.sendall(request)
        return sock.recv(4096)


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec_WebSocket_Version": "13",
    "Sec_WebSocket_Key": base64.b64encode(bytes(16)).decode(),
}
STRANGERS = {
    "by another name": {"Host": "desk.attacker.test"},
    "from another site": {"Origin": "http://attacker.test"},
    "from another port": {"Origin": "http://127.0.0.1:1"},
}


@falls_without(
    "who may use a page",
    Removal(
        "page/server.py",
        "        if origin != ours and (origin is not None or needs_origin):\n            return None\n",
        "        assert ours and (origin or needs_origin or True)\n",
    ),
    Removal("page/server.py", 'if request.headers.get("host") != self.host:', "if not self.host:"),
)
@pytest.mark.parametrize("stranger", STRANGERS)
async def test_the_page_refuses_strangers(page: tuple[Get, PageLogin, PageSession, str], stranger: str) -> None:
    get, _, session, origin = page
    assert b" 200 " in await get(f"/{session.place}/state", Origin=origin)
    assert b" 403 " in await get(f"/{session.place}/state", **{"Origin": origin, **STRANGERS[stranger]})


@falls_without(
    "handles that begin one stream",
    Removal("page/login.py", 'self.handles.pop(handle, ("", 0.0))', 'self.handles.get(handle, ("", 0.0))'),
)
async def test_a_stream_handle_works_once(page: tuple[Get, PageLogin, PageSession, str]) -> None:
    get, entry, session, origin = page
    upgrade = {**UPGRADE, "Sec_WebSocket_Protocol": f"binary, desk.{entry.issue(session)}", "Origin": origin}
    assert b" 101 " in await get(f"/{session.place}/screen", **upgrade)
    assert b" 403 " in await get(f"/{session.place}/screen", **upgrade)


@falls_without(
    "browsers that break off",
    Removal(
        "page/server.py", "        except* Exception:  # noqa: BLE001, S110 - a rim", "        except* OSError:  #"
    ),
)
async def test_a_browser_that_disconnects_does_not_end_the_page(page: tuple[Get, PageLogin, PageSession, str]) -> None:
    get, entry, session, origin = page
    for _ in range(10):
        handle = entry.issue(session)
        await get(f"/{session.place}/screen", **UPGRADE, Sec_WebSocket_Protocol=f"binary, desk.{handle}", Origin=origin)
        assert b" 200 " in await get(f"/{session.place}/state")


@falls_without(
    "a rim around each browser",
    Removal(
        "page/server.py", "        except* Exception:  # noqa: BLE001, S110 - a rim", "        except* OSError:  #"
    ),
    Removal("page/server.py", 'request.path.removeprefix("/").partition("/")[0]', 'request.path.split("/")[1]'),
)
async def test_no_request_crashes_the_page(page: tuple[Get, PageLogin, PageSession, str]) -> None:
    get, _, session, origin = page
    for method, target in (("GET", "x"), ("OPTIONS", "*"), ("CONNECT", "a:1")):
        await get(target, method, Origin=origin)
    assert b" 200 " in await get(f"/{session.place}/state")


# -- what programs say ------------------------------------------------------------------------------------------


@falls_without(
    "bounded searches in what managers say", Removal("hands/packages.py", "/\\S{0,300}\\s{1,3}403", "/\\S*\\s+403")
)
def test_package_manager_output_is_searched_quickly() -> None:
    began = time.process_time()
    packages.explain_failure("pip", Done(1, b"http://a/" * 4000, b"http://a/" * 4000))
    assert time.process_time() - began < 2
