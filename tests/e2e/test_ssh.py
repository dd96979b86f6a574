"""Tests of OpenSSH's own programs at a desk: commands, terminals, copies, forwarded ports, long-lived channels."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from hotdesk.config import MIB, Config
from tests.ssh_room import HOTDESK, SshRoom, ssh_room, wait_until

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
HANG_UP = """
import os, signal, time
def note(number, frame):
    open("/tmp/hung-up", "w").write(str(os.getpid()))
    raise SystemExit
signal.signal(signal.SIGHUP, note)
print("up", flush=True)
time.sleep(60)
"""


@pytest.fixture(scope="module")
def room(settings: Config) -> Iterator[SshRoom]:
    with ssh_room(settings) as opened:
        yield opened


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def converse(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
        sock.sendall(b"hello")
        sock.shutdown(socket.SHUT_WR)
        return read_all(sock)


def read_all(sock: socket.socket) -> bytes:
    said = b""
    with suppress(ConnectionResetError):
        while data := sock.recv(65536):
            said += data
    return said


def is_open(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


# -- commands ------------------------------------------------------------------------------------------------------


def test_a_command_has_its_streams_and_its_exit_code(room: SshRoom) -> None:
    done = room.ssh("--", "cat; echo wrong >&2; exit 7", stdin=b"right")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"right", b"wrong\n")


def test_a_command_ended_by_a_signal_says_so_as_a_shell_does(room: SshRoom) -> None:
    assert room.ssh("--", "kill -9 $$").returncode == 128 + 9


def test_a_command_is_the_users_at_home_with_the_variables_that_are_sent(room: SshRoom) -> None:
    done = room.ssh("-o", "SetEnv=GREETING=hello", "--", 'id -un; pwd; echo "$GREETING"')
    assert done.stdout == b"user\n/home/user\nhello\n", done.stderr


def test_a_script_is_read_from_standard_input(room: SshRoom) -> None:
    assert room.ssh("-T", stdin=b"cd /tmp\npwd\nexit 3\n").stdout == b"/tmp\n"


@pytest.mark.parametrize("options", [(), ("-o", "RekeyLimit=512K")], ids=["one key", "many keys"])
def test_large_binary_data_passes_both_ways_unchanged(room: SshRoom, options: tuple[str, ...]) -> None:
    data = os.urandom(4 * MIB + 12345)
    done = room.ssh(*options, "--", "cat", stdin=data)
    assert (done.returncode, done.stdout == data) == (0, True), done.stderr


@pytest.mark.long
def test_a_reader_that_is_slow_gets_everything(room: SshRoom) -> None:
    argv = ["ssh", "-F", str(room.config), room.name, "seq 1 400000"]
    with room.running(argv) as process:
        assert process.stdout is not None
        time.sleep(1)
        said = process.stdout.read(100)
        time.sleep(1)
        while data := process.stdout.read(1 << 16):
            said += data
    assert said.splitlines() == [b"%d" % number for number in range(1, 400_001)]


def test_a_desk_is_known_by_the_beginning_of_its_id(room: SshRoom) -> None:
    done = room.call(["ssh", "-F", str(room.config), f"{room.desk[:8]}.desk", "echo here"])
    assert (done.returncode, done.stdout) == (0, b"here\n"), done.stderr


def test_hotdesk_ssh_needs_no_configuration(room: SshRoom) -> None:
    done = room.hotdesk("ssh", room.desk, "--", "printf", "%s\n", "two words")
    assert (done.returncode, done.stdout) == (0, b"two words\n"), done.stderr


def test_the_configuration_is_printed(room: SshRoom) -> None:
    printed = room.hotdesk("ssh", "--config").stdout.decode()
    (room.folder / "printed").write_text(printed)
    shown = room.call(["ssh", "-G", "-F", str(room.folder / "printed"), room.name]).stdout.decode()
    assert "\nuser user\n" in "\n" + shown
    assert f"\nproxycommand hotdesk ssh --stdio {room.name}\n" in shown.replace("%h", room.name)
    assert "\nhostkeyalias hotdesk\n" in shown


def test_a_desk_that_is_not_there_is_named(room: SshRoom) -> None:
    done = room.call(["ssh", "-F", str(room.config), f"i{'0' * 20}.desk", "true"])
    assert done.returncode == 255
    assert b"is not open; `hotdesk ps` lists open desks" in done.stderr


def test_an_unknown_user_of_the_desk_is_reported(room: SshRoom) -> None:
    done = room.ssh("-l", "anna", "--", "true")
    assert (done.returncode, b"a desk has no user 'anna'" in done.stderr) == (255, True), done.stderr
    done = room.ssh("-l", "root", "--", "true")
    assert (done.returncode, b"was opened without root" in done.stderr) == (255, True), done.stderr


@pytest.mark.long
def test_roots_commands_are_in_the_journal(settings: Config) -> None:
    with ssh_room(settings, "--root") as room:
        done = room.ssh("-l", "root", "--", "id -u; cat /etc/shadow >/dev/null && echo read")
        assert done.stdout == b"0\nread\n", done.stderr
        shown = room.hotdesk("journal", "show", "--json").stdout.decode()
        assert any("cat /etc/shadow" in line and room.desk in line for line in shown.splitlines())


# -- terminals -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Terminal:
    """A person's terminal, in which ssh runs."""

    fd: int
    pid: int
    shown: bytes = b""

    def until(self, pattern: bytes, seconds: float = 20.0) -> bytes:
        """Read until a pattern appears; return the match, and drop what was before."""
        end = time.monotonic() + seconds
        while (match := re.search(pattern, self.shown)) is None:
            assert select.select([self.fd], [], [], max(0, end - time.monotonic()))[0], self.shown
            try:
                data = os.read(self.fd, 4096)
            except OSError:
                data = b""
            assert data, self.shown
            self.shown += data
        self.shown = self.shown[match.end() :]
        return match.group()

    def type(self, text: bytes) -> None:
        os.write(self.fd, text)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end(self) -> int:
        """Wait for ssh to end; return its exit code."""
        try:
            while os.read(self.fd, 4096):
                pass
        except OSError:
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextmanager
def terminal(room: SshRoom, *argv: str) -> Iterator[Terminal]:
    pid, fd = pty.fork()
    if not pid:
        os.chdir(room.folder)
        argv = ("ssh", "-F", str(room.config), *argv)
        os.execvpe("ssh", argv, {**room.environment(), "TERM": "xterm"})  # noqa: S606 - a program of the test's choice
    try:
        yield Terminal(fd, pid)
    finally:
        os.close(fd)


def test_a_terminal_has_a_prompt_a_size_and_job_control(room: SshRoom) -> None:
    with terminal(room, room.name) as screen:
        screen.until(rb"\$ ")
        screen.resize(33, 101)
        time.sleep(0.3)
        screen.type(b"stty size; echo $TERM; tty\r")
        screen.until(rb"33 101\r\n")
        screen.until(rb"xterm\r\n/dev/pts/\d+\r\n")
        screen.type(b"sleep 100\r")
        time.sleep(0.3)
        screen.type(b"\x03")
        screen.until(rb"\^C")
        screen.type(b"echo a$((1+1))c\r")
        screen.until(rb"a2c\r\n")
        screen.type(b"exit 9\r")
        assert screen.end() == 9


def test_only_a_shell_at_a_terminal_says_that_the_desk_has_no_network_access(room: SshRoom) -> None:
    with terminal(room, room.name) as screen:
        screen.until(rb"This desk has no network access\. To reach a host, .*\r\n")
        screen.type(b"exit\r")
        assert screen.end() == 0
    done = [room.ssh("-T", stdin=b"echo only\n"), room.ssh("-tt", "--", "echo only"), room.ssh("--", "echo only")]
    assert [each.stdout.replace(b"\r", b"") for each in done] == [b"only\n"] * 3
    assert [each.stderr for each in (done[0], done[2])] == [b"", b""]


def test_disconnecting_ends_a_program_at_a_terminal_but_not_detached_ones(room: SshRoom) -> None:
    room.ssh("--", "cat > /tmp/hang-up.py", stdin=HANG_UP.encode())
    with terminal(room, "-t", room.name, "setsid nohup sleep 4711 >/dev/null & python3 /tmp/hang-up.py") as screen:
        screen.until(rb"up\r\n")
        os.kill(screen.pid, signal.SIGKILL)
        os.waitpid(screen.pid, 0)
    wait_until(lambda: room.ssh("--", "test -s /tmp/hung-up").returncode == 0)
    assert room.ssh("--", "pkill -f 'sleep 471[1]'").returncode == 0


def test_disconnecting_ends_a_command_without_a_terminal(room: SshRoom) -> None:
    with room.running(["ssh", "-F", str(room.config), room.name, "echo up; exec sleep 4712"]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
    wait_until(lambda: room.ssh("--", "pgrep -f 'sleep 471[2]'").returncode == 1)


# -- copies --------------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(room: SshRoom) -> Path:
    folder = room.folder / "tree"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "below").mkdir(parents=True)
    (folder / "below/data.bin").write_bytes(os.urandom(300_000))
    (folder / "with space é").write_text("text")
    (folder / "empty").touch()
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_scp_copies_both_ways(room: SshRoom, tree: Path) -> None:
    done = room.call(["scp", "-F", str(room.config), "-rp", str(tree), f"{room.name}:copied"])
    assert done.returncode == 0, done.stderr
    done = room.call(["scp", "-F", str(room.config), "-rp", f"{room.name}:copied", "back"])
    assert done.returncode == 0, done.stderr
    assert contents(room.folder / "back") == contents(tree)
    assert (room.folder / "back/run.sh").stat().st_mode & 0o777 == 0o755


def test_scp_names_a_missing_file(room: SshRoom) -> None:
    done = room.call(["scp", "-F", str(room.config), f"{room.name}:nowhere", "."])
    assert (done.returncode, b"No such file" in done.stderr) == (1, True), done.stderr


def test_common_sftp_operations_work(room: SshRoom, tree: Path) -> None:
    lines = ["mkdir s", "put tree/empty s/a", "rename s/a s/b", "symlink b s/link", "ln s/b s/hard",
             "chmod 640 s/b", "ls -l s", "cd s", "pwd", "get b fetched", "rm link",
             "rm hard", "rm b", "cd ..", "rmdir s", "-get nowhere"]  # fmt: skip
    done = room.call(["sftp", "-F", str(room.config), "-b", "-", room.name], "\n".join(lines).encode())
    said = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert "Remote working directory: /home/user/s" in said
    assert re.search(r"-rw-r----- 1 1000 +1000 +0 .* b\n", said), said
    assert re.search(r"lrwxrwxrwx .* link\n", said), said
    assert (room.folder / "fetched").read_bytes() == b""


def test_a_large_folder_is_listed_whole(room: SshRoom) -> None:
    room.ssh("--", "mkdir -p many && cd many && seq -f 'entry-%04g' 1 2500 | xargs touch")
    done = room.call(["sftp", "-F", str(room.config), "-b", "-", room.name], b"ls -1 many\n")
    assert len(re.findall(rb"many/entry-\d{4}", done.stdout)) == 2500


def test_rsync_copies_both_ways_and_again_only_what_changed(room: SshRoom, tree: Path) -> None:
    remote = bring_rsync(room)
    argv = ["rsync", "-a", "--stats", "-e", f"ssh -F {room.config}", f"--rsync-path={remote}"]
    assert (done := room.call([*argv, f"{tree}/", f"{room.name}:synced/"])).returncode == 0, done.stderr
    (tree / "empty").write_text("no more")
    again = room.call([*argv, f"{tree}/", f"{room.name}:synced/"])
    assert b"Number of regular files transferred: 1\n" in again.stdout, again.stderr
    assert (done := room.call([*argv, f"{room.name}:synced/", "synced/"])).returncode == 0, done.stderr
    assert contents(room.folder / "synced") == contents(tree)


def bring_rsync(room: SshRoom) -> str:
    """Copy this machine's rsync into the desk, whose image has none; return the command that starts it."""
    program = shutil.which("rsync")
    assert program is not None, "`make test-tools` installs rsync"
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    needed = re.findall(r"(lib(?:popt|xxhash|acl|lz4|zstd|z|crypto)\.so\.\d+) => (\S+)", listed)
    paths = [program, *(path for _, path in needed)]
    room.ssh("--", "mkdir -p /tmp/rsync")
    done = room.call(["scp", "-q", "-F", str(room.config), *paths, f"{room.name}:/tmp/rsync/"])
    assert done.returncode == 0, done.stderr
    room.ssh("--", "chmod +x /tmp/rsync/rsync")
    return "LD_LIBRARY_PATH=/tmp/rsync /tmp/rsync/rsync"


# -- ports ---------------------------------------------------------------------------------------------------------


def test_a_forwarded_port_leads_to_the_desk(room: SshRoom) -> None:
    local = free_port()
    with room.port() as inside:
        argv = ["ssh", "-F", str(room.config), "-N", "-L", f"{local}:localhost:{inside}", room.name]
        with room.running(argv):
            wait_until(lambda: is_open(local))
            assert [converse(local) for _ in range(5)] == [b"hello[end]"] * 5


def test_large_data_passes_a_forwarded_port(room: SshRoom) -> None:
    local, data = free_port(), os.urandom(3 * MIB)
    with room.port() as inside:
        argv = ["ssh", "-F", str(room.config), "-N", "-L", f"{local}:localhost:{inside}", room.name]
        with room.running(argv):
            wait_until(lambda: is_open(local))
            with socket.create_connection(("127.0.0.1", local), timeout=20) as sock:
                assert exchange(sock, data) == data


def exchange(sock: socket.socket, data: bytes) -> bytes:
    """Send everything while reading; return the reply, without the final message."""
    sock.setblocking(False)
    sent, said = 0, b""
    while not said.endswith(b"[end]") or sent < len(data):
        readable, writable, _ = select.select([sock], [sock] if sent < len(data) else [], [], 20)
        assert readable or writable
        if writable:
            sent += sock.send(data[sent : sent + 65536])
            if sent == len(data):
                sock.shutdown(socket.SHUT_WR)
        if readable:
            part = sock.recv(65536)
            if not part:
                break
            said += part
    return said.removesuffix(b"[end]")


def ask_socks(port: int, host: str, target: int) -> tuple[int, socket.socket]:
    """Ask a SOCKS proxy for a connection; return its reply code and the socket."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=20)
    sock.sendall(b"\5\1\0")
    assert sock.recv(2) == b"\5\0"
    sock.sendall(b"\5\1\0\3" + bytes((len(host),)) + host.encode() + target.to_bytes(2, "big"))
    answer = sock.recv(10)
    return (answer[1] if len(answer) > 1 else -1), sock


def test_a_socks_proxy_reaches_the_desk_and_nothing_else(room: SshRoom) -> None:
    local = free_port()
    with room.port() as inside, room.running(["ssh", "-F", str(room.config), "-N", "-D", str(local), room.name]):
        wait_until(lambda: is_open(local))
        for host in ("localhost", "127.0.0.1", room.name):
            code, sock = ask_socks(local, host, inside)
            with sock:
                sock.sendall(b"hello")
                sock.shutdown(socket.SHUT_WR)
                assert (code, read_all(sock)) == (0, b"hello[end]")
        for host in ("example.com", "192.0.2.1", "10.0.0.1", "169.254.169.254"):
            code, sock = ask_socks(local, host, inside)
            with sock:
                assert code != 0, host


def test_a_port_without_a_listener_is_reported_by_ssh(room: SshRoom) -> None:
    done = room.ssh("-W", "localhost:9")
    assert (done.returncode, b"nothing listens on port 9" in done.stderr) == (255, True), done.stderr


def test_ports_for_the_desk_to_call_are_refused(room: SshRoom) -> None:
    done = room.ssh("-R", "8081:localhost:22", "--", "echo on")
    assert (done.returncode, done.stdout) == (0, b"on\n")
    assert b"hotdesk: remote forwarding (-R) is refused" in done.stderr
    assert room.ssh("-o", "ExitOnForwardFailure=yes", "-R", "8081:localhost:22", "--", "echo on").returncode == 255


def test_the_ssh_agent_is_not_forwarded(room: SshRoom) -> None:
    path = str(room.folder / "agent")
    with room.running(["ssh-agent", "-D", "-a", path]):
        wait_until(lambda: Path(path).exists())
        room.env["SSH_AUTH_SOCK"] = path
        try:
            done = room.ssh("-A", "--", 'echo "[$SSH_AUTH_SOCK]"')
        finally:
            del room.env["SSH_AUTH_SOCK"]
    assert done.stdout == b"[]\n"
    assert b"agent forwarding is refused" in done.stderr


# -- long-lived channels --------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_channel_stays_open(room: SshRoom) -> None:
    argv = ["ssh", "-F", str(room.config), "-o", "ServerAliveInterval=1", room.name, "cat"]
    with room.running(argv) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(4):
            process.stdin.write(b"%d\n" % number)
            assert process.stdout.readline() == b"%d\n" % number
            time.sleep(1.2)
        process.stdin.close()
        assert process.wait(20) == 0


def test_one_connection_carries_many_sessions(room: SshRoom) -> None:
    path = str(room.folder / "master")
    with room.running(["ssh", "-F", str(room.config), "-M", "-N", "-S", path, room.name]) as master:
        wait_until(lambda: Path(path).exists())
        share = ["ssh", "-F", str(room.config), "-S", path, room.name]
        started = [
            subprocess.Popen([*share, f"sleep 0.5; echo {number}"], stdout=subprocess.PIPE, env=room.environment())
            for number in range(20)
        ]
        assert [each.communicate(timeout=30)[0] for each in started] == [b"%d\n" % number for number in range(20)]
        assert master.poll() is None
        room.call(["ssh", "-F", str(room.config), "-S", path, "-O", "exit", room.name])
        assert master.wait(20) in (0, 255)


def test_a_burnt_desk_ends_its_sessions(settings: Config) -> None:
    with (
        ssh_room(settings) as room,
        room.running(["ssh", "-F", str(room.config), room.name, "echo up; cat"]) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"up\n"
        room.hotdesk("burn", room.desk)
        assert process.wait(20) == 255
        assert b"the desk closed the connection" in process.stderr.read()


# -- hotdesk forward -----------------------------------------------------------------------------------------------


@contextmanager
def forwarding(room: SshRoom, *argv: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Forward a port; yield its local number, and the process."""
    with room.running([*HOTDESK, "forward", room.desk, *argv]) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        match = re.match(rb"Forwarding (?:127\.0\.0\.1|\[::1\]):(\d+) to port \d+ of ", line)
        assert match, line + process.stderr.read()
        yield int(match[1]), process


def test_a_desks_port_is_forwarded_to_a_local_address(room: SshRoom) -> None:
    with room.port() as inside, forwarding(room, str(inside), "--listen", "0") as (local, _):
        assert [converse(local) for _ in range(3)] == [b"hello[end]"] * 3
        data = os.urandom(2 * MIB)
        with socket.create_connection(("127.0.0.1", local), timeout=20) as sock:
            assert exchange(sock, data) == data


def test_a_desks_port_is_forwarded_to_a_local_ipv6_address(room: SshRoom) -> None:
    with (
        room.port() as inside,
        forwarding(room, str(inside), "--listen", "[::1]:0") as (local, _),
        socket.create_connection(("::1", local), timeout=20) as sock,
    ):
        sock.shutdown(socket.SHUT_WR)
        assert read_all(sock) == b"[end]"


def test_a_forwarded_port_without_a_listener_is_reported_and_stays(room: SshRoom) -> None:
    with forwarding(room, "9", "--listen", "0") as (local, process):
        assert converse(local) == b""
        assert process.stderr is not None
        assert b"nothing listens on port 9" in process.stderr.readline()
        assert process.poll() is None


@pytest.mark.long
def test_a_forwarded_port_ends_with_its_desk(settings: Config) -> None:
    with ssh_room(settings) as room, forwarding(room, "9", "--listen", "0") as (_, process):
        room.hotdesk("burn", room.desk)
        assert process.wait(20) == 125


def test_a_port_that_is_taken_is_reported(room: SshRoom) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        done = room.hotdesk("forward", room.desk, "9", "--listen", str(taken))
    assert (done.returncode, b"choose another with --listen" in done.stderr) == (125, True), done.stderr


@pytest.mark.sample(2)
@pytest.mark.parametrize("argv", [("0",), ("65536",), ("x",), ("9", "--listen", "x"), ("9", "--listen", "host:1")])
def test_an_invalid_port_or_address_is_refused(room: SshRoom, argv: tuple[str, ...]) -> None:
    assert room.hotdesk("forward", room.desk, *argv).returncode == 125
