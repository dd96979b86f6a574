"""Attacks on the resident holder, or by an impostor: other users, planted sockets, links, other versions, odd calls."""

from __future__ import annotations

import array
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from hotdesk.cli.quick.call import dial
from hotdesk.config import Config
from hotdesk_guest import wire
from tests.conftest import state_directory
from tests.leftovers import end_holders, settle
from tests.security.conftest import HOTDESK, environment
from tests.security.guards import Removal, falls_without, no_guard

pytestmark = pytest.mark.container
NOBODY = 65534
BECOME = "import os, socket, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
"""Become an ordinary user, who may have no right to run our interpreter."""
KNOCK = """
import socket, sys
with socket.socket(socket.AF_UNIX) as sock:
    sock.settimeout(10)
    try:
        sock.connect(sys.argv[1])
        sock.sendall(b"GET /desks HTTP/1.1\\r\\nHost: hotdesk\\r\\n\\r\\n")
        print("answered" if sock.recv(100) else "hung up")
    except OSError as e:
        print("hung up" if isinstance(e, ConnectionError) else type(e).__name__)
"""
LISTEN = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o600)
listener.listen()
print("up", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(settings: Config) -> Iterator[Path]:
    with state_directory() as folder:
        yield folder
        end_holders(folder)


def around(place: Path, settings: Config, **more: str) -> dict[str, str]:
    own = {"HOTDESK_HOME": str(place), "HOTDESK_HOLDER": "1", "HOTDESK_LINGER": "60"}
    return {**environment(settings), **own, **more}


def run(place: Path, settings: Config, *argv: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    env = around(place, settings, **more)
    return subprocess.run([*HOTDESK, *argv], check=False, input=b"", capture_output=True, timeout=50, env=env)


def warm(place: Path, settings: Config, **more: str) -> int:
    """Start a holder with a first command; return its process id."""
    assert run(place, settings, "run", "--", "true", **more).returncode == 0
    assert not settle(lambda: set() if holders(place) else {"no holder"})
    [holder] = holders(place)
    return holder


def in_use(place: Path) -> set[str]:
    """List the desks that are in use: a holder keeps another one ready."""
    found = set()
    for each in (place / "run/desks").glob("*"):
        with suppress(OSError, ValueError):
            facts = json.loads((each / "desk.json").read_text())
            found |= {each.name} if facts["state"] == "open" else set()
    return found


def socket_of(place: Path) -> Path:
    [found] = (place / "run/control").glob("holder-*.sock")
    return found


def holders(place: Path) -> list[int]:
    names = {each.stat().st_ino for each in (place / "run/control").glob("holder-*.sock")}
    owners = [each for each in (place / "run/control").glob("*.sock") if each.stem.isdigit()]
    return [int(each.stem) for each in owners if each.stat().st_ino in names]


def ask(place: Path, body: bytes, *fds: int, target: str = "/leases") -> bytes:
    """Send a request to a holder as root, perhaps with file descriptors; return the beginning of its answer."""
    head = f"POST {target} HTTP/1.1\r\nHost: hotdesk\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(20)
        sock.connect(str(socket_of(place)))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sock.sendmsg([head + body], rights)
        return sock.recv(100)


def as_nobody(program: str, *argv: str) -> str:
    """Run a program as an ordinary user; return its output."""
    argv = (sys.executable, "-c", BECOME + program, *argv)
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=30)
    return done.stdout.strip()


@falls_without(
    "a mode for sockets",
    Removal("linux/sockets.py", "        os.chmod(fresh, mode)\n", "        os.chmod(fresh, 0o666)\n"),
)
def test_another_user_cannot_call_a_holder(place: Path, settings: Config) -> None:
    warm(place, settings)
    assert as_nobody(KNOCK, str(socket_of(place))) == "PermissionError"
    assert stat.S_IMODE((place / "run/control").stat().st_mode) == 0o711


@falls_without(
    "whoever calls an owner is this user",
    Removal("owner/control.py", "if self.everyone or get_peer(sock)[1] in (os.geteuid(), 0):", "if sock:"),
)
def test_another_user_who_reaches_the_socket_is_not_answered(place: Path, settings: Config) -> None:
    warm(place, settings)
    socket_of(place).chmod(0o666)
    assert as_nobody(KNOCK, str(socket_of(place))) == "hung up"


@contextmanager
def listening(path: Path, user: int = 0) -> Iterator[Path]:
    """Listen at a path as some user, on a socket file that only its owner may open."""
    argv = [sys.executable, "-c", (BECOME if user else "") + LISTEN, str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == b"up\n"
            yield path
        finally:
            running.kill()


POSES = {
    "a real one": (True, ""),
    "another user's socket": (False, "socket"),
    "a socket that is open to others": (False, "mode"),
    "a link to a socket": (False, "link"),
    "another user listens": (False, "listener"),
    "another user's folder": (False, "folder"),
    "a folder others can write to": (False, "folder mode"),
    "a folder below one others can write to": (False, "above"),
}


@falls_without(
    "sockets of this user alone",
    Removal(
        "quick/call.py",
        "    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid() and ",
        "    return True or ",
    ),
    cases="another user's socket | a socket that is open to others | a link to a socket",
)
@falls_without(
    "whoever listens is this user",
    Removal("quick/call.py", "int.from_bytes(credentials[4:8], sys.byteorder) != os.geteuid()", "not credentials"),
    cases="another user listens",
)
@falls_without(
    "folders of this user alone",
    Removal("linux/ownership.py", " or found.st_uid != os.geteuid() or found.st_mode & 0o022:", ":"),
    cases="another user's folder | a folder others can write to | a folder below one others can write to",
)
@no_guard("it must pass: that not everything is refused", cases="a real one")
@pytest.mark.parametrize("pose", POSES)
def test_a_planted_socket_is_never_called(pose: str) -> None:
    is_called, what = POSES[pose]
    with state_directory() as folder:
        control = folder / "run/control"
        control.mkdir(parents=True)
        for each in (control.parent, control):
            each.chmod(0o755)
        aside = folder / "aside"
        aside.mkdir()
        os.chown(aside, NOBODY, NOBODY)
        with listening(aside / "sock", NOBODY if what == "listener" else 0) as made:
            path = control / "holder-x.sock"
            os.chown(made, NOBODY if what == "socket" else 0, 0)
            made.chmod(0o666 if what == "mode" else 0o600)
            if what == "link":
                path.symlink_to(made)
            else:
                made.rename(path)
            if what == "folder":
                os.chown(control, NOBODY, NOBODY)
            if what in ("folder mode", "above"):
                (control if what == "folder mode" else control.parent).chmod(0o777)
            sock = dial(str(path))
            if sock is not None:
                sock.close()
            assert (sock is not None) == is_called


FIND_SERVER = """
import os, sys
from hotdesk import config, host
from hotdesk.errors import HostError
uid = int(sys.argv[1])
os.setgroups([]); os.setgid(uid); os.setuid(uid)
try:
    print(host.find_server(config.load()))
except HostError:
    print("no server")
"""


@falls_without(
    "no server's socket in a folder of others",
    Removal("hotdesk/host.py", " if is_private(str(own.parent)) else []", ""),
)
def test_a_server_that_another_user_poses_as_below_tmp_gets_no_command(settings: Config) -> None:
    uid = (1 << 30) + os.getpid()  # no other test's, nor a user's
    place = Path(f"/tmp/hotdesk-{uid}")
    place.mkdir(mode=0o755)
    try:
        folder = place / "hotdesk"
        folder.mkdir(mode=0o755)
        for each in (place, folder):
            os.chown(each, NOBODY, NOBODY)
        with listening(folder / "serve.sock", NOBODY) as planted:
            planted.chmod(0o666)
            others = ("HOTDESK_", "XDG_")
            env = {name: value for name, value in environment(settings).items() if not name.startswith(others)}
            argv = [sys.executable, "-c", FIND_SERVER, str(uid)]
            done = subprocess.run(
                argv, check=True, env={**env, "HOME": "/nonexistent"}, capture_output=True, text=True, timeout=30
            )
            assert done.stdout.strip() in ("no server", "/run/hotdesk/serve.sock")
    finally:
        shutil.rmtree(place)


@falls_without("a holder of another name", Removal("quick/run.py", ' or answer[0].get("holder") != name', ""))
@pytest.mark.parametrize("named", ["Holder: 0123456789abcdef\r\n", ""])
def test_a_holder_of_another_version_gets_no_command(place: Path, settings: Config, named: str) -> None:
    warm(place, settings)
    path = socket_of(place)
    path.unlink()
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen()
        answer = f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: hotdesk-link\r\n{named}\r\n".encode()
        posing = threading.Thread(target=pose, args=(listener, answer, heard))
        posing.start()
        done = run(place, settings, "run", "--", "echo", "a private thing")
        posing.join(30)
    path.unlink()
    assert (done.returncode, done.stdout, done.stderr) == (0, b"a private thing\n", b"")
    assert b"/leases" in heard[0]
    assert b"a private thing" not in b"".join(heard)


def pose(listener: socket.socket, answer: bytes, heard: list[bytes]) -> None:
    listener.settimeout(20)
    call, _ = listener.accept()
    with closing(call):
        call.settimeout(30)
        heard.append(call.recv(1 << 16))
        call.sendall(answer + wire.encode_frame(wire.HELLO, 0, wire.encode({"version": wire.VERSION})))
        with suppress(OSError):
            while data := call.recv(1 << 16):
                heard.append(data)


@no_guard("an owner reads bytes, never descriptors: the kernel closes those nobody takes")
def test_descriptors_sent_with_a_call_do_not_stay_open(place: Path, settings: Config) -> None:
    holder = warm(place, settings)
    before = len(os.listdir(f"/proc/{holder}/fd"))
    reading, writing = os.pipe()
    body = wire.encode({"argv": [], "variables": {}})
    try:
        assert b" 101 " in ask(place, body, writing, writing)
    finally:
        os.close(writing)
    os.set_blocking(reading, False)
    assert not settle(lambda: set() if os.read(reading, 1) == b"" else {"the pipe is open"})
    os.close(reading)
    assert not settle(lambda: {"more is open"} if len(os.listdir(f"/proc/{holder}/fd")) > before else set())


LEASES: dict[str, object] = {
    "help": {"argv": ["--help"], "variables": {}},
    "egress": {"argv": ["--allow=example.test"], "variables": {}},
    "a secret": {"argv": ["--grant=erp@erp.test"], "variables": {}},
    "a file": {"argv": ["--in=/etc/shadow:shadow"], "variables": {}},
    "a word": {"argv": ["--", "true"], "variables": {}},
    "no text": {"argv": [1], "variables": {}},
    "a flag with a value": {"argv": ["--root=x"], "variables": {}},
    "an option without one": {"argv": ["--image"], "variables": {}},
    "much": {"argv": ["--root"] * 1000, "variables": {}},
    "more": {"argv": [], "variables": {}, "by": "uid 7"},
    "less": {"argv": []},
    "no table": [],
    "an image elsewhere": {"argv": ["--image=../../../etc/passwd"], "variables": {}},
    "a variable that is none": {"argv": [], "variables": {"SUDO_UID": 1}},
}


@pytest.mark.sample(4)
@falls_without(
    "options a holder may read",
    Removal("holder/service.py", "all(_is_option(each) for each in argv)", "argv is not None"),
    cases="egress | a secret | a file",
)
@no_guard(
    "the command's own parser refuses it as well",
    cases="help | a word | no text | a flag with a value | an option without one | much | more | less | no table | "
    "an image elsewhere | a variable that is none",
)
@pytest.mark.parametrize("lease", LEASES)
def test_a_lease_can_only_be_a_plain_desk(place: Path, settings: Config, lease: str) -> None:
    holder = warm(place, settings)
    status = ask(place, wire.encode(LEASES[lease])).split(b" ")[1]
    assert status == b"400"
    assert ask(place, b"\xff\0 nonsense").split(b" ")[1] == b"400"
    assert in_use(place) == set()
    assert run(place, settings, "run", "--", "true").returncode == 0
    assert holders(place) == [holder]


@falls_without(
    "names in a lease",
    Removal("drive/identity.py", "    if uid != 0 or not all(map(NUMBER.fullmatch, ids)):", "    if not all(ids):"),
)
def test_a_caller_cannot_pose_as_another_user_in_the_journal(place: Path, settings: Config) -> None:
    warm(place, settings)
    variables = {"SUDO_UID": "0 pid 1 key anna", "SUDO_GID": "0", "HOTDESK_REQUESTER": "anna pid 1"}
    assert b" 101 " in ask(place, wire.encode({"argv": [], "variables": variables}))
    assert not settle(lambda: in_use(place))
    shown = run(place, settings, "journal", "show", "--json").stdout.decode()
    assert re.findall(r'"by": "([^"]*)"', shown)[-1] == f"uid 0 pid {os.getpid()}"


@falls_without(
    "a holder that confines itself",
    Removal("holder/service.py", "            confine([self.path.parent])\n", ""),
    cases="the holder",
)
@falls_without(
    "a quick command that confines itself",
    Removal("quick/run_follow.py", "        confine([])\n", ""),
    cases="the command | a command alone",
)
@pytest.mark.parametrize("who", ["the holder", "the command", "a command alone"])
def test_processes_that_read_a_desks_bytes_have_given_up_their_privileges(
    place: Path, settings: Config, who: str
) -> None:
    holder = warm(place, settings)
    way = ["--no-holder"] if who == "a command alone" else []
    argv = [*HOTDESK, "run", *way, "--", "sh", "-c", "echo up; sleep 60"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=around(place, settings)) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == b"up\n"
            text = Path(f"/proc/{holder if who == 'the holder' else running.pid}/status").read_text()
        finally:
            running.terminate()
    status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    assert (int(status["CapEff"], 16), int(status["CapBnd"], 16), status["NoNewPrivs"]) == (0, 0, "1")


@falls_without("variables a holder gets", Removal("quick/start.py", "**get_holder_environment()}", "**os.environ}"))
def test_a_holder_knows_none_of_its_callers_secrets(place: Path, settings: Config) -> None:
    holder = warm(place, settings, AWS_SECRET_ACCESS_KEY="a-secret")
    assert b"a-secret" not in Path(f"/proc/{holder}/environ").read_bytes()


@falls_without(
    "a lease ends with its call",
    Removal(
        "owner/control.py",
        "                await self.runtime.burn(desk.id)\n\n    async def open_unless_gone",
        "                pass\n\n    async def open_unless_gone",
    ),
)
def test_a_caller_that_disconnects_leaves_no_desk(place: Path, settings: Config) -> None:
    warm(place, settings)
    body = wire.encode({"argv": [], "variables": {}})
    assert b" 101 " in ask(place, body)
    head = f"POST /leases HTTP/1.1\r\nHost: hotdesk\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for _ in range(5):  # the caller is gone before it is answered
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(socket_of(place)))
            sock.sendall(head + body)
    assert not settle(lambda: in_use(place))
