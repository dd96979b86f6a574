"""Tests of the benchmark's arithmetic and charts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench import report
from bench.book import Book, percentile
from bench.chart import Row, apart, bars, decades, latencies, lines, sheet
from bench.promises import PROMISES, Promise
from bench.server_calls import cpu_of, family_of, use_of


def test_a_ratio_is_the_median_of_the_rounds_ratios_and_not_the_ratio_of_medians() -> None:
    book = Book()
    for number, (ours, theirs) in enumerate([(1.0, 10.0), (9.0, 10.0), (2.0, 4.0)]):
        book.note("ours", number, ours)
        book.note("theirs", number, theirs)
    assert book.ratio("ours", "theirs") == 0.5


def test_a_round_that_only_one_side_finished_is_left_out() -> None:
    book = Book()
    book.note("ours", 0, 1.0)
    book.note("ours", 1, 100.0)
    book.note("theirs", 0, 2.0)
    assert book.ratio("ours", "theirs") == 0.5
    assert book.ratio("ours", "nobody's") is None


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.95, 95), (0.99, 99), (1.0, 100)])
def test_a_percentile_is_a_sample_that_was_seen(share: float, value: float) -> None:
    assert percentile([float(each) for each in range(100, 0, -1)], share) == value


@pytest.mark.parametrize(
    ("promise", "value", "kept"),
    [
        (Promise("fact", "≤", 5, text="most"), 5.0, True),
        (Promise("fact", "≤", 5, text="most"), 5.1, False),
        (Promise("fact", "≥", 5, text="least"), 5.0, True),
        (Promise("fact", "≥", 5, text="least"), 4.9, False),
        (Promise("other", "≥", 5, text="unmeasured"), 4.9, None),
    ],
)
def test_a_promise_is_kept_broken_or_not_measured(promise: Promise, value: float, kept: bool | None) -> None:
    assert promise.kept(Book(facts={"fact": value})) is kept


def test_cpu_time_is_counted_with_that_of_a_servers_processes() -> None:
    """A process with the name of keys, whose parent names itself like no process of the server."""
    named = "open('/proc/self/comm', 'w').write('hotdesk-keys'); sum(range(10**6)); print('done', flush=True); input()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {named!r}])"
    argv = [sys.executable, "-c", parent]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "done\n"
        first, child = family_of(server.pid)
        used = use_of(server.pid)
        server.communicate("\n")
    assert first == server.pid != child
    assert used.keys() == {"server", "hotdesk-keys"}
    assert 1 < used["hotdesk-keys"] < 60_000
    with pytest.raises(OSError, match=str(child)):
        cpu_of(child)


def test_a_run_that_measured_nothing_breaks_every_promise_but_the_aims() -> None:
    parts = {promise.part for promise in PROMISES}
    assert len(report.broken(Book(), parts)) == sum(not promise.aim for promise in PROMISES)


def test_what_was_not_measured_is_reported_with_its_reason() -> None:
    book, promise = Book(), Promise("ours", "≤", 1, "podman run", "quick")
    book.lack(["podman run"], "podman is not installed")
    assert report.judge(promise, book) == "not measured: podman is not installed"
    assert any("podman is not installed" in line for line in report.table(book))


def test_every_promise_says_its_bound_and_is_there_once() -> None:
    assert len({(promise.what, promise.against, promise.bound) for promise in PROMISES}) == len(PROMISES)
    for promise in PROMISES:
        assert f"{promise.bound:g}" in promise.text, promise.text


def test_a_ratio_is_quoted_with_both_its_medians() -> None:
    book = Book()
    book.note("ours", 0, 0.05)
    book.note("theirs", 0, 0.2)
    assert (
        report.quoted(Promise("ours", "≤", 1, "theirs", "quick"), book)
        == "0.25 \N{MULTIPLICATION SIGN} (50.0 and 200 ms)"
    )
    assert report.quoted(Promise("fact", "≤", 1, "", "small"), Book(facts={"fact": 0.5})) == "0.50"


@pytest.mark.parametrize("values", [[1.0], [0.5, 400.0], [3.0, 3.1], [99.0, 101.0]])
def test_a_log_scale_holds_every_value(values: list[float]) -> None:
    marks = decades(values, least=4)
    assert marks[0] <= min(values) <= max(values) <= marks[-1]
    assert len(marks) >= 4


def test_names_beside_lines_do_not_overlap() -> None:
    assert apart([10.0, 9.0, 40.0]) == [26.0, 9.0, 43.0]


def test_a_sheet_is_well_formed_whatever_a_name_holds() -> None:
    rows = [Row("a < b & c", (1.0, 2.0, 3.0), True), Row("d", (10.0, 20.0, 30.0), False)]
    panels = [latencies("t", "b", rows), bars("t", "b", rows), lines("t", "b", ["x", "y", "z"], rows)]
    root = ElementTree.fromstring(sheet(panels, "machine"))  # noqa: S314 - our own text
    assert "a < b & c" in {each.text for each in root.iter("{http://www.w3.org/2000/svg}text")}


def test_the_specification_quotes_every_promise_word_for_word() -> None:
    page = (Path(__file__).resolve().parents[2] / "SPECIFICATION.md").read_text()
    assert [promise.text for promise in PROMISES if promise.text not in page] == []
