"""One bash that lives on between commands.

How it works: an interactive bash without a terminal, so that an interrupt ends a command and not the shell, reads lines
from a pipe. Each command is three lines: one says that it begins, one runs it with nothing on its standard input, one
says how it ended and where the shell is. The words that say so are unguessable and new for every command, and go out by
a descriptor of their own: output without a newline, or turned elsewhere for good, hides nothing, and what looks like
the end of a command is not. A shell that ends says so too, for a job it leaves behind may hold its output open.
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
"""The descriptor our words go out by."""
SETUP = (
    f"exec 2>&1 {WORD}>&1; set +H +o history; unset HISTFILE MAILCHECK; PS1= PS2= "
    "PROMPT_COMMAND='{{ PS1= PS2=; }} 2>/dev/null'; trap {trap} EXIT\n"
)
ENDING = re.compile(rb" (\d{1,3}) ([^\x1e]{0,8192})\x1e")
_ENDING_LIMIT = 9000
HALF = 16
"""Characters of half a word."""
_INTERRUPT_SECONDS = 3.0
"""How long an interrupted command may take to end, before the session is given up."""
_LET_GO_SECONDS = 1.0
_SETTLE_SECONDS = 0.2
"""Seconds to wait for an interrupted shell before asking it a second time to report that it reads again."""
_KILL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """The result of a command, by the desk's word."""

    output: BoundedOutput
    exit_code: int | None = None
    """None: it did not end."""
    cwd: str = ""
    timed_out: bool = False
    lives: bool = True
    """Whether the session lives on."""
    began: bool = True
    """Whether the shell began to run it, or was killed on purpose before: it must not be run again."""


class Hearing:
    """Finds our words in what a shell says; sans I/O."""

    def __init__(self, begin: str, end: str, gone: str, keeps: bool = True) -> None:
        self.begin = f"\x1e{begin}\x1e".encode()
        self.ends = {f"\x1e{end}".encode(): True, f"\x1e{gone}".encode(): False}
        """What says that the command, or the shell, ended; and whether the shell lives on then."""
        self.keeps = keeps
        """Whether to show output of jobs since the last command, too."""
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
        """Look for the end marker; text that cannot be part of it is output."""
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
        """Count the rest as output: no end marker will come."""
        if self.began and self.ending is None:
            self.take(len(self.rest))


class BashSession:
    """One bash in a desk."""

    def __init__(self, desk: Desk, process: Process, gone: str) -> None:
        self.desk = desk
        self.process = process
        self.gone = gone
        """What the shell says when it ends."""
        self.fresh = True
        """Whether it has run nothing yet: what bash says until then is that it has no terminal."""
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
        """Run a line in it; cancelling interrupts the line, and the session lives on."""
        try:
            return await self.attempt(command, timeout)
        except anyio.get_cancelled_exc_class():
            await self.let_go()
            raise
        except BaseException:
            await self.kill()
            raise

    async def let_go(self) -> None:
        """Interrupt an abandoned line; in a frozen desk, before the next line."""
        self.unsettled = True
        if self.sending:  # half a line was sent: there is no telling what the next would mean
            await self.kill()
            return
        with anyio.move_on_after(_LET_GO_SECONDS, shield=True):
            await self.interrupt()

    async def attempt(self, command: str, timeout: float) -> CommandOutcome:
        """Run a line; when its time is up, interrupt it as Ctrl+C does; when that does not help, end the session."""
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
        """Give the shell lines to run, once it runs nothing else."""
        if self.unsettled:
            await self.settle()
            self.unsettled = False
        self.sending = True
        await self.process.send(text.encode())
        self.sending = False

    async def settle(self) -> None:
        """Interrupt an abandoned line and wait until the shell reads again: it may lose a line to the interrupt."""
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
        """Interrupt what runs in the foreground; what runs in the background was started deaf to it."""
        await self.desk.run(["bash", "-c", f"kill -INT -- -{self.process.pid}"], timeout=_INTERRUPT_SECONDS)

    async def kill(self) -> None:
        """Kill it with everything it started; commands that wait get an error."""
        self.killed = True
        if self.waiting is not None:
            self.waiting.cancel()
        with anyio.move_on_after(_KILL_SECONDS, shield=True):
            await self.process.kill()


def _get_clock(desk: Desk) -> DeskClock:
    """Return the desk's own time, which stops while a person drives."""
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
    """Write a word in two, so that a trace of the shell does not show it whole."""
    return f"{word[:HALF]} {word[HALF:]}"
