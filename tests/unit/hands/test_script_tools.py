"""Tests of the exact tools for scripts: bytes in, bytes out."""

from __future__ import annotations

from typing import TypeVar

import pytest

from hotdesk.brain.models.script_hands import Failed, Hands, ToolCall
from hotdesk.desk.seam import Desk
from hotdesk.event import ignore
from hotdesk.hands import script_tools
from hotdesk.hands.script_tools import Exact
from hotdesk.hands.toolbox import Free, Toolbox
from hotdesk.tool import Observation

EVERY_BYTE = bytes(range(256)) * 5
HANDS = Hands()
T = TypeVar("T")


async def use(desk: Desk, tool: str, **arguments: object) -> Observation:
    return await Toolbox([Exact(desk)], ignore, Free(), desk.id).use(tool, arguments)


async def made(desk: Desk, wanted: ToolCall[T]) -> T:
    """Use what a script wants used; return what the script gets."""
    tool, arguments = wanted.ask
    return wanted.read(await use(desk, tool, **arguments))


async def test_every_byte_comes_back_as_it_went(desk: Desk) -> None:
    await made(desk, HANDS.write("deep/every", EVERY_BYTE))
    assert await made(desk, HANDS.read("~/deep/every")) == EVERY_BYTE
    done = await made(desk, HANDS.run(["sh", "-c", "cat deep/every; echo no >&2; exit 3"], timeout=10))
    assert (done.exit_code, done.stdout, done.stderr, done.ok) == (3, EVERY_BYTE, b"no\n", False)


@pytest.mark.slow
async def test_a_program_that_cannot_start_or_takes_too_long_is_a_result(desk: Desk) -> None:
    missing = await made(desk, HANDS.run(["no-such-program"]))
    assert missing.exit_code == 127
    assert missing.reason
    assert (await made(desk, HANDS.run(["sleep", "30"], timeout=0.2))).timed_out


async def test_output_is_bounded_and_says_so(desk: Desk) -> None:
    done = await made(desk, HANDS.run(["head", "-c", str(script_tools.MAX_OUTPUT_BYTES + 1), "/dev/zero"]))
    assert (len(done.stdout), done.truncated) == (script_tools.MAX_OUTPUT_BYTES, True)


async def test_a_file_that_cannot_be_read_fails_in_the_script(desk: Desk) -> None:
    with pytest.raises(Failed, match="exact_read failed"):
        await made(desk, HANDS.read("absent"))
    with pytest.raises(Failed, match="exact_write failed"):
        await made(desk, HANDS.write("/proc/absent", b""))


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("exact_run", {"argv": []}, "argv is empty"),
        ("exact_run", {"argv": "ls"}, "not a list of texts"),
        ("exact_write", {"path": "a", "data": "~"}, "data is not base64"),
        ("exact_read", {}, "path is missing"),
    ],
)
async def test_invalid_arguments_are_reported(desk: Desk, tool: str, arguments: dict[str, object], why: str) -> None:
    seen = await use(desk, tool, **arguments)
    assert (seen.ok, why in seen.text) == (False, True)


def test_words_behind_an_answer_do_not_change_it() -> None:
    assert HANDS.read("a").read(Observation('{"data": "YQ=="}\n\nYou made the same call 3 times.')) == b"a"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"data": 5}', '{"exit_code": 0, "reason": ""}'])
def test_an_invalid_answer_fails_in_the_script(text: str) -> None:
    with pytest.raises(Failed):
        HANDS.read("a").read(Observation(text))
    with pytest.raises(Failed):
        HANDS.run(["a"]).read(Observation(text))
