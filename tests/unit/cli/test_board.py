"""Tests of the view of a running job: lines without a terminal, a redrawn area on one."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import select
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hotdesk.brief.brief import JobBudget
from hotdesk.cli.board import Board, JsonLines, ShownLimits
from hotdesk.cli.board.area import lay
from hotdesk.cli.board.cells import TerminalTraits, cut, measure_visible_width, measure_width, wrap
from hotdesk.cli.board.state import State, extract_words
from hotdesk.event import (
    Acted,
    Alarm,
    Answered,
    Asked,
    Checkpointed,
    Decided,
    Event,
    Exchange,
    JobBegun,
    JobEnded,
    JobPaused,
    Kept,
    Observed,
    Pending,
    Planned,
    Resumed,
    RolledBack,
    StepBegun,
    StepEnded,
    Thought,
    Verified,
    from_json,
    list_kinds,
)
from hotdesk.job.record import papers as papers_of
from hotdesk.job.record.papers import Papers
from hotdesk.job.record.receipt import fold
from hotdesk.plan import Plan, Step, to_json

JOB, DESK = "i1", "i2"
OURS = re.compile(r"\r|\n|\x1b\[[0-9]+A|\x1b\[[KJ]|\x1b\[\?7[lh]|\x1b\[(?:0|1|2|31|32|33|1;36)m")
"""Every control sequence that a board may send to a terminal."""
PLAN = Plan(
    (Step("read", "Read the invoices."), Step("ask", "発注書を確認する。"), Step("write", "Write the workbook."))
)


class Terminal(io.StringIO):
    """A stream that appears as a terminal of 80 columns and 24 rows."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Screen:
    """What a terminal of a given size shows; it understands just what a board sends."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.rows: list[list[str]] = [[]]
        self.top, self.x, self.y, self.wraps = 0, 0, 0, True

    def feed(self, text: str) -> None:
        for part in re.findall(r"\x1b\[\??[0-9;]*[A-Za-z]|.", text, re.DOTALL):
            match part:
                case "\r":
                    self.x = 0
                case "\n":
                    self.x = 0  # as terminals are set: a new line starts at the first column
                    self.down()
                case "\x1b[K":
                    del self.rows[self.y][self.x :]
                case "\x1b[J":
                    del self.rows[self.y][self.x :]
                    del self.rows[self.y + 1 :]
                case "\x1b[?7l" | "\x1b[?7h":
                    self.wraps = part.endswith("h")
                case _ if part.startswith("\x1b") and part.endswith("A"):
                    self.y = max(self.y - int(part[2:-1]), self.top)
                case _ if part.startswith("\x1b"):
                    assert part.endswith("m"), repr(part)
                case _:
                    self.put(part)

    def down(self) -> None:
        """Go to the next row; if there is none, the first scrolls away."""
        self.y += 1
        if self.y == len(self.rows):
            self.rows.append([])
        self.top = max(self.top, self.y - self.height + 1)

    def put(self, character: str) -> None:
        wide = measure_width(character)
        if self.x + wide > self.width:
            assert self.wraps, "a row of the area is wider than the terminal"
            self.x = 0
            self.down()
        row = self.rows[self.y]
        row.extend(" " * (self.x - len(row)))
        row[self.x : self.x + wide] = [character, *[""] * (wide - 1)] if wide else []
        self.x += wide

    def text(self) -> str:
        return "\n".join("".join(row).rstrip() for row in self.rows)


class Clock:
    """A clock that is set by hand."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return papers_of.create(tmp_path / "jobs", JOB)


def board_on(stream: Any, papers: Papers | None = None, **environment: str) -> Board:
    limits = ShownLimits(900.0, JobBudget(1_000_000, 2.0, 200))
    return Board(stream, papers, Clock(), limits, {"TERM": "xterm", **environment})


def shown(board: Board) -> str:
    screen = Screen(80, 24)
    screen.feed(board.stream.getvalue())  # type: ignore[attr-defined]
    return screen.text()


def planned(papers: Papers | None = None) -> Planned:
    return Planned(JOB, PLAN.digest, ("read", "ask", "write"), papers.write(to_json(PLAN)) if papers else "p")


def thought(step: str, words: str, papers: Papers, dollars: float = 0.01) -> Thought:
    paper = papers.write(json.dumps({"reply": {"thought": words, "text": "t"}}))
    return Thought(JOB, step, 1, "anthropic:small" if step else "anthropic:large", paper, 9, 5, 3, 2048, 20, dollars)


def exchange(verdict: Literal["allow", "deny"], host: str, step: str = "ask") -> Exchange:
    return Exchange(DESK, step, verdict, "no rule", "GET", "https", host, 443, "/", 200, 1, 2, 3)


BEGUN = JobBegun(JOB, "Compare.", "ab" * 32, "recorded script 1a2b3c4d")


def test_without_a_terminal_there_is_a_line_for_each_event_worth_one() -> None:
    board = board_on(io.StringIO())
    for event in (
        BEGUN,
        StepBegun(JOB, "desk", "with the inputs", DESK),
        StepBegun(JOB, "read", "Read.", DESK),
        Acted(JOB, "read", 1, "shell", "p"),
        Observed(JOB, "read", 1, "done", 12, "p"),
        StepEnded(JOB, "read", "done", "", DESK),
        StepBegun(JOB, "ask", "Ask.", DESK, 2),
        exchange("deny", "evil.test"),
        StepEnded(JOB, "ask", "failed", "no answer", DESK),
        RolledBack(JOB, "ask", 2, "no answer"),
        Verified(JOB, "i3", "a.xlsx", "ab" * 32, "xlsx", "passed", ("5 rows", "all well")),
        Kept(JOB, "a.xlsx", "ab" * 32, 4711),
        StepEnded(JOB, "desk", "done", "burnt", DESK),
        JobEnded(JOB, "interrupted"),
    ):
        board.show(event)
    board.close()
    assert board.stream.getvalue().splitlines() == [  # type: ignore[attr-defined]
        "job i1: Compare.",
        "brain    recorded script 1a2b3c4d",
        "desk     i2, with the inputs",
        "read     Read.",
        "done     read, 0 ms, 1 act",
        "ask      Ask. (attempt 2)",
        "refused  GET evil.test/: no rule",
        "ask      failed: no answer",
        "back     rolled back to the state before ask, because attempt 2 failed: no answer",
        "passed   a.xlsx: 5 rows; all well",
        f"kept     a.xlsx, sha256 {'ab' * 32}",
        "burnt    i2",
        "interrupted",
    ]


def test_on_a_terminal_the_plan_is_a_checklist_that_is_redrawn_in_place(papers: Papers) -> None:
    board = board_on(Terminal(), papers)
    for event in (BEGUN, planned(papers), StepBegun(JOB, "read", "Read the invoices.", DESK)):
        board.show(event)
    board.show(StepEnded(JOB, "read", "done", "", DESK))
    board.show(StepBegun(JOB, "ask", "発注書を確認する。", DESK, 2))
    board.clock.now += 5  # type: ignore[attr-defined]
    board.tick()
    lines = shown(board).splitlines()
    assert lines[:4] == [
        "job i1: Compare.",
        "brain    recorded script 1a2b3c4d",
        "plan     3 steps: read, ask, write",
        "done     read, 0 ms, 0 acts",
    ]
    assert lines[4] == "─" * 80
    assert re.fullmatch(r" i1  Compare\. +0:05 of 15:00", lines[5])
    assert re.fullmatch(r" ✓ read   Read the invoices\. +0 ms", lines[6])
    assert re.fullmatch(r" ▸ ask    発注書を確認する。 +attempt 2  5\.0 s", lines[7])
    assert lines[8:] == [" · write  Write the workbook.", " brain  recorded script 1a2b3c4d"]


def test_failed_and_rolled_back_steps_have_their_marks() -> None:
    board = board_on(Terminal())
    for event in (
        planned(),
        StepBegun(JOB, "read", "R"),
        StepEnded(JOB, "read", "failed", "no"),
        StepBegun(JOB, "ask", "A"),
    ):
        board.show(event)
    board.show(RolledBack(JOB, "ask", 1))
    board.tick()
    assert " ✗ read" in shown(board)
    assert " ↺ ask" in shown(board)


def test_the_area_shows_thought_tool_spend_door_and_checkpoints(papers: Papers) -> None:
    board = board_on(Terminal(), papers)
    for event in (
        BEGUN,
        thought("", "First the plan.", papers),
        planned(papers),
        StepBegun(JOB, "ask", "A", DESK, 1, "anthropic:small"),
        thought("ask", "I look\nat the \x1b[31morder", papers, -1.0),
        exchange("allow", "erp.test"),
        exchange("allow", "echo.door.local", step=""),
        exchange("deny", "evil.test"),
        Checkpointed(JOB, "ask", 1, "ab" * 32, 3 << 20),
        Acted(JOB, "ask", 7, "shell", "p"),
    ):
        board.show(event)
    board.clock.now += 3  # type: ignore[attr-defined]
    board.tick()
    text = shown(board)
    assert '\n thinks "I look at the \\x1b[31morder"\n' in text
    assert "\n does   shell 3.0 s  act 7 of 200\n" in text
    assert "\n brain  recorded script 1a2b3c4d  now anthropic:small\n" in text
    assert "\n spend  planning ~$0.0100, acting unknown price, of $2.00\n" in text
    assert "\n sent   4.0 KiB to the model's provider  28 of 1.0M tokens\n" in text
    assert "\n door   1 admitted  1 refused, last evil.test" in text
    assert text.endswith("\n saved  the desk's files 1 time, 3.0 MiB the last time")
    board.show(Observed(JOB, "ask", 7, "failed", 412, "p"))
    board.tick()
    assert "\n did    shell failed, 412 ms  act 7 of 200\n" in shown(board)


def test_a_question_is_shown_with_its_command_until_it_is_answered() -> None:
    board = board_on(Terminal())
    until = int(Clock.now + 65) * 1000
    board.show(Pending(JOB, "7f3a9c01", "plan", "ab" * 32, "p", until))
    board.show(Pending(JOB, "00c0ffee", "question", "ab" * 32, "p", until))
    board.show(Asked(DESK, "11223344", "ab" * 32, "r", "POST", "erp.test", "/x", 60.0))
    board.tick()
    assert "\n WAITS  hotdesk approve 7f3a9c01  the plan, 1:05 left" in shown(board)
    assert "\n WAITS  hotdesk answer 00c0ffee TEXT  a question, 1:05 left" in shown(board)
    assert "\n ASKS   hotdesk approve 11223344  POST erp.test/x" in shown(board)
    board.show(Decided(JOB, "7f3a9c01", "ab" * 32, "approved", "uid 0 pid 1"))
    board.show(Decided(JOB, "00c0ffee", "ab" * 32, "answered", "uid 0 pid 1"))
    board.show(Answered(DESK, "11223344", "ab" * 32, "refused", "uid 0 pid 1"))
    board.tick()
    assert "WAITS" not in shown(board)
    assert "ASKS" not in shown(board)


def test_a_desk_with_many_questions_hides_neither_the_plan_nor_the_jobs_own(papers: Papers) -> None:
    board = board_on(Terminal(), papers)
    board.show(planned(papers))
    for number in range(50):
        board.show(Asked(DESK, f"{number:08}", "ab" * 32, "r", "POST", "erp.test", "/x", 60.0))
    board.show(Pending(JOB, "7f3a9c01", "step", "ab" * 32, "p", int(Clock.now + 65) * 1000))
    board.tick()
    area = shown(board).splitlines()[-9:]
    assert area[0] == "─" * 80
    assert area[2] == " · read   Read the invoices."
    assert area[-4:] == [
        " WAITS  hotdesk approve 7f3a9c01  a step, 1:05 left",
        " ASKS   hotdesk approve 00000000  POST erp.test/x",
        " ASKS   hotdesk approve 00000001  POST erp.test/x",
        " WAITS  hotdesk approve  48 more requests",
    ]


def test_a_board_that_is_closed_leaves_its_lines_and_no_area(papers: Papers) -> None:
    board = board_on(Terminal(), papers)
    board.show(replace(BEGUN, goal="\nCompare.\n"))
    board.show(planned(papers))
    board.close()
    board.say("the end")
    assert shown(board).splitlines() == [
        "job i1: Compare.",
        "brain    recorded script 1a2b3c4d",
        "plan     3 steps: read, ask, write",
        "the end",
    ]


def test_while_a_prompt_has_the_terminal_nothing_is_written_and_nothing_is_lost() -> None:
    board = board_on(Terminal())
    board.show(BEGUN)
    with board.aside():
        assert "─" not in shown(board)
        before = board.stream.getvalue()  # type: ignore[attr-defined]
        board.show(Kept(JOB, "a.xlsx", "ab" * 32, 1))
        board.tick()
        assert board.stream.getvalue() == before  # type: ignore[attr-defined]
    assert "kept     a.xlsx" in shown(board)
    assert "─" in shown(board)


def test_colours_are_used_only_on_terminals_that_allow_them() -> None:
    def has_colours(stream: Any, **environment: str) -> bool:
        board = board_on(stream, None, **environment)
        board.show(Kept(JOB, "a.xlsx", "ab" * 32, 1))
        return "\x1b[32m" in stream.getvalue()

    assert has_colours(Terminal())
    assert not has_colours(Terminal(), NO_COLOR="1")
    assert not has_colours(Terminal(), TERM="dumb")
    assert not has_colours(io.StringIO())
    dumb = board_on(Terminal(), TERM="dumb")
    dumb.show(BEGUN)
    assert "\x1b" not in dumb.stream.getvalue()  # type: ignore[attr-defined]


def test_a_terminal_that_has_only_ascii_gets_only_ascii() -> None:
    stream = Terminal()
    stream.encoding = "ANSI_X3.4-1968"
    board = board_on(stream)
    for event in (BEGUN, planned(), StepBegun(JOB, "ask", "発注書 ✓")):
        board.show(event)
    board.tick()
    assert stream.getvalue().isascii()
    assert " > ask    \\u767a\\u6ce8\\u66f8 +" in shown(board)


def test_a_job_continues_when_its_output_is_closed() -> None:
    class Gone(Terminal):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    board = board_on(Gone())
    board.show(BEGUN)
    board.tick()
    board.close()
    JsonLines(Gone(), Clock()).show(BEGUN)


def test_a_desk_that_tries_many_hosts_gets_few_lines() -> None:
    board = board_on(io.StringIO())
    for number in range(1000):
        board.show(exchange("deny", f"h{number}.test"))
        board.show(exchange("deny", "same.test"))
    assert len(board.stream.getvalue().splitlines()) == 20  # type: ignore[attr-defined]
    assert board.state.refused == 2000


def test_earlier_events_are_replayed_without_output(papers: Papers) -> None:
    board = board_on(Terminal(), papers)
    past = Clock.now - 1000
    board.recall(
        [
            (past, BEGUN),
            (past + 1, planned(papers)),
            (past + 2, StepBegun(JOB, "read", "R")),
            (past + 10, JobPaused(JOB, "x")),
        ]
    )
    board.show(Resumed(JOB, "uid 0 pid 1", "read", ("17 shell",)))
    board.tick()
    lines = shown(board).splitlines()
    assert lines[0] == "resumed  by uid 0 pid 1 at step read; the outcome of 17 shell is unknown"
    assert lines[2].endswith("0:10 of 15:00")


def test_an_interrupted_job_reports_which_desks_are_left() -> None:
    board = board_on(io.StringIO())
    board.show(StepBegun(JOB, "desk", "x", DESK))
    board.report_interruption()
    board.show(StepEnded(JOB, "desk", "done", "burnt", DESK))
    board.report_interruption()
    said = [line for line in board.stream.getvalue().splitlines() if "was interrupted" in line]  # type: ignore[attr-defined]
    assert said == [
        "hotdesk: the job was interrupted; end its open desks: `hotdesk burn i2`",
        "hotdesk: the job was interrupted; its desks are burnt",
    ]


@pytest.mark.parametrize(
    ("paper", "words"),
    [
        ('{"reply": {"thought": " a\\n b ", "text": "c"}}', "a b"),
        ('{"thought": "", "text": "c"}', "c"),
        ('{"reply": {"calls": []}}', ""),
        ('{"reply": [1]}', ""),
        ("[1, 2]", ""),
        ("plain words", "plain words"),
        ("", ""),
    ],
)
def test_the_last_thought_is_found_in_its_paper(paper: str, words: str) -> None:
    assert extract_words(paper) == words


def test_a_thought_whose_paper_is_gone_is_not_shown(papers: Papers) -> None:
    board = board_on(Terminal(), papers)
    board.show(Thought(JOB, "", 1, "m", "ff" * 32, 1, 1, 1, 1, 1))
    assert "thinks" not in shown(board)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50), (40, 10), (12, 4), (1, 1)])
def test_the_area_keeps_to_its_size_and_shows_the_current_step(width: int, height: int) -> None:
    state = State()
    state.take(BEGUN, 0)
    state.take(Planned(JOB, "ab" * 32, tuple(f"step-{n}" for n in range(60)), "p"), 0)
    for number in range(30):
        state.take(StepBegun(JOB, f"step-{number}", "発注書" * 50), 0)
        if number < 29:
            state.take(StepEnded(JOB, f"step-{number}", "done"), 0)
    state.take(Pending(JOB, "7f3a9c01", "plan", "ab" * 32, "p", 1), 0)
    rows = lay(state, width, height, 1.0, TerminalTraits())
    assert len(rows) <= height
    assert max(map(measure_visible_width, rows)) <= width
    if height >= 10:
        assert any("▸ step-29" in row for row in rows)
        assert any("done" in row and "…" in row for row in rows)
        assert any("hotdesk approve" in row for row in rows)


def test_wide_characters_count_twice_and_accents_not_at_all() -> None:
    assert (measure_width("ab"), measure_width("発注"), measure_width("e\u0301")) == (2, 4, 1)
    assert (cut("発注書", 4), cut("発注書", 6), cut("abc", 2), cut("abc", 0)) == ("発…", "発注書", "a…", "")
    assert wrap("発注書 and more words", 6) == ["発注書", " and", "more", "words"]
    assert TerminalTraits().clean("e" + "\u0301" * 5) == "e\u0301\u0301" + "\\u0301" * 3


@contextmanager
def terminal(width: int, height: int) -> Iterator[tuple[int, Any]]:
    """Open a real terminal of a size; yield its far end, and a stream to it."""
    ours, theirs = pty.openpty()
    resize(theirs, width, height)
    os.set_blocking(ours, False)
    try:
        with open(theirs, "w", encoding="utf-8") as stream:
            yield ours, stream
    finally:
        os.close(ours)


def resize(fd: int, width: int, height: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


def received(fd: int) -> str:
    """Return all output of a terminal, which passes on a few kilobytes at a time."""
    data = os.read(fd, 1 << 20)
    while select.select([fd], [], [], 0.1)[0]:
        data += os.read(fd, 1 << 20)
    return data.decode().replace("\r\n", "\n")


def test_a_board_follows_the_size_of_its_terminal(papers: Papers) -> None:
    with terminal(60, 12) as (far, stream):
        board = board_on(stream, papers)
        board.show(BEGUN)
        board.show(planned(papers))
        screen = Screen(60, 12)
        screen.feed(received(far))
        assert "─" * 60 in screen.text().splitlines()
        resize(stream.fileno(), 100, 30)
        board.tick()
        wider = received(far)
        assert "─" * 100 in wider
        assert wider.startswith("\r\x1b[5A")
        resize(stream.fileno(), 50, 30)
        board.tick()
        assert received(far).startswith("\r\x1b[7A"), "the rule and the header took two rows each"


TEXT = st.text(st.characters(), max_size=40) | st.sampled_from(
    ["\x1b[2J", "a\nb", "\x9b31m", "\u202e", "\x7f", "\r", "\ud800"]
)
KINDS = list_kinds()


def values(hint: Any) -> st.SearchStrategy[Any]:
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if get_origin(hint) is tuple:
        return st.lists(values(get_args(hint)[0]), max_size=3).map(tuple)
    kinds: dict[Any, st.SearchStrategy[Any]] = {
        str: TEXT,
        int: st.integers(-(2**40), 2**40),
        float: st.floats(-1e9, 1e9),
        bool: st.booleans(),
    }
    return kinds[hint]


EVENTS = st.one_of(
    [st.builds(kind, **{f.name: values(get_type_hints(kind)[f.name]) for f in fields(kind)}) for kind in KINDS]
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(EVENTS, max_size=12), st.booleans())
def test_no_event_sends_control_characters_to_a_terminal(events: list[Event], live: bool) -> None:
    board = board_on(Terminal() if live else io.StringIO())
    for event in events:
        board.show(event)
        board.clock.now += 1  # type: ignore[attr-defined]
    board.tick()
    screen = Screen(80, 24)
    screen.feed(board.stream.getvalue())  # type: ignore[attr-defined]
    board.close()
    text = board.stream.getvalue()  # type: ignore[attr-defined]
    text.encode()
    assert all(c.isprintable() for c in (OURS.sub("", text) if live else text.replace("\n", "")))


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(EVENTS)
def test_every_event_is_one_line_of_json_that_can_be_read_back(event: Event) -> None:
    stream = io.StringIO()
    JsonLines(stream, Clock()).show(event)
    line = stream.getvalue()
    assert line.endswith("\n")
    assert line[:-1].isascii()
    assert line[:-1].isprintable()
    told = json.loads(line)
    assert told["at"] == Clock.now * 1000
    assert from_json(told["event"], json.dumps(told["data"])) == event


def test_the_receipt_is_the_last_line_of_json() -> None:
    stream = io.StringIO()
    lines = JsonLines(stream, Clock())
    lines.show(BEGUN)
    receipt, proofs = fold(JOB, [BEGUN, Alarm(DESK, "leak", "s", "h")]), {"a.xlsx": "out/a.xlsx.certificate.json"}
    lines.finish(receipt, {"a.xlsx": "out/a.xlsx"}, proofs, "out/report.html")
    told = json.loads(stream.getvalue().splitlines()[-1])
    assert (told["event"], told["data"]["goal"]) == ("Receipt", "Compare.")
    assert told["data"]["paths"] == {"a.xlsx": "out/a.xlsx"}
    assert (told["data"]["certificates"], told["data"]["report"]) == (proofs, "out/report.html")
