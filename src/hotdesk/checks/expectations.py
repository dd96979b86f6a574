"""How checks read what a brief expects of a file: each error says what to write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from hotdesk.brief.brief import DRIVE
from hotdesk.checks.count_range import Span, read_span
from hotdesk.errors import BriefError, printable

MOST_WORDS = 1000
IMAGES = ("base", "office", "desktop")


@dataclass(frozen=True, slots=True)
class Expect:
    """What a brief expects, and an example of what it could."""

    check: str
    told: Mapping[str, object]
    keys: tuple[str, ...]
    example: str

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.told) - set(self.keys)):
            raise self.wrong(f"cannot expect {printable(unknown[0][:80])!r}")

    def wrong(self, why: str) -> BriefError:
        """Say what is wrong, and what to write."""
        return BriefError(f"{self.check} {why}; write expect = {self.example}")

    def text(self, key: str, default: str = "") -> str:
        """Read a text."""
        told = self.told.get(key, default)
        if not isinstance(told, str):
            raise self.wrong(f"expects {key} to be a text")
        return told

    def flag(self, key: str) -> bool:
        """Read yes or no."""
        told = self.told.get(key, False)
        if not isinstance(told, bool):
            raise self.wrong(f"expects {key} to be true or false")
        return told

    def texts(self, key: str, *, needed: bool = False) -> tuple[str, ...]:
        """Read a list of texts."""
        told = self.told.get(key, [])
        if not isinstance(told, list) or len(told) > MOST_WORDS or not all(isinstance(each, str) for each in told):
            raise self.wrong(f"expects {key} to be a list of texts")
        if needed and not told:
            raise self.wrong(f"expects {key}")
        return tuple(told)

    def number(self, key: str, default: float, least: float, most: float) -> float:
        """Read a number."""
        told = self.told.get(key, default)
        if isinstance(told, bool) or not isinstance(told, int | float) or not least <= told <= most:
            raise self.wrong(f"expects {key} to be a number from {least:g} to {most:g}")
        return told

    def span(self, key: str) -> Span | None:
        """Read how many there shall be: a number, or a table of the least and the most."""
        return self.span_of(key, self.told[key]) if key in self.told else None

    def spans(self, key: str) -> Mapping[str, Span]:
        """Read a table of how many there shall be of each."""
        return {name: self.span_of(f"{key}.{name}", told) for name, told in self.table(key).items()}

    def span_of(self, key: str, told: object) -> Span:
        """Read one of them."""
        try:
            return read_span(told)
        except ValueError as e:
            raise self.wrong(f"expects {key} to be {e}") from None

    def table(self, key: str) -> Mapping[str, object]:
        """Read a table."""
        told = self.told.get(key, {})
        if not isinstance(told, dict) or len(told) > MOST_WORDS:
            raise self.wrong(f"expects {key} to be a table")
        return told

    def beside(self, key: str) -> str:
        """Read the name of something below the brief's folder, or of the drive's; empty: none."""
        return self.place(key, self.text(key))

    def places(self, key: str) -> tuple[str, ...]:
        """Read several such names."""
        return tuple(self.place(key, each) for each in self.texts(key))

    def place(self, key: str, name: str) -> str:
        """Check such a name."""
        path = PurePosixPath(name.removeprefix(DRIVE))
        if name and (path.is_absolute() or ".." in path.parts or not path.parts or not name.isprintable()):
            raise self.wrong(f"expects {key} to be a path below the brief's folder, or {DRIVE}NAME")
        return name

    def image(self) -> str:
        """Read which image's desk it is looked at in."""
        told = self.text("image", "base")
        if told not in IMAGES:
            raise self.wrong(f"expects image to be one of {', '.join(IMAGES)}")
        return told
