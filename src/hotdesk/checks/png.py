"""The check of a picture: it opens, has the expected size and is not blank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from hotdesk.checks.evidence import look, make_unreadable_verdict, read_json, read_number, read_text
from hotdesk.checks.expectations import Count, read_expectations
from hotdesk.checks.malformed import MalformedReportError
from hotdesk.checks.seam import DrawnPixels, Evidence, Fault, Verdict
from hotdesk.checks.sentences import show_count
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk
from hotdesk.errors import make_printable

EXAMPLE = "{width = {min = 600}, height = 400}"
LOOKED_FOR = ("opens", "width", "height", "blank")
_SIZE = "Save the picture in the expected size."
_BLANK = "Draw the picture again, and look at it before you deliver it."
_OPENS = "Save the picture as a PNG file."
MAX_COUNTED = 256
CALM = 3
"""Maximum difference of a channel between pixels that count as one colour."""


@dataclass(frozen=True, slots=True)
class PngCheck:
    image: ClassVar[str] = "office"
    alone: ClassVar[bool] = False
    beside: ClassVar[tuple[str, ...]] = ()
    width: Count = None
    height: Count = None
    colours: Count = None

    @classmethod
    def from_expect(cls, expect: Mapping[str, object]) -> PngCheck:
        return read_expectations(cls, "png", expect, EXAMPLE)

    @property
    def not_checked(self) -> tuple[str, ...]:
        return ("the content of the picture, beyond its size and colours",)

    @property
    def requirements(self) -> tuple[str, ...]:
        sizes = {"wide": self.width, "high": self.height}
        return (
            "It must be a PNG that is not blank: more than one colour.",
            *(f"It must be {show_count(span, 'pixel')} {word}." for word, span in sizes.items() if span is not None),
            *([f"It must have {show_count(self.colours, 'different colour')}."] if self.colours is not None else []),
        )

    async def gather(self, desk: Desk, path: str) -> Evidence:
        return await look(desk, "png_look", {"path": path})

    def judge(self, evidence: Evidence) -> Verdict:
        """Judge the reported size and the pixels. Whether the picture is blank is judged by its pixels alone."""
        try:
            size = read_size(evidence.report)
            if len(evidence.pages) != 1:
                raise MalformedReportError("it has no pixels of the picture")
        except (ValueError, RecursionError) as e:
            return make_unreadable_verdict(LOOKED_FOR, "a picture", e, _OPENS)
        faults = [
            Fault(name, "", f"a {name} of {show_count(span, 'pixel')}", f"{size[name]} pixels", _SIZE)
            for name, span in (("width", self.width), ("height", self.height))
            if span is not None and size[name] not in span
        ]
        shown = _count_colours(evidence.pages[0])
        if shown < 2:
            faults.append(Fault("blank", "", "a picture that is not blank", "a single colour", _BLANK))
        elif self.colours is not None and shown not in self.colours:
            faults.append(Fault("blank", "", show_count(self.colours, "colour"), str(shown), _BLANK))
        facts = (f"{size['width']} by {size['height']} pixels, not blank",)
        return Verdict(LOOKED_FOR, tuple(faults), facts, {**size, "colours": shown}, {}, evidence.pages)


def read_size(report: bytes) -> dict[str, int]:
    match read_json(report):
        case {"unreadable": str(why)}:
            raise ValueError(f"the file cannot be opened as a picture: {make_printable(why[:200])}")
        case {"width": width, "height": height, "format": form} if read_text(form) == "PNG":
            return {"width": int(read_number(width)), "height": int(read_number(height))}
        case _:
            raise ValueError("the file is not a PNG")


def _count_colours(page: DrawnPixels) -> int:
    """Count the colours of a page that differ by more than noise, at most 256.

    The scale starts at the first pixel, so that no noise around it counts as a second colour.
    """
    rgb, distinct = page.rgb, set[tuple[int, int, int]]()
    red, green, blue = ([_find_step(value - first) for value in range(256)] for first in rgb[:3])
    for at in range(0, len(rgb), 3):
        distinct.add((red[rgb[at]], green[rgb[at + 1]], blue[rgb[at + 2]]))
        if len(distinct) >= MAX_COUNTED:
            break
    return len(distinct)


def _find_step(difference: int) -> int:
    step = abs(difference) // (CALM + 1)
    return step if difference > 0 else -step
