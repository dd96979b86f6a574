"""Tests of a build's log: lines are bounded and escaped."""

from __future__ import annotations

from hotdesk.api.e2b.builds import build_log
from hotdesk.api.e2b.builds.build_log import BuildLog, LineSplitter, clean_line


def test_lines_are_read_in_pages() -> None:
    log = BuildLog()
    for number in range(250):
        log.write(str(number), "debug" if number % 2 else "info")
    assert [each["message"] for each in log.read_page(0)] == [str(number) for number in range(100)]
    assert len(log.read_page(200)) == 50
    assert log.read_page(250) == []
    assert [each["message"] for each in log.read_page(100, "info")] == [str(number) for number in range(200, 250, 2)]


def test_a_log_has_a_maximum_size() -> None:
    log = BuildLog()
    for _ in range(5000):
        log.write("x" * 10_000)
    assert log.size < build_log.MAX_BYTES + 10_000
    assert log.entries[-1].message.startswith("The log is full")
    assert sum(entry.level == "warn" for entry in log.entries) == 1
    short = BuildLog()
    for _ in range(30_000):
        short.write("")
    assert len(short.entries) == build_log.MAX_ENTRIES + 1


def test_control_characters_in_a_line_are_escaped() -> None:
    assert clean_line("\x1b[31mred\x1b[0m\x1b]0;title\x07 plain") == "red plain"
    assert clean_line("a\x07b\u202ec\x9b") == "a\\x07b\\u202ec\\x9b"
    assert clean_line("a\tb") == "a   b"
    assert len(clean_line("x" * 100_000)) == build_log.MAX_LINE + 1


def test_output_in_any_pieces_becomes_lines() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"one\ntw") == ["one"]
    assert splitter.feed(b"o\r\nthree\rfour") == ["two", "three"]
    assert splitter.finish() == ["four"]
    assert splitter.finish() == []
    assert [len(line) for line in splitter.feed(b"y" * 9000)] == [4000, 4000]
    assert splitter.feed("\xff\n".encode("latin-1"))[0].endswith("\ufffd")
