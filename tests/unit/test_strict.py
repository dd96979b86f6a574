"""Tests of parsing untrusted data by type hints."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from hotdesk.strict import ROW, Alias, By, Length, Otherwise, Range, StrictError, compile_reader, parse_json, read


def even(number: int) -> int:
    if number % 2:
        raise ValueError("it is odd")
    return number


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float = 0.0


@dataclass(frozen=True, slots=True)
class Named:
    name: str


@dataclass(frozen=True, slots=True)
class Order:
    id: Annotated[str, re.compile("[a-z]{3}")]
    count: Annotated[int, Range(1, 10)] = 1
    kind: Literal["big", "small", 3] = "big"
    notes: Annotated[tuple[Annotated[str, Length(4, 1)], ...], Length(2)] = ()
    at: Point | None = None
    corner: Annotated[Point | None, Alias("from")] = None
    what: Point | Named | int = 0
    prices: Mapping[Annotated[str, Length(5)], float] = field(default_factory=dict)
    pair: tuple[str, int] = ("", 0)
    row: Annotated[Point, ROW] = Point(0.0)
    data: bytes = b""
    tags: frozenset[str] = frozenset()
    open: bool = False
    even: Annotated[int, even] = 0
    lines: Annotated[list[int], Otherwise("these are no lines")] = field(default_factory=list)
    size: Annotated[int, By(int)] = 0
    any: object = None


def order(**changes: object) -> dict[str, object]:
    return {"id": "abc", **changes}


def test_data_that_fits_its_type_hints_is_read() -> None:
    assert read(Order, order()) == Order("abc")
    whole = read(Order, order(
        count=10, kind=3, notes=["a", "four"], at={"x": 1}, **{"from": {"x": 1.5, "y": -2}}, what={"name": "n"},
        prices={"a": 1, "b": 2.5}, pair=["a", 1], row=[1, 2], data="aGk=", tags=["a", "a"], open=True, even=4,
        lines=[1, 2], size="12", any=[{"deep": None}],
    ))  # fmt: skip
    assert whole == Order(
        "abc", 10, 3, ("a", "four"), Point(1), Point(1.5, -2), Named("n"), {"a": 1, "b": 2.5}, ("a", 1), Point(1, 2),
        b"hi", frozenset({"a"}), True, 4, [1, 2], 12, [{"deep": None}],
    )  # fmt: skip
    assert read(Order, order(what={"x": 1}, at=None)).what == Point(1)
    assert type(read(Point, {"x": 1}).x) is int


@pytest.mark.parametrize(
    ("changes", "where", "why"),
    [
        ({"id": 1}, "id", "expected a string like [a-z]{3}"),
        ({"id": "abcd"}, "id", "expected a string like [a-z]{3}"),
        ({"id": "abc\n"}, "id", "expected a string like [a-z]{3}"),
        ({"count": True}, "count", "expected an integer from 1 to 10"),
        ({"count": 1.0}, "count", "expected an integer from 1 to 10"),
        ({"count": "1"}, "count", "expected an integer from 1 to 10"),
        ({"count": 0}, "count", "expected an integer from 1 to 10"),
        ({"count": 10**400}, "count", "expected an integer from 1 to 10"),
        ({"count": None}, "count", "expected an integer from 1 to 10"),
        ({"kind": "middling"}, "kind", "expected one of 'big', 'small', 3"),
        ({"kind": ["big"]}, "kind", "expected one of 'big', 'small', 3"),
        ({"kind": {}}, "kind", "expected one of 'big', 'small', 3"),
        ({"kind": 3.0}, "kind", "expected one of 'big', 'small', 3"),
        ({"notes": "ab"}, "notes", "expected a list of at most 2 items"),
        ({"notes": ["a"] * 3}, "notes", "expected a list of at most 2 items"),
        ({"notes": ["a", ""]}, "notes[1]", "expected a string of 1 to 4 characters"),
        ({"notes": ["abcde"]}, "notes[0]", "expected a string of 1 to 4 characters"),
        ({"notes": [["a"]]}, "notes[0]", "expected a string of 1 to 4 characters"),
        ({"at": []}, "at", "expected an object with x, y"),
        ({"at": {}}, "at.x", "it is missing"),
        ({"at": {"x": math.nan}}, "at.x", "expected a number"),
        ({"at": {"x": math.inf}}, "at.x", "expected a number"),
        ({"at": {"x": 10**400}}, "at.x", "expected a number"),
        ({"at": {"x": True}}, "at.x", "expected a number"),
        ({"at": {"x": 1, "z\x1b" * 100: 1}}, "at", "unknown key 'z\\x1b"),
        ({"corner": {"x": 1}}, "", "unknown key 'corner'; the keys are id, count"),
        ({"what": {"x": "1"}}, "what", "expected an object with x, y or an object with name or an integer"),
        ({"what": None}, "what", "expected an object with x, y or"),
        ({"prices": []}, "prices", "expected an object"),
        ({"prices": {"a": "1"}}, "prices.a", "expected a number"),
        ({"prices": {"a" * 6: 1}}, "prices.aaaaaa", "expected a string of at most 5 characters"),
        ({"prices": {"\x1b[31m": True}}, "prices.\\x1b[31m", "expected a number"),
        ({"pair": ["a"]}, "pair", "expected a list of 2 items"),
        ({"pair": ["a", 1, 2]}, "pair", "expected a list of 2 items"),
        ({"pair": ["a", "b"]}, "pair[1]", "expected an integer"),
        ({"row": [1]}, "row", "expected a list of x, y"),
        ({"row": [1, 2, 3]}, "row", "expected a list of x, y"),
        ({"row": [1, "2"]}, "row[1]", "expected a number"),
        ({"row": {"x": 1}}, "row", "expected a list of x, y"),
        ({"data": "aGk"}, "data", "expected base64"),
        ({"data": "a\u00e9=="}, "data", "expected base64"),
        ({"data": 5}, "data", "expected base64"),
        ({"tags": [[]]}, "tags[0]", "expected a string"),
        ({"open": 1}, "open", "expected true or false"),
        ({"even": 3}, "even", "it is odd"),
        ({"even": "4"}, "even", "expected an integer"),
        ({"lines": [1, "2"]}, "lines", "these are no lines"),
        ({"size": "many"}, "size", "invalid literal"),
        ({"more": 1}, "", "unknown key 'more'; the keys are id, count"),
        ({3: 1}, "", "unknown key '3'; the keys are id, count"),
    ],
)
def test_data_that_does_not_fit_is_refused_with_place_and_reason(changes: Any, where: str, why: str) -> None:
    with pytest.raises(StrictError) as failure:
        read(Order, {"id": "abc", **changes})
    assert (failure.value.where, failure.value.why[: len(why)]) == (where, why)
    assert str(failure.value).isprintable()
    assert len(str(failure.value)) < 400


@pytest.mark.parametrize("value", [None, [], "abc", 1, [{"id": "abc"}]])
def test_only_an_object_is_a_dataclass(value: object) -> None:
    with pytest.raises(StrictError, match="expected an object with id, count"):
        read(Order, value)


def test_keys_are_passed_over_only_where_that_is_said_and_then_at_every_depth() -> None:
    lax = compile_reader(Order, ignore_unknown=True)
    assert lax(order(more=1, at={"x": 1, "more": 2})) == Order("abc", at=Point(1))
    with pytest.raises(StrictError, match=r"^at\.x: expected a number$"):
        lax(order(more=1, at={"x": "1", "more": 2}))


def test_a_value_is_in_no_error() -> None:
    with pytest.raises(StrictError) as failure:
        read(Order, order(data="hunter2!", notes=["hunter2"]))
    assert "hunter" not in str(failure.value)


def test_plain_types_are_read_as_well() -> None:
    assert read(tuple[int, ...], [1, 2]) == (1, 2)
    assert read(dict, {"a": 1}) == {"a": 1}
    assert compile_reader(Annotated[float | None, Range(0)])(None) is None
    with pytest.raises(StrictError, match="expected a number or null from 0"):
        compile_reader(Annotated[float | None, Range(0)])(-1)


def test_a_type_that_is_not_of_json_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError):
        compile_reader(complex)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 1}', "duplicate"),
        ('[{"b": {"a": 1, "a": 2}}]', "duplicate"),
        ("NaN", "not a JSON number"),
        ("[-Infinity]", "not a JSON number"),
        ("1e999", "too large"),
        ("[" * 100_000, "recursion"),
        ("9" * 5000, "digits"),
        (b"\xff", "utf-8"),
        ("", "Expecting value"),
    ],
)
def test_json_that_two_readers_could_read_differently_is_refused(text: str | bytes, why: str) -> None:
    with pytest.raises(StrictError, match=why):
        parse_json(text)


def test_json_may_be_read_with_keys_that_are_there_twice_and_with_infinite_numbers() -> None:
    assert parse_json('{"a": 1, "a": 2}', duplicates=True) == {"a": 2}
    assert parse_json("[1e999]", overflow=True) == [math.inf]
    assert parse_json(json.dumps(order(x=[1.5, None])).encode()) == order(x=[1.5, None])
