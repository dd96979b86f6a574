"""Tests that our dataclass behaves like the standard library's, for every form we use."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, replace
from typing import Any, ClassVar

import pytest
from pydantic import TypeAdapter

from hotdesk.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A place that does not change."""

    name: str
    height: float = 0.0
    tags: list[str] = field(default_factory=list, compare=False, repr=False)
    kind: ClassVar[str] = "place"


@dataclass(slots=True)
class Counter:
    """Something that changes."""

    count: int = 0
    seen: list[int] = field(default_factory=list)
    hidden: int = field(default=7, init=False)


def shapes(decorate: Callable[..., Any]) -> list[type]:
    @decorate(frozen=True, slots=True)
    class Frozen:
        """Frozen."""

        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list)
        d: int = field(default=3, compare=False, repr=False)
        g: dict[str, int] = field(default_factory=dict, hash=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "a", abs(self.a))

    @decorate(frozen=True, slots=True)
    class Child(Frozen):
        """A child of a frozen one."""

        e: float = 0.5
        f: int = field(default=9, init=False)

    @decorate(slots=True)
    class Open:
        """Open."""

        a: int
        b: str = field(default="b", kw_only=True)
        c: dict[str, int] = field(default_factory=dict)

    @decorate(slots=True, eq=False)
    class Same:
        """Equal to itself alone."""

        a: int

    @decorate
    class Plain:
        """Without slots."""

        a: int = 0

        def __repr__(self) -> str:
            return "mine"

    @decorate(frozen=True, slots=True, kw_only=True)
    class Named:
        """Arguments by name."""

        a: int
        b: int = 2

    @decorate(frozen=True, slots=True)
    class One:
        """One field."""

        a: tuple[int, ...]

    @decorate(frozen=True)
    class Empty:
        """No field."""

    @decorate(frozen=True, slots=True)
    class Judge:  # noqa: PLW1641 - its hash is what is tried
        """Compares by itself, and is hashed by its fields."""

        a: int

        def __eq__(self, other: object) -> bool:
            return self is not other

    return [Frozen, Child, Open, Same, Plain, Named, One, Empty, Judge]


PAIRS = list(zip(shapes(dataclass), shapes(dataclasses.dataclass), strict=True))
CALLS: list[tuple[tuple[object, ...], dict[str, object]]] = [
    ((), {}), ((-1,), {}), ((1, "x"), {}), ((1, "x", [1], 4, 0.25), {}), ((), {"a": 1}), ((), {"a": 1, "b": "y"}),
    ((1,), {"b": "z"}), ((), {"b": 1}), (((1, 2),), {}), ((1,), {"f": 1}), ((1,), {"d": 8}), ((1,), {"a": 1}),
]  # fmt: skip


def outcome(cls: type, call: tuple[tuple[object, ...], dict[str, object]]) -> object:
    try:
        made = cls(*call[0], **call[1])
    except TypeError as e:
        return str(e)
    try:
        hashable: object = hash(made) == hash(cls(*call[0], **call[1]))
    except TypeError as e:
        hashable = str(e)
    fields = [(each.name, getattr(made, each.name)) for each in dataclasses.fields(made)]
    same = (made == cls(*call[0], **call[1]), made == object(), made != cls(*call[0], **call[1]))
    return repr(made), fields, same, hashable, cls.__match_args__  # type: ignore[attr-defined]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_call_ends_as_in_the_standard_library(
    ours: type, theirs: type, call: tuple[tuple[object, ...], dict[str, object]]
) -> None:
    assert outcome(ours, call) == outcome(theirs, call)


def test_values_differ_where_a_compared_field_does() -> None:
    assert Place("a") == Place("a", tags=["x"])
    assert len({Place("a"), Place("a", tags=["x"]), Place("a", 1.0), Place("b")}) == 3
    other: object = ("a", 0.0)
    assert Place("a") != other


def test_what_is_frozen_is_neither_set_nor_deleted() -> None:
    place = Place("a")
    for name in ("name", "other"):
        with pytest.raises(FrozenInstanceError, match=f"assign to field '{name}'"):
            setattr(place, name, "b")
    with pytest.raises(FrozenInstanceError, match="delete field 'name'"):
        del place.name
    assert place == Place("a")


def test_defaults_are_made_for_each() -> None:
    one, two = Counter(), Counter()
    one.seen.append(1)
    one.count += 1
    assert (two, two.hidden) == (Counter(0, []), 7)


def test_it_is_replaced_copied_pickled_and_read_as_any_dataclass() -> None:
    place = Place("a", 2.0, ["x"])
    assert replace(place, name="b") == Place("b", 2.0)
    assert asdict(place) == {"name": "a", "height": 2.0, "tags": ["x"]}
    for twin in (copy.copy(place), copy.deepcopy(place), pickle.loads(pickle.dumps(place))):  # noqa: S301 - our own
        assert (twin, twin.tags) == (place, ["x"])
    assert TypeAdapter(Place).validate_json('{"name": "a", "height": 2, "tags": ["x"]}') == place
    match place:
        case Place(name, height):
            assert (name, height) == ("a", 2.0)


def test_what_contains_itself_is_shown() -> None:
    counter = Counter()
    counter.seen.append(counter)  # type: ignore[arg-type]
    assert repr(counter) == "Counter(count=0, seen=[...], hidden=7)"
