"""Tests of widgets as text: what a desk's program may answer, and what references mean."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from hotdesk.desk.seam import Done
from hotdesk.errors import DeskError
from hotdesk.hands.screen.widgets import MAX_CHARS, MAX_REFERENCES, Widgets

BUS, PATH = ":1.7", "/org/a11y/atspi/accessible/12"


def widget(role: str = "button", name: str = "OK", **given: Any) -> list[object]:
    fields = {"window": 0, "depth": 0, "role": role, "name": name, "value": "", "states": []}
    place = {"x": 100, "y": 50, "width": 40, "height": 20, "dx": 0, "dy": 0, "bus": BUS, "path": PATH}
    return list((fields | place | given).values())


def report(*nodes: list[object], **given: object) -> dict[str, object]:
    there = {"front": ["Form", 7], "windows": [["Form", "app", 7]], "nodes": list(nodes), "cut": False}
    return there | given


class Answers:
    """A desk whose programs print what they are given."""

    def __init__(self, *outputs: object) -> None:
        self.outputs = list(outputs)
        self.requests: list[dict[str, str]] = []

    async def run(self, argv: Sequence[str], *, stdin: bytes, timeout: float, output_limit: int) -> Done:
        self.requests.append(json.loads(stdin))
        output = self.outputs.pop(0)
        return output if isinstance(output, Done) else Done(0, json.dumps(output).encode())


def widgets_of(*outputs: object) -> Widgets:
    return Widgets(SimpleNamespace(desk=Answers(*outputs)))


async def test_a_tree_is_written_with_references_and_places() -> None:
    nodes = (
        widget("dialog", "Form", bus="", path="", width=0, height=0),
        widget("text", "Name:", depth=1, value="Ada", states=["focused"]),
        widget("check box", "Agreed", depth=1, states=["checked", "disabled"], y=80),
        widget("label", "Note", depth=1, bus="", path=""),
    )
    seen = await widgets_of(report(*nodes)).read("")
    assert seen.text == (
        'Window "Form" of app, pid 7:\n'
        '- dialog "Form"\n'
        '  - text "Name:" (focused): Ada [a1] at 120,60\n'
        '  - check box "Agreed" (checked) (disabled) [a2] at 120,90\n'
        '  - label "Note"'
    )


async def test_a_reference_is_looked_up_again_and_moved_as_far_as_it_was() -> None:
    there = widgets_of(report(widget(dy=27)), {"box": [300, 100, 40, 20], "gone": False})
    await there.read("")
    assert await there.locate("a1") == (320, 137)
    assert there.seat.desk.requests[1] == {"bus": BUS, "path": PATH}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "place",
    [
        {"box": [0, 0, 0, 0], "gone": True},
        {"box": [5000, 10, 40, 20], "gone": False},
        {"box": [10, -500, 40, 20], "gone": False},
        {"box": [10, 10, 0, 20], "gone": False},
        {"error": "missing"},
    ],
)
async def test_a_widget_that_is_gone_or_off_the_screen_is_not_clicked(place: dict[str, object]) -> None:
    there = widgets_of(report(widget()), place)
    await there.read("")
    with pytest.raises(DeskError, match=r'a1 \(button "OK"\) is no longer on the screen: use screen_read again'):
        await there.locate("a1")


async def test_an_unknown_reference_is_refused_without_asking_the_desk() -> None:
    with pytest.raises(DeskError, match="unknown reference a9: use one from the last screen_read"):
        await widgets_of().locate("a9")


async def test_a_window_without_widgets_is_left_to_pixels() -> None:
    seen = await widgets_of(report()).read("")
    assert (seen.ok, seen.fallback) == (True, "coordinates")
    assert 'The window in front, "Form", shows no widgets' in seen.text
    assert "screen_screenshot" in seen.text
    assert 'Windows that can be read: "Form"' in (await widgets_of(report()).read("Calc")).text
    assert "No window has the focus" in (await widgets_of(report(front=["", 0])).read("")).text
    assert "does not respond yet" in (await widgets_of(report(busy=True)).read("")).text
    missing = await widgets_of({"error": "missing"}).read("")
    assert (missing.ok, "no accessibility service" in missing.text) == (False, True)


@pytest.mark.parametrize(
    "output",
    [
        Done(0, b""),
        Done(0, b"[]"),
        Done(0, b'{"nodes": 1}'),
        Done(124, b"", timed_out=True),
        report(widget(name="x" * 500)),
        report(widget(x=10**9)),
        report(widget(width=-1)),
        report(widget(bus="org.evil")),
        report(widget(path="/a b")),
        report(widget(states=["x"] * 21)),
        report(widget()[:-1]),
        report(*[widget()] * 1001),
        report(front=["Form", True]),
        report(more=1),
    ],
)
async def test_a_desks_answer_is_parsed_strictly(output: object) -> None:
    with pytest.raises(DeskError, match="cannot be read as text"):
        await widgets_of(output).read("")


@pytest.mark.parametrize("output", [Done(0, b"no"), {"box": [0, 0, 1]}, {"box": [0, 0, True, 1]}])
async def test_a_place_is_read_strictly(output: object) -> None:
    there = widgets_of(report(widget()), output)
    await there.read("")
    with pytest.raises(DeskError, match="a1 cannot be found"):
        await there.locate("a1")


async def test_a_desks_words_are_printable_and_bounded() -> None:
    hostile = widget("but\x1bton", '"]\n- link "x', value="\u202e", states=["\x07"], window=50)
    seen = await widgets_of(report(hostile)).read("")
    assert "\x1b" not in seen.text
    assert seen.text.count("\n") == 0
    many = report(*[widget(name="x" * 400)] * 900)
    there = widgets_of(*[many] * 6)
    for _ in range(6):
        seen = await there.read("")
        assert len(seen.text) < MAX_CHARS + 500
        assert "more lines" in seen.note
    there.references |= {f"b{number}": there.references["a1"] for number in range(2 * MAX_REFERENCES)}
    there.seat.desk.outputs.append(report(widget()))  # type: ignore[attr-defined]
    await there.read("")
    assert len(there.references) == MAX_REFERENCES
