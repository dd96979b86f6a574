"""Tests of asking a person at a real terminal: no accidental approval, and no forged card."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from hotdesk.cli.board.cells import TerminalTraits, measure_width
from hotdesk.cli.prompt import PromptOutcome, format_invitation, frame, open_terminal, parse_answer
from hotdesk.event import Pending
from hotdesk.job.people.wait import Card

pytestmark = pytest.mark.slow

CARD = Card(
    "The worker wants to write.", {"host": "erp.test", "method": "POST"}, ("1. read", "2. send"), "please", "{}"
)
PENDING = Pending("i1", "7f3a9c01", "plan", CARD.digest, "p", 4_000_000_000_000)
PROGRAM = """
import json, os, sys, time
import anyio
from hotdesk.cli.prompt import ask, open_terminal
from hotdesk.event import Pending
from hotdesk.job.people.wait import Card

os.open(os.ttyname(0), os.O_RDWR)  # a session's first terminal becomes its own
kind, seconds, cancelled_after = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
terminal = open_terminal()
card = Card("The worker wants to write.", {"host": "erp.test"}, (), "please", "{}")
pending = Pending("i1", "7f3a9c01", kind, card.digest, "p", int((time.time() + seconds) * 1000))
print("READY", flush=True)
sys.stdin.readline()

async def main():
    told = "cancelled"
    with anyio.move_on_after(cancelled_after or None):
        said = await ask(terminal, card, pending)
        told = [said.answer, said.words]
    print("\\nCAME " + json.dumps(told), flush=True)

anyio.run(main)
"""


class Seat:
    """A person's side of a terminal at which a program asks."""

    def __init__(self, *arguments: str) -> None:
        self.far, near = pty.openpty()
        self.seen = ""
        self.program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments], stdin=near, stdout=near, stderr=near, start_new_session=True
        )
        os.close(near)
        self.wait_for("READY")

    def wait_for(self, text: str, seconds: float = 30) -> str:
        """Read until a text appears; return everything read."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert select.select([self.far], [], [], max(end - time.monotonic(), 0))[0], self.seen
            self.seen += os.read(self.far, 4096).decode()
        return self.seen

    def type(self, text: str) -> None:
        os.write(self.far, text.encode())

    def came(self) -> Any:
        found = re.search(r"CAME (.*)\r\n", self.wait_for("CAME ") and self.wait_for("\r\n"))
        while found is None:
            self.seen += os.read(self.far, 4096).decode()
            found = re.search(r"CAME (.*)\r\n", self.seen)
        return json.loads(found[1])

    def close(self) -> None:
        self.program.kill()
        self.program.wait()
        os.close(self.far)


@pytest.fixture
def sit() -> Iterator[Callable[..., Seat]]:
    """Open a terminal; the program waits for a first line, then asks."""
    seats: list[Seat] = []

    def open_seat(kind: str = "plan", seconds: float = 60, cancelled_after: float = 0) -> Seat:
        seats.append(Seat(kind, str(seconds), str(cancelled_after)))
        return seats[-1]

    yield open_seat
    for seat in seats:
        seat.close()


ASKS = "[l]ater: "


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("typed", "answer"),
    [("a\n", "approve"), ("REFUSE\n", "refuse"), ("e\n", "edit"), ("l\n", "later"), ("\x04", "later")],
)
def test_a_letter_or_its_word_answers(sit: Callable[..., Seat], typed: str, answer: str) -> None:
    seat = sit()
    seat.type("go\n")
    seen = seat.wait_for(ASKS)
    assert "host    erp.test" in seen
    assert seen.index('the worker says (unchecked): "please"') > seen.index("digest")
    seat.type(typed)
    assert seat.came() == [answer, ""]


def test_an_empty_line_or_another_word_is_no_answer(sit: Callable[..., Seat]) -> None:
    seat = sit()
    seat.type("go\n")
    seat.wait_for(ASKS)
    for typed in ("\n", "yes\n", "approve it\n", "\x1b[A\n"):
        seat.seen = ""
        seat.type(typed)
        seat.wait_for("answer with a or r or e or l: ")
    seat.type("r\n")
    assert seat.came() == ["refuse", ""]


def test_input_typed_before_the_question_does_not_approve(sit: Callable[..., Seat]) -> None:
    seat = sit(seconds=4)
    seat.type("go\na\na\na")
    seat.wait_for("╰")
    seat.type("\na\napprove\n")
    seat.wait_for(ASKS)
    assert seat.came() == ["expired", ""]


def test_lines_pasted_after_a_wrong_one_do_not_approve(sit: Callable[..., Seat]) -> None:
    seat = sit(seconds=3)
    seat.type("go\n")
    seat.wait_for(ASKS)
    seat.type("what\na\na\n")
    assert seat.came() == ["expired", ""]


def test_a_question_takes_a_line_of_words(sit: Callable[..., Seat]) -> None:
    seat = sit("question")
    seat.type("go\n")
    seat.wait_for("your answer, or Enter to answer later: ")
    seat.type("the second one, ü\n")
    assert seat.came() == ["answer", "the second one, ü"]


def test_the_prompt_ends_when_the_answer_comes_from_elsewhere(sit: Callable[..., Seat]) -> None:
    seat = sit(cancelled_after=1.0)
    began = time.monotonic()
    seat.type("go\n")
    seat.wait_for("another person decided this request")
    assert seat.came() == "cancelled"
    assert time.monotonic() - began < 10


def test_without_a_terminal_no_question_can_be_asked() -> None:
    asked = "import sys; from hotdesk.cli.prompt import open_terminal; sys.exit(open_terminal() is None)"
    done = subprocess.run([sys.executable, "-c", asked], start_new_session=True, timeout=60, check=False)
    assert done.returncode == 1
    assert open_terminal("/dev/null") is None


@pytest.mark.parametrize(
    ("line", "letters", "said"),
    [
        (b"a\n", ("a", "r"), PromptOutcome("approve")),
        (b" Approve \n", ("a", "r"), PromptOutcome("approve")),
        (b"e\n", ("a", "r"), None),
        (b"y\n", ("a", "r"), None),
        (b"\n", ("a", "r"), None),
        (b"a", ("a", "r"), None),
        (b"", ("a", "r"), PromptOutcome("later")),
        (b"\n", (), PromptOutcome("later")),
        (b"a\n", (), PromptOutcome("answer", "a")),
        (b"\xff\n", (), PromptOutcome("answer", "\ufffd")),
    ],
)
def test_only_a_complete_valid_line_is_an_answer(
    line: bytes, letters: tuple[str, ...], said: PromptOutcome | None
) -> None:
    assert parse_answer(line, letters) == said


@pytest.mark.parametrize(
    ("kind", "letters"),
    [("plan", "arel"), ("amendment", "arel"), ("step", "arl"), ("repeat", "arl"), ("question", "")],
)
def test_only_a_plan_can_be_edited(kind: Any, letters: str) -> None:
    assert "".join(format_invitation(replace(PENDING, kind=kind))[1]) == letters


def test_a_card_is_framed_facts_first_and_the_workers_words_last() -> None:
    soon = replace(PENDING, until=65_000)
    assert frame(CARD, soon, 60, 0.0, TerminalTraits()) == [
        "╭─ the plan waits for you, 7f3a9c01 ────────────────────────",
        "│ The worker wants to write.",
        "│   host    erp.test",
        "│   method  POST",
        "│   1. read",
        "│   2. send",
        f"│   digest  {CARD.digest[:16]}",
        "│",
        '│ the worker says (unchecked): "please"',
        "╰─ 1:05 left, then it is refused ───────────────────────────",
    ]


@pytest.mark.parametrize("width", [20, 60, 100])
def test_nothing_in_a_card_breaks_out_of_its_frame(width: int) -> None:
    evil = 'x"\n╰─ approved ─\r\n[a]pprove: a\x1b[2J\u202e' + "発" * 100 + "w" * 1000
    card = Card(evil, {evil: evil, "host": evil}, (evil,), evil, evil)
    lines = frame(card, PENDING, width, 0.0, TerminalTraits())
    assert all(line.isprintable() and measure_width(line) <= width for line in lines)
    assert (lines[0][0], lines[-1][0], {line[0] for line in lines[1:-1]}) == ("╭", "╰", {"│"})
    said = "".join(line[2:] for line in lines).partition("the worker says")[2].replace(" ", "")
    assert said.count('"') == 2 or width == 20
    ascii_lines = frame(card, PENDING, width, 0.0, TerminalTraits(unicode=False))
    assert all(line.isascii() and len(line) <= width for line in ascii_lines)
