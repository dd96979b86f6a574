"""Attacks on OpenSSH access: by a hostile desk's SFTP names and data, by other callers, and on the serving process."""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotdesk.cli.ssh.desk_link import DeskLink
from hotdesk.cli.ssh.host_key import HostKey
from hotdesk.cli.ssh.session import Session
from hotdesk.cli.ssh.sftp_replies import MAX_ENTRIES
from hotdesk.cli.ssh.transport import Transport
from hotdesk.config import Config
from hotdesk.desk.room.room import GATE
from hotdesk_guest import wire
from tests.origins import WALLED, Origin
from tests.security.guards import Removal, falls_without, no_guard
from tests.ssh_room import HOTDESK, SshRoom, ssh_room

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
NOBODY = 65534
BECOME = "import os, socket, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
HOSTILE = """#!/usr/bin/python3.{minor} -I
import os, sys
def number(value): return value.to_bytes(4, "big")
def string(data): return number(len(data)) + data
FOLDER = number(4) + number(0o040755)
FILE = number(12) + number(0o106777) + number(1) * 2
def entry(name, attributes=FILE): return string(name) + string(name) + attributes
def send(kind, *parts):
    sys.stdout.buffer.write(string(bytes((kind,)) + b"".join(parts)))
    sys.stdout.buffer.flush()
def status(n, code): send(101, n, number(code), string(b"\\x1b]0;owned\\x07"), string(b""))
def names(n, *entries): send(104, n, number(len(entries)), *entries)
listed = 0
while len(head := sys.stdin.buffer.read(4)) == 4:
    message = sys.stdin.buffer.read(int.from_bytes(head, "big"))
    kind, n = message[0], message[1:5]
    if kind == 1:
        send(2, number(3))
    elif kind == 16:
        names(n, entry(b"/home/user", number(0)))
    elif kind in (7, 17):
        send(105, n, FILE if b"file" in message else FOLDER)
    elif kind == 8:
        send(105, n, FILE)
    elif kind in (3, 11):
        send(102, n, string(b"1"))
    elif kind in (4, 200):
        status(n, 0)
    else:
        ATTACK
"""
LISTING = """
        if kind == 12 and not listed:
            listed = 1
            bad = [b"../escaped", b"/tmp/escaped", b"a/escaped", b"\\x1b[2Jclear", b"line\\nbreak"]
            names(n, *map(entry, [*bad, b"good"]))
        elif kind == 12:
            status(n, 1)
        elif kind == 5 and message[-12:-4] == bytes(8):
            send(103, n, string(b"content"))
        else:
            status(n, 1)
"""
CROWDED = """
        if kind == 12 and listed < 1200:
            names(n, *[entry(b"n%d-%d" % (listed, each)) for each in range(200)])
            listed += 1
        else:
            status(n, 1)
"""
ATTACKS = {
    "a flood that nobody asked for": """
        while True:
            send(103, number(77), string(bytes(30000)))
""",
    "a message of a gigabyte": """
        sys.stdout.buffer.write(number(1 << 30) + bytes(1 << 20))
        sys.stdout.buffer.flush()
""",
    "an answer to another question": """
        send(102, n, string(b"1"))
""",
    "nonsense": """
        os.write(1, os.urandom(5000))
""",
}


@pytest.fixture(scope="module")
def room(settings: Config, behind: Origin) -> Iterator[SshRoom]:
    wall = next((name for name, origin in WALLED.items() if origin is behind), "container")
    with ssh_room(settings, "--root", "--wall", wall) as opened:
        opened.ssh("-l", "root", "--", "true")  # the guest of root stays from now on
        yield opened


def turn(room: SshRoom, attack: str) -> None:
    """Replace the desk's SFTP server by a hostile one: root inside puts it first on Python's path."""
    version = room.ssh("--", "/usr/bin/python3 -c 'import sys; print(sys.version_info.minor)'").stdout.decode().strip()
    program = HOSTILE.replace("{minor}", version).replace("ATTACK", attack.strip())
    done = room.ssh("-l", "root", "--", "cat > /usr/local/bin/python3; chmod 755 /usr/local/bin/python3",
                    stdin=program.encode())  # fmt: skip
    assert done.returncode == 0, done.stderr


def sftp(room: SshRoom, lines: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    return room.call(["sftp", "-F", str(room.config), *options, "-b", "-", room.name], lines.encode())


@falls_without(
    "names of a desk are one plain component",
    Removal(
        "ssh/sftp_replies.py",
        '    return 0 < len(name) <= MAX_NAME_BYTES and "/" not in text and text.isprintable()\n',
        "    return True\n",
    ),
)
def test_names_from_a_desk_cannot_leave_the_target_folder(room: SshRoom) -> None:
    turn(room, LISTING)
    below = room.folder / "below/here"
    below.mkdir(parents=True)
    done = sftp(room, "ls -1 /home/user\nget -r /home/user below/here\n")
    assert b"\x1b" not in done.stdout + done.stderr, done
    assert b"escaped" not in done.stdout
    assert done.stderr.count(b"its name is not safe to use on this machine") >= 5
    written = {str(each.relative_to(room.folder / "below")) for each in (room.folder / "below").rglob("*")}
    assert written <= {"here", "here/user", "here/user/good"}, written
    assert not Path("/tmp/escaped").exists()


@falls_without(
    "modes of a desk give no rights", Removal("ssh/sftp_replies.py", " | mode & 0o777\n", " | mode & 0o7777\n")
)
def test_no_file_of_a_desk_gets_a_setuid_bit(room: SshRoom) -> None:
    turn(room, LISTING)
    done = sftp(room, "ls -ln /home/user\n")
    [line] = [line for line in done.stdout.splitlines() if line.endswith(b"good")]
    assert line.startswith(b"-rwxrwxrwx "), line


@pytest.mark.long
@falls_without(
    "a folder has so many entries",
    Removal("ssh/sftp_replies.py", "        if total > MAX_ENTRIES:\n", "        if total > 3 * MAX_ENTRIES:\n"),
)
def test_the_number_of_entries_in_a_folder_is_limited(room: SshRoom) -> None:
    turn(room, CROWDED)
    done = sftp(room, "ls -1 /home/user\n")
    assert f"truncated at {MAX_ENTRIES} entries".encode() in done.stderr, done.stderr
    assert len(done.stdout.splitlines()) <= MAX_ENTRIES + 2


@falls_without(
    "every reply was asked for",
    Removal("ssh/sftp_replies.py", "        if request is None or not self.is_greeted:\n",
            "        request = request or SftpRequest(READ, b'', 0, 1 << 20)\n        if not self.is_greeted:\n"),
    Removal("ssh/sftp_replies.py", "        if kind not in (STATUS, request.answer()):\n", "        if not kind:\n"),
    Removal("ssh/sftp_replies.py", "    if not 1 <= length <= MAX_MESSAGE_BYTES:\n", "    if not length:\n"),
    cases="a flood that nobody asked for | a message of a gigabyte | an answer to another question",
)  # fmt: skip
@no_guard("several measures find it, and which one is chance", cases="nonsense")
@pytest.mark.parametrize("case", ATTACKS)
def test_an_sftp_server_that_breaks_the_protocol_ends_its_session(room: SshRoom, case: str) -> None:
    turn(room, ATTACKS[case])
    begun = time.monotonic()
    done = sftp(room, "ls /home/user\n")
    assert done.returncode == 255, done
    assert b"the desk's SFTP server broke the protocol" in done.stderr, done.stderr
    assert time.monotonic() - begun < 20


@falls_without(
    "texts of a desk are escaped",
    Removal("ssh/session.py", "hotdesk: {make_printable(text)}", "hotdesk: {text}"),
    Removal("ssh/sftp_replies.py", "string(make_printable(text[:300]).encode())", "string(text.encode())"),
)
def test_messages_about_a_desk_cannot_control_the_terminal(room: SshRoom) -> None:
    turn(room, "status(n, 4)")
    done = sftp(room, "ls /home/user\nrm /home/user/file\n")
    assert b"\x1b" not in done.stdout + done.stderr, done
    ours, theirs = socket.socketpair()
    with ours, theirs:
        link, transport = DeskLink(ours, b""), Transport(HostKey(bytes(32)))
        session = Session(transport, 1, (0, 1 << 20, 1 << 15), link, print)
        session.start(["true"])
        link.reader.buffer += wire.encode_frame(wire.REPLY, 1, wire.encode({"code": 126, "text": "\x1b[2Jowned"}))
        link.take_frames()
        assert b"owned" in (told := b"".join(transport.queue))
        assert b"\x1b" not in told


# -- ports ---------------------------------------------------------------------------------------------------------


@falls_without(
    "only the desk is reached",
    Removal("ssh/connection.py", "        if host.lower() not in LOOPBACK | {desk, desk + DESK_SUFFIX}:\n",
            "        if not host:\n"),
)  # fmt: skip
@pytest.mark.parametrize(
    "host", ["192.0.2.1", "example.com", "127.0.0.2", "0.0.0.0", "localhost.evil", "::ffff:7f00:1"]
)
def test_a_forwarded_port_leads_to_no_other_host(room: SshRoom, host: str) -> None:
    with room.port() as inside:
        name = f"[{host}]" if ":" in host else host
        done = room.ssh("-W", f"{name}:{inside}")
    assert (done.returncode, b"administratively prohibited" in done.stderr) == (255, True), done


@falls_without(
    "a desk's way out is nobody's way in",
    Removal("ssh/connection.py", "        if port == GATE_PORT:\n", "        if port == 0:\n"),
)
def test_ssh_cannot_forward_to_a_desks_gate(room: SshRoom) -> None:
    done = room.ssh("-W", f"localhost:{GATE[1]}", stdin=b"GET http://example.test/ HTTP/1.1\r\n\r\n")
    assert (done.returncode, done.stdout) == (255, b"")
    assert b"is reserved for the desk's egress proxy" in done.stderr
    assert room.hotdesk("forward", room.desk, str(GATE[1])).returncode == 125


@no_guard("the owner dials in the desk's network namespace: there is no way to this machine's")
def test_a_forwarded_port_is_never_one_of_this_machine(room: SshRoom) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        done = room.ssh("-W", f"localhost:{listener.getsockname()[1]}")
        assert done.returncode == 255
        with pytest.raises(BlockingIOError):
            listener.accept()


@no_guard("nothing here listens for a desk: there is no code to remove")
@pytest.mark.parametrize("what", ["8099:localhost:22", "/tmp/from-here:localhost:22", "8099"])
def test_a_desk_cannot_open_a_port_on_this_machine(room: SshRoom, what: str) -> None:
    done = room.ssh("-R", what, "--", "cat /proc/net/tcp /proc/net/unix")
    assert b"(-R) is refused" in done.stderr
    assert b":1FA3 " not in done.stdout
    assert b"from-here" not in done.stdout


CONNECT = (
    BECOME
    + """
sock = socket.socket()
sock.settimeout(20)
sock.connect(("127.0.0.1", int(sys.argv[1])))
sock.sendall(b"from another user")
if sys.argv[2] == "away":
    sys.exit()
said = b""
try:
    sock.shutdown(socket.SHUT_WR)
    while data := sock.recv(4096):
        said += data
except OSError:
    pass
print(said)
"""
)
HEARING = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    caller, _ = listener.accept()
    with caller:
        while data := caller.recv(4096):
            print(data, flush=True)
            caller.sendall(data)
"""


@falls_without(
    "a forwarded port is its user's",
    Removal("desks/forward.py", "        if uid in self.users:\n", "        if self.users:\n"),
)
@pytest.mark.parametrize("way", ["stay", "away"])
def test_another_user_of_this_machine_cannot_use_a_forwarded_port(room: SshRoom, way: str) -> None:
    with room.running([*HOTDESK, "exec", room.desk, "--", "/usr/bin/python3", "-c", HEARING]) as inside:
        assert inside.stdout is not None
        port = inside.stdout.readline().decode().strip()
        with room.running([*HOTDESK, "forward", room.desk, port, "--listen", "0"]) as forward:
            assert forward.stderr is not None
            [local] = re.findall(rb":(\d+) to port ", forward.stderr.readline())
            done = subprocess.run([sys.executable, "-c", CONNECT, local.decode(), way], check=True, capture_output=True)
            assert b"another" not in done.stdout
            assert b"refused a connection from" in forward.stderr.readline()
            with socket.create_connection(("127.0.0.1", int(local)), timeout=20) as sock:
                sock.sendall(b"from us")
                assert sock.recv(100) == b"from us"
        assert inside.stdout.readline() == b"b'from us'\n"


# -- the process ---------------------------------------------------------------------------------------------------


@falls_without(
    "what serves ssh is confined", Removal("ssh/stdio.py", "        confine([], dials=dials)\n", "        pass\n"),
)  # fmt: skip
def test_the_process_that_reads_a_desks_data_has_no_other_rights(room: SshRoom) -> None:
    with room.running(["ssh", "-F", str(room.config), room.name, "echo up; cat"]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        [child] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        status = Path(f"/proc/{child}/status").read_text()
        assert b"--stdio" in Path(f"/proc/{child}/cmdline").read_bytes()
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {facts[name].strip() for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert facts["NoNewPrivs"] == "1"


@pytest.mark.sample(2)
@falls_without(
    "a host key of this user alone",
    Removal("ssh/host_key.py", " or found.st_uid != os.geteuid() or found.st_mode & 0o077:\n", ":\n"),
    cases="another user's | readable",
)  # fmt: skip
@falls_without("a host key that is no link", Removal("ssh/host_key.py", "os.O_RDONLY | os.O_NOFOLLOW", "os.O_RDONLY"),
               cases="a link")  # fmt: skip
@no_guard("it must pass: that not everything is refused", cases="its own")
@pytest.mark.parametrize("trap", ["another user's", "readable", "a link", "its own"])
def test_a_planted_host_key_is_not_used(room: SshRoom, trap: str) -> None:
    key = room.settings.lib / "ssh/host_key"
    assert room.ssh("--", "true").returncode == 0
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    away = key.rename(key.with_name("away"))
    try:
        planted = key.with_name("planted") if trap == "a link" else key
        planted.write_bytes(os.urandom(32) if trap != "its own" else away.read_bytes())
        planted.chmod(0o644 if trap == "readable" else 0o600)
        if trap == "another user's":
            os.chown(planted, NOBODY, NOBODY)
        if trap == "a link":
            key.symlink_to(planted)
        done = room.ssh("--", "true")
        assert (done.returncode == 0) == (trap == "its own"), done.stderr
    finally:
        away.rename(key)


@no_guard("the owner's socket has a mode, and asks who calls: tests/security/test_neighbour_attacks.py")
def test_another_user_of_this_machine_cannot_sign_in(room: SshRoom) -> None:
    env = {**room.environment(), "XDG_DATA_HOME": str(room.folder), "HOME": "/"}
    reading = "+dac_read_search"  # Python itself may be where only root can read
    who = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--inh-caps", reading]
    argv = ["setpriv", *who, "--ambient-caps", reading, *HOTDESK, "ssh", "--stdio", room.desk]
    done = subprocess.run(argv, check=False, capture_output=True, env=env, timeout=30)
    assert done.returncode == 125, done
    assert b"SSH-2.0" not in done.stdout
