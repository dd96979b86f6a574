"""A question to the person at the terminal: a card, and one line of answer.

A person cannot approve by accident: input typed before the question is discarded, an empty line is no answer, and text
from a desk or a worker cannot look like hotdesk's own. If the answer comes from elsewhere meanwhile, the prompt ends.
"""

from __future__ import annotations

import os
import select
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal, TypeAlias

import anyio
import anyio.lowlevel
import anyio.to_thread

from hotdesk.cli.board.cells import TerminalTraits, cut, measure_width, wrap
from hotdesk.dataclass import dataclass
from hotdesk.event import Pending
from hotdesk.job.event_text import WAITING
from hotdesk.job.format import format_clock
from hotdesk.job.people.wait import MAX_WORDS_CHARS, Card

TERMINAL = "/dev/tty"
_SETTLE = 0.4
"""Seconds between the card and the question; input typed meanwhile is discarded."""
MAX_FACT_CHARS = 500
"""Maximum characters of one fact."""
LINE = 4096
"""Maximum bytes of an answer."""
WIDEST, NARROWEST = 100, 20
Answer: TypeAlias = Literal["approve", "refuse", "edit", "later", "answer", "expired", "gone"]
LETTERS: dict[str, Answer] = {"a": "approve", "r": "refuse", "e": "edit", "l": "later"}
EDITED = ("plan", "amendment")
"""Kinds that can be edited before approval."""


@dataclass(frozen=True, slots=True)
class PromptOutcome:
    """The result of a prompt. `later`: postponed; `expired`: no answer in time; `gone`: answered elsewhere."""

    answer: Answer
    words: str = ""
    """Text of an `answer`."""


def open_terminal(path: str = TERMINAL) -> int | None:
    """Open the controlling terminal; return `None` if there is none. Call it before the process is confined."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if os.tcgetpgrp(fd) == os.getpgrp():
            return fd
    except OSError:
        pass  # not the foreground process of a terminal
    os.close(fd)
    return None


async def ask(terminal: int, card: Card, pending: Pending, *, look: TerminalTraits | None = None) -> PromptOutcome:
    """Ask at a terminal in a thread. Cancelling this ends the prompt at once."""
    stop, poke = os.pipe()

    async def end_when_cancelled() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            os.write(poke, b"\0")

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end_when_cancelled)
            prompt = TerminalPrompt(terminal, stop, pending.until / 1000, look or TerminalTraits())
            outcome = await anyio.to_thread.run_sync(prompt.ask, card, pending)
            tasks.cancel_scope.cancel()
    finally:
        os.close(stop)
        os.close(poke)
    await anyio.lowlevel.checkpoint_if_cancelled()  # a cancelled prompt must not return an answer
    return outcome


@dataclass(frozen=True, slots=True)
class TerminalPrompt:
    terminal: int
    stop: int
    """Becomes readable when the question no longer needs an answer."""
    until: float
    look: TerminalTraits

    def ask(self, card: Card, pending: Pending) -> PromptOutcome:
        try:
            if os.tcgetpgrp(self.terminal) != os.getpgrp():  # a background process would be stopped
                return PromptOutcome("later")
            with _line_mode(self.terminal):
                self.write(
                    "\n".join(["", *frame(card, pending, self.measure_terminal_width(), time.time(), self.look), ""])
                )
                early = self.wait(_SETTLE, typed=False)
                outcome = early or self.read_answer(pending)
                self.write(_CLOSING.get(outcome.answer, ""))
                return outcome
        except (OSError, termios.error):  # the terminal is gone, and its user with it
            return PromptOutcome("later")

    def read_answer(self, pending: Pending) -> PromptOutcome:
        text, choices = format_invitation(pending)
        while True:
            termios.tcflush(self.terminal, termios.TCIFLUSH)
            self.write(text)
            if ended := self.wait(None, typed=True):
                return ended
            line = os.read(self.terminal, LINE)
            if outcome := parse_answer(line, choices):
                return outcome
            text = f"  answer with {' or '.join(choices)}: " if choices else text

    def wait(self, seconds: float | None, *, typed: bool) -> PromptOutcome | None:
        """Wait for a line, or only for the time to pass; return an outcome if the question ends meanwhile."""
        end = self.until if seconds is None else min(time.time() + seconds, self.until)
        poll = select.poll()
        poll.register(self.stop, select.POLLIN)
        if typed:
            poll.register(self.terminal, select.POLLIN)
        while True:
            remaining = end - time.time()
            if time.time() >= self.until:
                return PromptOutcome("expired")
            if remaining <= 0:
                return None
            ready = [fd for fd, _ in poll.poll(min(remaining, 60) * 1000 + 1)]
            if self.stop in ready:
                return PromptOutcome("gone")
            if self.terminal in ready:
                return None

    def measure_terminal_width(self) -> int:
        return max(min(os.get_terminal_size(self.terminal).columns or 80, WIDEST), NARROWEST)

    def write(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        while data:
            data = data[os.write(self.terminal, data) :]


_CLOSING = {
    "gone": "\n  another person decided this request\n",
    "expired": "\n  this request has expired\n",
    "later": "  this request is still pending\n",
}


def format_invitation(pending: Pending) -> tuple[str, tuple[str, ...]]:
    """Return the question and the letters that answer it, or no letters if any text does."""
    if pending.kind == "question":
        return "  your answer, or Enter to answer later: ", ()
    letters = tuple(letter for letter in LETTERS if letter != "e" or pending.kind in EDITED)
    return f"  {'  '.join(f'[{letter}]{LETTERS[letter][1:]}' for letter in letters)}: ", letters


def parse_answer(line: bytes, letters: tuple[str, ...]) -> PromptOutcome | None:
    """Parse an answer; return `None` if it is invalid."""
    if not line:
        return PromptOutcome("later")
    if not line.endswith(b"\n"):  # Ctrl-D within a line, or a line that is too long
        return None
    text = line.decode("utf-8", "replace").strip()
    if not letters:
        return PromptOutcome("answer", text) if text else PromptOutcome("later")
    word = text.lower()
    letter = word if word in letters else next((each for each in letters if LETTERS[each] == word), "")
    return PromptOutcome(LETTERS[letter]) if letter else None


def frame(card: Card, pending: Pending, width: int, now: float, look: TerminalTraits) -> list[str]:
    """Format a card in a frame: its lines stand behind a bar, the worker's words last."""
    sides = "╭", "│", "╰", "─"
    top, bar, bottom, rule = (look.clean(side) for side in sides)
    inside = width - 2

    def edge(corner: str, text: str) -> str:
        words = look.clean(cut(look.clean(f" {text} "), width - 3))
        return f"{corner}{rule}{words}{rule * (width - 2 - measure_width(words))}"

    lines = [part for line in _iterate_card_lines(card) for part in wrap(look.clean(line), inside)]
    deadline = f"{format_clock(pending.until / 1000 - now)} left, then it is {pending.otherwise}"
    return [
        edge(top, f"{WAITING[pending.kind]} waits for you, {pending.id}"),
        *(f"{bar} {line}".rstrip() for line in lines),
        edge(bottom, deadline),
    ]


def _iterate_card_lines(card: Card) -> Iterator[str]:
    yield _shorten_fact(card.title)
    widest = min(max(map(len, ("digest", *card.facts))), 16)
    for name, value in card.facts.items():
        yield f"  {name:{widest}}  {_shorten_fact(value)}"
    for line in card.lines:
        yield f"  {_shorten_fact(line)}"
    yield f"  {'digest':{widest}}  {card.digest[:16]}"
    if card.words:
        words = card.words[:MAX_WORDS_CHARS].replace('"', "'")
        yield ""
        yield f'the worker says (unchecked): "{words}"'


def _shorten_fact(text: str) -> str:
    """Return the start of a fact, and state how much is omitted."""
    rest = len(text) - MAX_FACT_CHARS
    return text[:MAX_FACT_CHARS] + (
        f" … and {rest:,} more characters; `hotdesk approve --json` shows all" if rest > 0 else ""
    )


@contextmanager
def _line_mode(terminal: int) -> Iterator[None]:
    """Switch the terminal to line mode with echo, and restore its mode at the end."""
    before = termios.tcgetattr(terminal)
    ours = termios.tcgetattr(terminal)
    ours[0] |= termios.ICRNL
    ours[1] |= termios.OPOST
    ours[3] |= termios.ICANON | termios.ECHO | termios.ISIG
    termios.tcsetattr(terminal, termios.TCSANOW, ours)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSANOW, before)
