"""A program that the guest started: its pipes, its recent output, its exit."""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs a desk 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Ask = dict[str, Any]
    Steps = Iterator[tuple[int, bytes]]

import _signal  # type: ignore[import-not-found]
import errno
import fcntl
import posix
import sys
import time
from _stat import S_ISREG

from hotdesk_guest.wire import CHUNK, OVERHEAD, STDERR, STDOUT, STEP, WINDOW, compute_cost

MARK = "HOTDESK_PROCESS"
"""The variable that marks a program and its descendants, so that a timeout also finds those that left its session."""
TREE_ROUNDS = 20
READ_BYTES = 1 << 15
ENCODING = sys.getfilesystemencoding()
ENVIRONMENT = {
    key.decode(ENCODING, "surrogateescape"): value.decode(ENCODING, "surrogateescape")
    for key, value in posix.environ.items()
}
HOME = ENVIRONMENT.get("HOME", "/")
NOTHING = posix.open("/dev/null", posix.O_RDONLY)
MARKS = posix.urandom(8).hex()
found_programs: dict[tuple[str, str], str] = {}
"""Paths of programs as last found; checked again before use."""
DEFAULT_PATH = "/bin:/usr/bin"
TIOCSWINSZ = 0x5414
TIOCGPGRP = 0x540F
END_OF_FILE = b"\x04"
signals_terminals = False
"""Whether this guest sends programs the signals of terminals (size changed, closed), which gVisor's kernel does not."""
kills = -1
"""The kernel's count of out-of-memory kills when last read; -1 if the host counts them."""
LINE_ENDS = (b"", b"\n", b"\r", END_OF_FILE)


class GuestProcess:
    """A program, from posix_spawn until its exit is no longer kept for late followers."""

    count = 0

    def __init__(self, ask: Ask) -> None:
        check(ask)
        self.argv = ask["argv"]
        GuestProcess.count += 1
        self.mark = "%s-%d" % (MARKS, GuestProcess.count)
        self.followers: dict[int, Any] = {}
        self.polled: set[int] = set()
        self.pending: list[tuple[int, bytes]] = []
        self.typed = b""
        """The last byte of its input so far."""
        self.recent: list[bytes] = []
        self.recent_size = 0
        self.ending = False
        self.status: int | None = None
        self.over = False
        self.timed_out = False
        self.starved = False
        """Whether it failed after the kernel killed a process for lack of memory."""
        self.ended = 0.0
        self.error: OSError | None = None
        self.pid = 0
        self.stdin = self.stdout = self.stderr = self.feeding = -1
        timeout = ask.get("timeout")
        self.due = None if timeout is None else time.monotonic() + timeout / 1000
        environment = dict(ENVIRONMENT)
        environment.update(ask.get("env") or {})
        environment[MARK] = self.mark
        self.terminal = "pty" in ask
        if self.terminal:
            self.start_in_terminal(environment, ask.get("cwd"), ask["pty"])
        else:
            self.start(environment, ask.get("cwd"), bool(ask.get("stdin")))

    def start(self, environment: dict[str, str], cwd: str | None, stdin: bool) -> None:
        """Spawn it with pipes. If it cannot start, `error` is set."""
        out_r, out_w = posix.pipe()
        err_r, err_w = posix.pipe()
        in_r, in_w = posix.pipe() if stdin else (NOTHING, -1)
        places = [(posix.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate((in_r, out_w, err_w))]
        self.spawn(environment, cwd, places)
        posix.close(out_w)
        posix.close(err_w)
        if stdin:
            posix.close(in_r)
        self.hold(in_w, out_r, err_r)

    def start_in_terminal(self, environment: dict[str, str], cwd: str | None, size: list[int]) -> None:
        """Spawn it with a terminal, which becomes the controlling one because the leader of a session opens it."""
        ours, theirs = posix.openpty()
        self.stdout = ours
        self.resize(size)
        places = [
            (posix.POSIX_SPAWN_OPEN, 0, posix.ttyname(theirs), posix.O_RDWR, 0),
            (posix.POSIX_SPAWN_DUP2, 0, 1),
            (posix.POSIX_SPAWN_DUP2, 0, 2),
        ]
        self.spawn(environment, cwd, places)
        posix.close(theirs)
        self.hold(posix.dup(ours), ours, -1)

    def hold(self, stdin: int, stdout: int, stderr: int) -> None:
        """Keep the guest's ends of its streams, or close them if it did not start."""
        streams = [fd for fd in (stdin, stdout, stderr) if fd >= 0]
        if self.error is not None:
            self.stdout = -1
            for fd in streams:
                posix.close(fd)
            return
        for fd in streams:
            posix.set_blocking(fd, False)
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.feeding = stdin
        offer(self.pid)

    def spawn(self, environment: dict[str, str], cwd: str | None, places: list[Any]) -> None:
        """Start it in its folder; keep the error if that fails."""
        try:
            posix.chdir(cwd if cwd and cwd[0] == "/" else "%s/%s" % (HOME, cwd or ""))
        except OSError as e:
            self.error = OSError(e.errno, "working folder %r: %s" % ((cwd or "")[:200], e.strerror))
            return
        try:
            self.pid = spawn(self.argv, environment, places)
        except OSError as e:
            self.error = e

    def resize(self, size: list[int]) -> None:
        if self.terminal and self.stdout >= 0:
            fcntl.ioctl(self.stdout, TIOCSWINSZ, b"".join(n.to_bytes(2, sys.byteorder) for n in (*size, 0, 0)))
            if signals_terminals and self.pid:
                self.signal_terminal(_signal.SIGWINCH)

    def hang_up(self) -> None:
        if signals_terminals and self.terminal:
            self.signal_terminal(_signal.SIGHUP)

    def signal_terminal(self, number: int) -> None:
        """Signal the foreground group of its terminal, but never the guest's own, whatever the terminal reports."""
        try:
            group = int.from_bytes(fcntl.ioctl(self.stdout, TIOCGPGRP, bytes(4)), sys.byteorder)
        except (OSError, ValueError):
            group = self.pid  # its terminal is already closed
        try:
            posix.killpg(group if group > 1 and group != posix.getpgrp() else self.pid, number)
        except OSError:
            pass  # it has ended

    def open_outputs(self) -> list[int]:
        return [fd for fd in (self.stdout, self.stderr) if fd >= 0]

    def measure_room(self) -> int:
        return min((channel.credit for channel in self.followers.values()), default=STEP) - OVERHEAD - 1

    def read(self, fd: int) -> bytes | None:
        """Read its output, prefixed by the stream's number; return `None` if there is none yet, and b"" at the end."""
        try:
            data = posix.read(fd, min(CHUNK, self.measure_room()))
        except BlockingIOError:
            return None
        except OSError:
            return b""
        if not data:
            return b""
        message = bytes((STDOUT if fd == self.stdout else STDERR,)) + data
        self.recent.append(message)
        self.recent_size += compute_cost(message)
        while self.recent_size > WINDOW - STEP:
            self.recent_size -= compute_cost(self.recent.pop(0))
        return message

    def close_output(self, fd: int) -> None:
        posix.close(fd)
        if fd == self.stdout:
            self.stdout = -1
        else:
            self.stderr = -1

    def feed(self) -> list[tuple[int, int]]:
        """Write as much to its standard input as it takes; return the bytes consumed, by channel."""
        consumed = []
        while self.pending:
            number, data = self.pending[0]
            if self.stdin < 0:  # it no longer reads
                consumed.append((number, len(data)))
                self.pending.pop(0)
                continue
            try:
                written = posix.write(self.stdin, data)
            except BlockingIOError:
                break
            except OSError:
                self.close_stdin()
                continue
            consumed.append((number, written))
            if written == len(data):
                self.pending.pop(0)
            else:
                self.pending[0] = (number, data[written:])
        if self.ending and not self.pending:
            self.close_stdin()
        return consumed

    def end_input(self) -> None:
        """Close its input after the rest is read; at a terminal by the end-of-file character, twice within a line."""
        self.ending = True
        if self.terminal:
            self.pending.append((0, END_OF_FILE if self.typed in LINE_ENDS else END_OF_FILE * 2))

    def close_stdin(self) -> None:
        if self.stdin >= 0:
            posix.close(self.stdin)
            self.stdin = -1

    def signal(self, number: int) -> None:
        if self.status is None:
            try:
                posix.kill(self.pid, number)
            except OSError:
                pass

    def end(self) -> None:
        self.close_stdin()
        self.over = True
        self.ended = time.monotonic()
        if self.status and kills >= 0:
            self.starved = _has_killed()

    def describe_outcome(self) -> dict[str, object]:
        """Describe its exit, without fields that have their usual value."""
        if self.error is not None:
            code = 127 if self.error.errno in (errno.ENOENT, errno.ENOTDIR) else 126
            return {"code": code, "text": self.error.strerror}
        status = self.status or 0
        if not posix.WIFSIGNALED(status):
            result: dict[str, object] = {"code": posix.WEXITSTATUS(status)}
        else:
            result = {"code": 128 + posix.WTERMSIG(status), "signal": posix.WTERMSIG(status)}
        if self.timed_out:
            result["timed_out"] = True
        if self.starved:
            result["starved"] = True
        return result

    def describe(self) -> dict[str, object]:
        argv = [text[:256] for text in self.argv[:16]]
        return {"pid": self.pid, "argv": argv, "code": self.describe_outcome()["code"] if self.over else None}


def check(ask: Ask) -> None:
    """Refuse an invalid request before anything is opened for it."""
    texts = [ask.get("cwd") or "", *ask["argv"]]
    for pair in (ask.get("env") or {}).items():
        texts.extend(pair)
    if not isinstance(ask["argv"], list) or not ask["argv"] or not all(isinstance(text, str) for text in texts):
        raise ValueError(
            "a program must be a list of strings, and its environment variables and working folder must be strings"
        )
    if any("\0" in text for text in texts):
        raise ValueError("a program's arguments, environment variables and working folder must not contain a NUL byte")
    if "pty" in ask:
        rows, columns = ask["pty"]
        if not 0 < rows < 1 << 16 or not 0 < columns < 1 << 16:
            raise ValueError("a terminal must have 1 to 65535 rows and columns")


def find_program(name: str, path: str) -> str:
    """Find a program along PATH like a shell; a failed spawn would cost more than the search."""
    if "/" in name:
        return name
    found = found_programs.get((name, path))
    if found is not None and posix.access(found, posix.X_OK):
        return found
    found = None
    for place in path.split(":"):
        candidate = "%s/%s" % (place or ".", name)
        if is_file(candidate):
            if posix.access(candidate, posix.X_OK):
                if len(found_programs) < 1024:
                    found_programs[(name, path)] = candidate
                return candidate
            found = found or candidate
    if found is None:
        raise OSError(errno.ENOENT, "not found")
    return found


def is_file(path: str) -> bool:
    try:
        return S_ISREG(posix.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def spawn(argv: list[str], environment: dict[str, str], places: list[Any]) -> int:
    """Start a program, found along PATH, in a session of its own; return its pid."""
    try:
        return posix.posix_spawn(
            find_program(argv[0], environment.get("PATH", DEFAULT_PATH)),
            argv,
            environment,
            file_actions=places,
            setsid=True,
            setsigmask=(),
            setsigdef=(_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGINT, _signal.SIGQUIT),
        )
    except OSError as e:
        raise OSError(e.errno, "%s: %s" % (argv[0][:200], e.strerror)) from None
    except ValueError as e:
        raise OSError(errno.EINVAL, str(e)) from None


def offer(pid: int) -> None:
    """Make the kernel kill a program before its guest when memory is short."""
    try:
        fd = posix.open("/proc/%d/oom_score_adj" % pid, posix.O_WRONLY)
        posix.write(fd, b"700")
        posix.close(fd)
    except OSError:
        pass  # it has already ended


def _has_killed() -> bool:
    """Return whether the kernel killed a process for lack of memory since the last call."""
    global kills
    before = kills
    with open("/proc/vmstat", "rb") as file:
        for line in file:
            if line.startswith(b"oom_kill "):
                kills = int(line[9:])
    return kills > before


def kill_tree(leader: int, mark: str, alive: bool) -> int:
    """Kill a program and its descendants, found by parent, session and inherited mark; return the number of rounds."""
    marked = ("%s=%s" % (MARK, mark)).encode()
    for number in range(TREE_ROUNDS):
        time.sleep(number / 1000)  # on a busy machine killed processes need a moment to disappear
        parents, sessions = _survey()
        doomed = {pid for pid, session in sessions.items() if session == leader}
        if alive and (leader in parents or not number):  # a zombie accepts every signal, and only the guest can reap it
            doomed.add(leader)
        grown = True
        while grown:
            more = {pid for pid, parent in parents.items() if parent in doomed and pid not in doomed}
            doomed |= more
            grown = bool(more)
        doomed |= {pid for pid in parents if pid not in doomed and marked in _read_environment(pid)}
        doomed.discard(posix.getpid())
        killed = 0
        # The leader first: a shell whose child is killed exits with 137 by itself, and the leader's signal would be
        # lost.
        for pid in sorted(doomed, key=leader.__ne__):
            try:
                posix.kill(pid, _signal.SIGKILL)
                killed += 1
            except OSError:
                continue
        if not killed:
            return number + 1
    return TREE_ROUNDS


def _survey() -> tuple[dict[int, int], dict[int, int]]:
    """Return the parent and the session of every process that is not a zombie."""
    parents, sessions = {}, {}
    for name in posix.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fields = _read_whole("/proc/%s/stat" % name).rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] not in (b"Z", b"X"):
            parents[int(name)], sessions[int(name)] = int(fields[1]), int(fields[3])
    return parents, sessions


def _read_environment(pid: int) -> bytes:
    try:
        return _read_whole("/proc/%d/environ" % pid)
    except OSError:
        return b""


def _read_whole(path: str) -> bytes:
    """Read a file of a process, at most 1 MiB. `open` makes four more system calls, which are slow in a sentry."""
    fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        found = part = posix.read(fd, READ_BYTES)
        while part and len(found) < 1 << 20:
            part = posix.read(fd, READ_BYTES)
            found += part
        return found
    finally:
        posix.close(fd)
