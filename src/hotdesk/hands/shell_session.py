"""One bash that persists between commands.

It is an interactive bash without a terminal, so that an interrupt ends a command and not the shell, and it reads lines
from a pipe. Each command is three lines: the first prints a begin marker, the second runs the command with empty
standard input, the third prints an end marker with exit code and working directory. The markers are unguessable and new
for every command, and use a file descriptor of their own, so that output without a newline or redirected for good does
not hide them, and no output can imitate them. A shell that exits prints a marker too, because a background job may keep
its output open.
"""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Mapping

import anyio

from hotdesk.dataclass import dataclass
from hotdesk.desk.link.clock import DeskClock
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.seam import Desk, Process
from hotdesk.errors import DeskError
from hotdesk.hands.output import BoundedOutput

ARGV = ("bash", "--noprofile", "--norc", "--noediting", "+m", "-i")
WORD = 213
"""The file descriptor for markers."""
SETUP = (
    f"exec 2>&1 {WORD}>&1; set +H +o history; unset HISTFILE MAILCHECK; PS1= PS2= "
    "PROMPT_COMMAND='{{ PS1= PS2=; }} 2>/dev/null'; trap {trap} EXIT\n"
)
ENDING = re.compile(rb" (\d{1,3}) ([^\x1e]{0,8192})\x1e")
_ENDING_LIMIT = 9000
HALF = 16
"""Characters of half a marker."""
_INTERRUPT_SECONDS = 3.0
"""Seconds an interrupted command may take to end before the session is killed."""
_LET_GO_SECONDS = 1.0
_SETTLE_SECONDS = 0.2
"""Seconds to wait for an interrupted shell before asking it again to report that it reads."""
_KILL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """The result of a command, as the desk reports it."""

    output: BoundedOutput
    exit_code: int | None = None
    """`None` if the command did not end."""
    cwd: str = ""
    timed_out: bool = False
    lives: bool = True
    """Whether the session continues."""
    began: bool = True
    """Whether the command began, or the session was killed on purpose: then it must not be run again."""


class Hearing:
    """Finds our markers in a shell's output; without I/O."""

    def __init__(self, begin: str, end: str, gone: str, keeps: bool = True) -> None:
        self.begin = f"\x1e{begin}\x1e".encode()
        self.ends = {f"\x1e{end}".encode(): True, f"\x1e{gone}".encode(): False}
        """The markers of the command's end and of the shell's exit; the value is whether the shell continues."""
        self.keeps = keeps
        """Whether output of background jobs since the last command is included."""
        self.output = BoundedOutput()
        self.rest = bytearray()
        self.began = False
        self.ending: tuple[int, str] | None = None
        self.lives = False

    def feed(self, data: bytes) -> None:
        self.rest += data
        if not self.began:
            before, found, after = self.rest.partition(self.begin)
            self.began = bool(found)
            before, self.rest = (before, after) if found else _split_end(self.rest, len(self.begin))
            if self.keeps:
                self.output.add(before)
        if self.began and self.ending is None:
            self.look()

    def look(self) -> None:
        """Search for an end marker; text that cannot be part of one is output."""
        found = [(place, word) for word in self.ends if (place := self.rest.find(word)) >= 0]
        place, word = min(found, default=(len(self.rest) - 2 * HALF - 1, b""))
        self.take(max(0, place))
        if not word:
            return
        if match := ENDING.match(self.rest, len(word)):
            self.ending = int(match[1]) & 255, match[2].decode("utf-8", "replace")
            self.lives = self.ends[word]
        elif len(self.rest) > _ENDING_LIMIT:
            self.ending = 255, "?"

    def take(self, size: int) -> None:
        self.output.add(self.rest[:size])
        del self.rest[:size]

    def finish(self) -> None:
        """Treat the rest as output, because no end marker will come."""
        if self.began and self.ending is None:
            self.take(len(self.rest))


class BashSession:
    def __init__(self, desk: Desk, process: Process, gone: str) -> None:
        self.desk = desk
        self.process = process
        self.gone = gone
        """The marker that the shell prints when it exits."""
        self.fresh = True
        """Whether no command ran yet: until then, bash only prints that it has no terminal."""
        self.unsettled = False
        """Whether the caller of the last command left before it ended."""
        self.sending = False
        self.killed = False
        self.waiting: anyio.CancelScope | None = None

    @classmethod
    async def start(cls, desk: Desk, env: Mapping[str, str]) -> BashSession:
        process = await desk.start(ARGV, env=env)
        if process.pid == 0:
            raise DeskError(f"desk {desk.id} has no bash")
        gone = new_word()
        await process.send(SETUP.format(trap=shlex.quote(_say_ending(gone))).encode())
        return cls(desk, process, gone)

    async def run(self, command: str, timeout: float) -> CommandOutcome:
        """Run a command; cancelling interrupts the command, and the session continues."""
        try:
            return await self.attempt(command, timeout)
        except anyio.get_cancelled_exc_class():
            await self.let_go()
            raise
        except BaseException:
            await self.kill()
            raise

    async def let_go(self) -> None:
        """Interrupt a command whose caller left; in a frozen desk that happens before the next command."""
        self.unsettled = True
        if self.sending:  # part of a line was sent, so the next line could mean anything
            await self.kill()
            return
        with anyio.move_on_after(_LET_GO_SECONDS, shield=True):
            await self.interrupt()

    async def attempt(self, command: str, timeout: float) -> CommandOutcome:
        """Run a command; interrupt it at its timeout as Ctrl+C does; if that does not end it, kill the session."""
        begin, end = new_word(), new_word()
        hearing = Hearing(begin, end, self.gone, keeps=not (self.fresh or self.unsettled))
        self.fresh = False
        clock = _get_clock(self.desk)
        with clock.until(clock.get_time() + timeout) as self.waiting:
            await self.send(_build_script(command, begin, end))
            await self.listen(hearing)
        late = self.waiting.cancelled_caught and not self.killed
        if late:
            with anyio.move_on_after(_INTERRUPT_SECONDS) as self.waiting:
                await self.interrupt()
                await self.listen(hearing)
        hearing.finish()
        began = hearing.began or self.killed
        if not hearing.lives:
            await self.kill()
        code, cwd = hearing.ending or (None, "")
        return CommandOutcome(hearing.output, code, cwd, late, hearing.lives, began)

    async def send(self, text: str) -> None:
        """Send lines to the shell, once it runs nothing else."""
        if self.unsettled:
            await self.settle()
            self.unsettled = False
        self.sending = True
        await self.process.send(text.encode())
        self.sending = False

    async def settle(self) -> None:
        """Interrupt an abandoned command and wait until the shell reads again: the interrupt may discard a line."""
        await self.interrupt()
        word, patience = new_word(), _SETTLE_SECONDS
        hearing = Hearing(word, new_word(), self.gone, keeps=False)
        while not hearing.began:
            await self.process.send(_say_beginning(word).encode())
            with anyio.move_on_after(patience) as waiting:
                await self.listen(hearing, to_begin=True)
            if not waiting.cancelled_caught:
                return
            patience *= 2

    async def listen(self, hearing: Hearing, *, to_begin: bool = False) -> None:
        """Read from the shell until the command has begun or ended, or the shell itself has ended."""
        output = self.process.output()
        try:
            async for _, data in output:
                hearing.feed(data)
                if hearing.ending is not None or (to_begin and hearing.began):
                    return
        finally:
            await output.aclose()  # type: ignore[attr-defined]

    async def interrupt(self) -> None:
        """Interrupt the foreground command; background jobs ignore the interrupt."""
        await self.desk.run(["bash", "-c", f"kill -INT -- -{self.process.pid}"], timeout=_INTERRUPT_SECONDS)

    async def kill(self) -> None:
        """Kill the shell and everything it started, and end a command that is running in it."""
        self.killed = True
        if self.waiting is not None:
            self.waiting.cancel()
        with anyio.move_on_after(_KILL_SECONDS, shield=True):
            await self.process.kill()


def _get_clock(desk: Desk) -> DeskClock:
    """Return the desk's own clock, which stops while a person has control."""
    return desk.link.clock if isinstance(desk, LinkedDesk) else DeskClock()


def _split_end(data: bytearray, size: int) -> tuple[bytearray, bytearray]:
    place = max(0, len(data) - size)
    return data[:place], data[place:]


def _build_script(command: str, begin: str, end: str) -> str:
    """Return a script that runs a command and marks its begin and end."""
    return f"{_say_beginning(begin)}\\builtin eval -- {shlex.quote(command)} </dev/null\n{_say_ending(end)}\n"


def _say_beginning(word: str) -> str:
    return f"{{ \\builtin printf '\\036%s%s\\036' {_split_word(word)} >&{WORD}; }} 2>/dev/null\n"


def _say_ending(word: str) -> str:
    return f'{{ \\builtin printf \'\\036%s%s %d %s\\036\' {_split_word(word)} "$?" "$PWD" >&{WORD}; }} 2>/dev/null'


def new_word() -> str:
    return secrets.token_hex(HALF)


def _split_word(word: str) -> str:
    """Split a marker in two, so that a trace of the shell does not contain it."""
    return f"{word[:HALF]} {word[HALF:]}"
