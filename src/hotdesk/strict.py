"""Strict parsing of untrusted data into frozen dataclasses and plain containers, by their type hints.

    @dataclass(frozen=True, slots=True)
    class Order:
        id: Annotated[str, re.compile("[a-z0-9]{8}")]
        count: Annotated[int, Range(1, 100)] = 1
        notes: Annotated[tuple[str, ...], Length(20)] = ()

    order = read(Order, loads(data))

Types are exact: `true` is no integer, and values are not converted. Exceptions: a float may be written as an integer, a
list becomes a tuple or a frozenset, and `bytes` are decoded from base64. Unknown and missing keys are errors. An error
says where and what was expected, but never contains the value, which may be a secret.
"""

from __future__ import annotations

import base64
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from itertools import repeat
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from hotdesk.errors import make_printable

T = TypeVar("T")
Read: TypeAlias = Callable[[object], Any]
ROW = "a list, in place of an object: its items are the fields in their order"
"""Annotation of a dataclass that is written as a list."""
_FINITE = sys.float_info.max
_KEY_LIMIT = 40
"""Maximum characters of an unknown key that an error shows."""


class Length(NamedTuple):
    """Bounds for the characters of a string, or the items of a list or an object. `why` replaces the error message."""

    most: int
    least: int = 0
    why: str = ""


class Range(NamedTuple):
    """Bounds for a number, both inclusive."""

    least: float
    most: float = math.inf

    def holds(self, value: float) -> bool:
        return self.least <= value <= self.most


class Alias(NamedTuple):
    """The key of a field, if it differs from the field's name."""

    name: str


class By(NamedTuple):
    """A function that parses the value in place of its hint; it raises `ValueError` with the reason."""

    read: Callable[[Any], object]


class Otherwise(NamedTuple):
    """The error message for any wrong value, including nested ones, and the class of the error."""

    why: str
    error: type[StrictError] | None = None
    """`None`: `StrictError`."""


REQUIRED = "it is missing"
"""The reason of an error about a required key; `path` names the key."""


class StrictError(ValueError):
    """A value is not as expected: the reason `why`, and the place `path`."""

    def __init__(self, why: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(why)
        self.why, self.path = why, path

    @property
    def where(self) -> str:
        """Return the path as text, such as `orders[0].id`; empty: the whole value."""
        parts = (f"[{part}]" if isinstance(part, int) else f".{_shorten(part)}" for part in self.path)
        return "".join(parts).removeprefix(".")

    def __str__(self) -> str:
        return f"{self.where}: {self.why}" if self.path else self.why


def read(kind: Callable[..., T], value: object) -> T:
    """Parse a value into a dataclass, or the type of any hint; raise `StrictError` with the reason and the place."""
    result: T = compile_reader(kind)(value)
    return result


@cache
def compile_reader(hint: Any, *, ignore_unknown: bool = False) -> Read:
    """Compile the reader of a type. `ignore_unknown` accepts keys without a field, at every depth."""
    return _compile_hint(hint, ignore_unknown)[0]


def list_keys(kind: type) -> tuple[str, ...]:
    """List the keys that an object of a dataclass may have."""
    return tuple(_compile_fields(kind, False)[0])


def parse_json(text: str | bytes, *, duplicates: bool = False, overflow: bool = False) -> Any:
    """Parse JSON that all parsers read in the same way: no NaN, no duplicate keys and no infinite floats unless
    allowed.

    Raise `StrictError` for invalid JSON, including invalid UTF-8 and excessive depth.
    """
    once = None if duplicates else _require_unique_keys
    try:
        decoded = text if isinstance(text, str) else text.decode()
        parse_float = None if overflow else _parse_finite
        return json.loads(decoded, parse_constant=_refuse_constant, object_pairs_hook=once, parse_float=parse_float)
    except (ValueError, RecursionError) as e:
        raise StrictError(str(e)) from None


def _require_unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("duplicate key")
    return table


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def _parse_finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError("a number is too large for a 64-bit floating-point number")
    return number


def _shorten(key: str) -> str:
    return make_printable(key[:_KEY_LIMIT])


# -- readers ----------------------------------------------------------------------------------------------------------


def _compile_hint(hint: Any, lax: bool) -> tuple[Read, str]:
    origin, inner = get_origin(hint), get_args(hint)
    if hint in (object, Any):
        return (lambda value: value), "anything"
    if hint in _SCALARS:
        check, *arguments = _SCALARS[hint]
        return partial(check, *arguments), arguments[-1]
    if is_dataclass(hint):
        return _compile_class(hint, lax)
    if origin is Annotated:
        return _compile_annotated(inner[0], hint.__metadata__, lax)
    if origin is Literal:
        what = f"one of {', '.join(map(repr, inner))}"
        return partial(_read_choice, {(type(each), each) for each in inner}, what), what
    if origin in (Union, UnionType):
        return _compile_union(inner, lax)
    readers = [_compile_hint(each, lax)[0] for each in inner if each is not ...]
    if origin is tuple and ... not in inner:
        what = f"a list of {len(readers)} items"
        return partial(_read_row, readers, what), what
    if origin in (tuple, list, frozenset):
        return partial(_read_items, origin, *readers), "a list"
    if origin in (dict, Mapping):
        return partial(_read_mapping, *readers), "an object"
    raise TypeError(f"values of the type {hint} cannot be read from JSON")


def _compile_class(kind: Any, lax: bool) -> tuple[Read, str]:
    readers, needed = _compile_fields(kind, lax)
    what = f"an object with {', '.join(readers)}" if readers else "an empty object"
    return partial(_read_object, kind, readers, needed, lax, what), what


def _compile_fields(kind: Any, lax: bool) -> tuple[dict[str, tuple[str, Read]], frozenset[str]]:
    """Return the name and reader of each field by its key, and the keys that are required."""
    hints = get_type_hints(kind, include_extras=True)
    keys = {field.name: _get_key(hints[field.name], field.name) for field in fields(kind)}
    readers = {key: (name, _compile_hint(hints[name], lax)[0]) for name, key in keys.items()}
    needed = [keys[each.name] for each in fields(kind) if each.default is each.default_factory is MISSING]
    return readers, frozenset(needed)


def _get_key(hint: Any, name: str) -> str:
    return next((each.name for each in getattr(hint, "__metadata__", ()) if isinstance(each, Alias)), name)


def _compile_annotated(hint: Any, metadata: Sequence[Any], lax: bool) -> tuple[Read, str]:
    own = [each.read for each in metadata if isinstance(each, By)]
    base, what = _compile_row(hint, lax) if ROW in metadata else _compile_hint(object if own else hint, lax)
    checks: list[Callable[[Any], object]] = []
    length = None
    for each in metadata:
        match each:
            case Length(most, least, _):
                unit = "characters" if what == "a string" else "items"
                what += f" of {least} to {most} {unit}" if least else f" of at most {most} {unit}"
                length = each
            case Range(least, most):
                what += f" from {least:.15g}" + (f" to {most:.15g}" if most < math.inf else "")
                checks.append(each.holds)
            case re.Pattern():
                what = f"{what} like {each.pattern}"
                checks.append(each.fullmatch)
    if checks or length:
        base = partial(_read_bounded, base, length, checks, what)
    for each in (*own, *metadata):
        if isinstance(each, Otherwise):
            base = partial(_read_or_refuse, base, each.error or StrictError, each.why)
        elif callable(each):
            base = partial(_read_through, base, each)
    return base, what


def _compile_row(kind: Any, lax: bool) -> tuple[Read, str]:
    readers, _ = _compile_fields(kind, lax)
    what = f"a list of {', '.join(readers)}"
    parts = partial(_read_row, [each for _, each in readers.values()], what)
    return (lambda value: kind(*parts(value))), what


def _compile_union(arms: Sequence[Any], lax: bool) -> tuple[Read, str]:
    compiled = [_compile_hint(each, lax) for each in arms if each is not NoneType]
    what = " or ".join(each for _, each in compiled)
    one = compiled[0][0] if len(compiled) == 1 else partial(_read_any, [each for each, _ in compiled], what)
    if NoneType not in arms:
        return one, what
    return (lambda value: None if value is None else one(value)), f"{what} or null"


def _read_exact(kind: type, what: str, value: object) -> object:
    if type(value) is not kind:
        raise StrictError(f"expected {what}")
    return value


def _read_number(what: str, value: Any) -> float:
    if type(value) not in (int, float) or not -_FINITE <= value <= _FINITE:
        raise StrictError(f"expected {what}")
    return value  # type: ignore[no-any-return]


def _read_base64(what: str, value: object) -> bytes:
    try:
        return base64.b64decode(value if type(value) is str else "-", validate=True)
    except ValueError:
        raise StrictError(f"expected {what}") from None


def _read_choice(choices: set[tuple[type, object]], what: str, value: object) -> object:
    if type(value) not in (str, int, bool) or (type(value), value) not in choices:
        raise StrictError(f"expected {what}")
    return value


def _read_items(build: Callable[[list[object]], object], one: Read, value: object) -> object:
    if type(value) is not list:
        raise StrictError("expected a list")
    return build(_read_each(repeat(one), value))


def _read_row(readers: Sequence[Read], what: str, value: object) -> tuple[object, ...]:
    if type(value) is not list or len(value) != len(readers):
        raise StrictError(f"expected {what}")
    return tuple(_read_each(readers, value))


def _read_each(readers: Iterable[Read], values: list[object]) -> list[object]:
    done: list[object] = []
    try:
        for one, value in zip(readers, values, strict=False):
            done.append(one(value))
    except StrictError as e:
        e.path = (len(done), *e.path)
        raise
    return done


def _read_mapping(key_reader: Read, one: Read, value: object) -> dict[str, object]:
    if type(value) is not dict:
        raise StrictError("expected an object")
    done: dict[str, object] = {}
    for key, each in value.items():
        try:
            done[key_reader(key)] = one(each)
        except StrictError as e:
            e.path = (str(key), *e.path)
            raise
    return done


def _read_object(
    kind: Any, readers: Mapping[str, tuple[str, Read]], needed: frozenset[str], lax: bool, what: str, value: object
) -> object:
    if type(value) is not dict:
        raise StrictError(f"expected {what}")
    if not needed <= value.keys():
        raise StrictError(REQUIRED, (next(key for key in readers if key in needed - value.keys()),))
    done: dict[str, object] = {}
    for key, each in value.items():
        if (entry := readers.get(key)) is not None:
            try:
                done[entry[0]] = entry[1](each)
            except StrictError as e:
                e.path = (key, *e.path)
                raise
        elif not lax:
            raise StrictError(f"unknown key '{_shorten(str(key))}'; the keys are {', '.join(readers) or 'none'}")
    return kind(**done)


def _read_bounded(
    base: Read, length: Length | None, checks: Sequence[Callable[[Any], object]], what: str, value: object
) -> object:
    """Check the length before anything is parsed."""
    if length and isinstance(value, str | list | dict) and not length.least <= len(value) <= length.most:
        raise StrictError(length.why or f"expected {what}")
    try:
        value = base(value)
    except StrictError as e:
        raise e if e.path else StrictError(f"expected {what}") from None
    for check in checks:
        if value is not None and not check(value):
            raise StrictError(f"expected {what}")
    return value


def _read_or_refuse(base: Read, error: type[StrictError], why: str, value: object) -> object:
    try:
        return base(value)
    except StrictError:
        raise error(why) from None


def _read_through(base: Read, convert: Callable[[Any], object], value: object) -> object:
    value = base(value)
    try:
        return convert(value)
    except StrictError:
        raise
    except ValueError as e:
        raise StrictError(str(e)) from None


def _read_any(arms: Sequence[Read], what: str, value: object) -> object:
    for one in arms:
        try:
            return one(value)
        except StrictError:
            pass
    raise StrictError(f"expected {what}")


_SCALARS: dict[Any, tuple[Any, ...]] = {
    str: (_read_exact, str, "a string"),
    int: (_read_exact, int, "an integer"),
    bool: (_read_exact, bool, "true or false"),
    dict: (_read_exact, dict, "an object"),
    float: (_read_number, "a number"),
    bytes: (_read_base64, "base64"),
}
"""For each plain type, its reader and the reader's arguments; the last one says what is expected."""
