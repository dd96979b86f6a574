"""Tests of the browser tools: requests to the reader, results for the model, and a compromised reader."""

from __future__ import annotations

import pytest

from hotdesk.desk.seam import Desk
from hotdesk.errors import FileError, LinkError
from hotdesk.hands.browser.browser import Browser
from hotdesk.hands.browser.tools import ALL
from hotdesk.hands.reader import VerbResult
from hotdesk.hands.reader.chrome import Chrome
from hotdesk.hands.screen.reader_client import make_malformed_error
from hotdesk.tool import Observation, Tool, ToolArgumentError

PICTURE = b"\xff\xd8\xffpicture"
HERE: dict[str, object] = {"id": "t1", "url": "https://x.test/", "title": "X"}


class Scripted:
    """A seat with a scripted reader; records its requests."""

    def __init__(self, desk: Desk, *answers: VerbResult) -> None:
        self.desk = desk
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, object]]] = []

    def close(self) -> None:
        """Release nothing."""

    async def ask(self, verb: str, /, **arguments: object) -> VerbResult:
        self.asked.append((verb, arguments))
        return self.answers.pop(0)


async def told(desk: Desk, tool: str, value: dict[str, object], /, **arguments: object) -> Observation:
    browser = Browser(Scripted(desk, VerbResult({**HERE, **value}, PICTURE)))
    checked = next(each for each in ALL if each.name == tool).check(arguments)
    return await browser.use(tool, checked)


@pytest.mark.parametrize("tool", ALL, ids=[tool.name for tool in ALL])
async def test_every_example_is_valid_and_uses_a_verb_of_the_reader(tool: Tool, desk: Desk) -> None:
    await desk.write("report.csv", b"a,b\n")
    seat = Scripted(desk, VerbResult(HERE))
    example = {**tool.example}
    if "paths" in example:
        example["paths"] = ["report.csv"]
    assert isinstance(await Browser(seat).use(tool.name, tool.check(example)), Observation)
    ((verb, arguments),) = seat.asked
    part, _, method = verb.partition(".")
    assert part == "browser"
    assert method in Chrome.VERBS
    assert set(arguments) <= set(getattr(Chrome, method).__annotations__)


def test_every_verb_is_a_method() -> None:
    assert all(callable(getattr(Chrome, verb)) for verb in Chrome.VERBS)


@pytest.mark.parametrize(
    ("tool", "value", "arguments", "text"),
    [
        ("browser_click", {"fallback": "keyboard", "covered": "div#a"}, {"ref": "e1"},
         "e1 was clicked (by keyboard, because div#a covers the middle of the element).\nTab t1: X https://x.test/"),
        ("browser_fill", {"as_meant": False, "holds": "a\x1b"}, {"ref": "e1", "text": "b"},
         "e1 was filled, but its value is now 'a\\\\x1b', not the given one.\nTab t1: X https://x.test/"),
        ("browser_goto", {"status": 404}, {"url": "x.test"},
         "The page was loaded with status 404.\nTab t1: X https://x.test/"),
        ("browser_goto", {"loaded": False}, {"url": "x.test"},
         "The page is still loading.\nTab t1: X https://x.test/"),
        ("browser_read", {"text": "# A\tb\x07", "next": 5, "length": 9}, {},
         "Tab t1: X https://x.test/\n\n# A\tb\\x07\n"
         "The text is cut off, 4 more characters follow; continue with browser_read start=5."),
        ("browser_evaluate", {"text": "12", "length": 7}, {"expression": "x"},
         "12\nThe value is cut off, 5 more characters follow; return a smaller value."),
        ("browser_wait_for", {"met": False}, {"what": "load", "timeout": 2},
         "The condition was not met within 2 seconds.\nTab t1: X https://x.test/"),
        ("browser_tabs", {"tabs": [HERE, {"id": "t2", "url": "u\n", "title": ""}], "news": ["tab t2 was opened"]}, {},
         "Tabs (t1 is the current one):\n- t1: X https://x.test/\n- t2: untitled u\\n\nNew: tab t2 was opened."),
        ("browser_press", {"interrupted": True, "dialogs": [{"tab": "t1", "kind": "alert", "message": "\u202ehi"}]},
         {"keys": ["Enter"]},
         "A dialog interrupted the action.\nTab t1: X https://x.test/\n"
         'Tab t1 shows a dialog (alert): "\\u202ehi". Answer it with browser_dialog; any other browser tool '
         "dismisses it."),
        ("browser_downloads",
         {"downloads": [{"name": "a", "state": "inProgress", "bytes": 1, "total": 2}], "met": False},
         {"wait": True}, "Not all downloads finished in time:\n- a: inProgress, 1 of 2 bytes"),
    ],
)  # fmt: skip
async def test_a_model_gets_the_result(
    tool: str, value: dict[str, object], arguments: dict[str, object], text: str, desk: Desk
) -> None:
    assert (await told(desk, tool, value, **arguments)).text == text


async def test_a_failed_action_is_not_ok(desk: Desk) -> None:
    assert not (await told(desk, "browser_fill", {"as_meant": False}, ref="e1", text="b")).ok
    assert not (await told(desk, "browser_wait_for", {"met": False}, what="load")).ok
    assert (await told(desk, "browser_click", {"fallback": "keyboard"}, ref="e1")).fallback == "keyboard"


async def test_a_picture_is_forwarded_unchanged(desk: Desk) -> None:
    seen = await told(desk, "browser_screenshot", {}, format="jpeg")
    assert (seen.image, seen.media) == (PICTURE, "image/jpeg")


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {**HERE, "title": 5},
        {**HERE, "dialogs": {}},
        {**HERE, "dialogs": ["x"]},
        {**HERE, "news": [5]},
        {**HERE, "length": "9"},
        {**HERE, "met": 1},
        {**HERE, "downloads": [{"bytes": True}]},
        {**HERE, "tabs": [[]]},
        {**HERE, "text": ["x"]},
    ],
)
async def test_malformed_output_of_a_reader_is_detected(value: object, desk: Desk) -> None:
    with pytest.raises(LinkError, match="hotdesk rejected data from the browser"):
        await Browser(Scripted(desk, VerbResult(value))).list_tabs()


@pytest.mark.parametrize("why", ["it is cut", "it has 9 bytes; the limit is 8"])
def test_rejected_data_has_one_remedy_whatever_its_text(why: str, desk: Desk) -> None:
    assert str(make_malformed_error(desk, "screen", why)).endswith(f": {why}; try again, or open another desk")


async def test_an_oversized_reply_of_a_reader_is_cut(desk: Desk) -> None:
    value = {**HERE, "title": "t" * 100_000, "text": "x" * 1_000_000, "news": ["n" * 100_000] * 1000}
    seen = await Browser(Scripted(desk, VerbResult(value))).read()
    assert len(seen.tab.title) <= 4000
    assert len(seen.text) == 200_000
    assert sum(map(len, seen.news)) <= 90_000


async def test_files_that_are_not_there_are_not_uploaded(desk: Desk) -> None:
    seat = Scripted(desk)
    with pytest.raises(FileError):
        await Browser(seat).upload("e1", ["no-such-file"])
    assert seat.asked == []


async def test_a_tab_to_select_must_be_named(desk: Desk) -> None:
    with pytest.raises(ToolArgumentError, match=r"tab is missing.*For example"):
        await told(desk, "browser_tabs", {}, do="select")
