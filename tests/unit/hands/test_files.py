"""Tests of the file tools, at a desk without a wall."""

from __future__ import annotations

import posixpath

import pytest

from hotdesk.desk.seam import Desk
from hotdesk.errors import FileError
from hotdesk.hands import files as module
from hotdesk.hands.file_view import SHOWN, detect_kind
from hotdesk.hands.files import Files
from hotdesk.tool import Observation, ToolArgumentError


@pytest.fixture
def files(desk: Desk) -> Files:
    """Give file tools that remember no edit yet."""
    return Files(desk)


async def use(files: Files, name: str, **arguments: object) -> Observation:
    tool = next(tool for tool in files.tools if tool.name == name)
    return await files.use(name, tool.check(arguments))


async def test_a_file_is_shown_with_line_numbers_and_by_range(files: Files, desk: Desk) -> None:
    await desk.write("a.txt", b"one\ntwo\r\n\tthr\xffee\x1b[31m\nlast")
    seen = await use(files, "file_view", path="~/a.txt")
    assert seen.text == "     1\tone\n     2\ttwo\n     3\t\tthr\ufffdee\\x1b[31m\n     4\tlast"
    seen = await use(files, "file_view", path=posixpath.join(desk.home, "a.txt"), start=2, end=2)
    assert seen.text == "     2\ttwo"
    seen = await use(files, "file_view", path="a.txt", start=9)
    assert (seen.ok, seen.text) == (False, f"{desk.home}/a.txt has only 4 lines; start is 9.")
    assert not (await use(files, "file_view", path="a.txt", start=3, end=2)).ok
    await desk.write("empty", b"")
    assert (await use(files, "file_view", path="empty")).text == f"{desk.home}/empty is empty."


async def test_spaces_around_a_path_are_left_out_unless_a_file_has_them(files: Files, desk: Desk) -> None:
    seen = await use(files, "file_create", path=" add.py ", content="1")
    assert seen.text == f"{desk.home}/add.py was created: 1 bytes."
    assert (await use(files, "file_replace", path=" add.py", old="1", new="2")).ok
    assert await desk.read("add.py", limit=10) == b"2"
    await desk.write(" add.py", b"its own")
    assert (await use(files, "file_view", path=" add.py")).text.endswith("its own")
    assert (await use(files, "file_view", path="\nadd.py")).text.endswith("2")


async def test_a_long_file_is_shown_in_part_and_can_be_read_on(files: Files, desk: Desk) -> None:
    await desk.write("long.txt", b"".join(b"line %d\n" % number for number in range(1, 200_001)))
    seen = await use(files, "file_view", path="long.txt")
    assert len(seen.text) <= SHOWN
    following = int(seen.note.partition("use start=")[2])
    assert seen.text.endswith(f"line {following - 1}")
    seen = await use(files, "file_view", path="long.txt", start=199_999)
    assert seen.text == "199999\tline 199999\n200000\tline 200000"
    await desk.write("wide.txt", b"x" * 3_000_000 + b"\nend\n")
    seen = await use(files, "file_view", path="wide.txt")
    assert seen.text.endswith("… (line cut)\n     2\tend")
    assert len(seen.text) < 1100


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"PK\x03\x04......", "is a ZIP archive or office document (10 bytes). Open it with a program in the shell."),
        (b"a\0b", "is not a text file (3 bytes). Open it with a program in the shell."),
    ],
)
async def test_an_invalid_text_is_described(files: Files, desk: Desk, data: bytes, text: str) -> None:
    await desk.write("thing", data)
    assert (await use(files, "file_view", path="thing")).text == f"{desk.home}/thing {text}"
    assert detect_kind(b"just text") == ""


async def test_a_folder_is_listed(files: Files, desk: Desk) -> None:
    await desk.write("folder/sub/deep.txt", b"x")
    await desk.write("folder/b\x1b.txt", b"x" * 1234)
    seen = await use(files, "file_view", path="folder")
    first, *lines = seen.text.splitlines()
    assert first == f"{desk.home}/folder has 2 entries:"
    assert lines[0].startswith("       1,234  20")
    assert lines[0].endswith("  b\\x1b.txt")
    assert lines[1].endswith("  sub/")
    assert (await use(files, "file_view", path="folder", depth=2)).text.endswith("  sub/deep.txt")


async def test_a_missing_file_is_an_error_of_the_desk(files: Files) -> None:
    for name, more in (("file_view", {}), ("file_replace", {"old": "a", "new": "b"})):
        with pytest.raises(FileError, match="nowhere"):
            await use(files, name, path="nowhere", **more)


async def test_an_existing_file_is_replaced_only_on_request(files: Files, desk: Desk) -> None:
    seen = await use(files, "file_create", path="new/one.txt", content="grüß\n")
    assert seen.text == f"{desk.home}/new/one.txt was created: 7 bytes."
    seen = await use(files, "file_create", path="new/one.txt", content="x")
    assert (seen.ok, "set overwrite to true" in seen.text) == (False, True)
    assert await desk.read("new/one.txt") == "grüß\n".encode()
    seen = await use(files, "file_create", path="new/one.txt", content="x", overwrite=True)
    assert "replaced: 1 bytes" in seen.text


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\nb\nc\n", "b", "B", b"a\nB\nc\n"),
        (b"a\nb\nc\n", "b\n", "", b"a\nc\n"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny", b"x\r\ny\r\nc\r\n"),
        (b"\xff\xfe b \xff", "b", "ü", b"\xff\xfe \xc3\xbc \xff"),
    ],
)
async def test_a_text_that_occurs_once_is_replaced(
    files: Files, desk: Desk, before: bytes, old: str, new: str, after: bytes
) -> None:
    await desk.write("r.txt", before)
    assert (await use(files, "file_replace", path="r.txt", old=old, new=new)).ok
    assert await desk.read("r.txt") == after


async def test_a_replacement_shows_its_surroundings(files: Files, desk: Desk) -> None:
    await desk.write("r.txt", b"\n".join(b"%d" % number for number in range(1, 21)))
    seen = await use(files, "file_replace", path="r.txt", old="10\n", new="ten\nten and a half\n")
    numbers = ["7", "8", "9", "ten", "ten and a half", "11", "12", "13", "14"]
    shown = [f"{7 + place:>6}\t{text}" for place, text in enumerate(numbers)]
    assert seen.text.splitlines()[1:] == shown


@pytest.mark.parametrize(
    ("old", "text"),
    [
        ("x", "`old` occurs 3 times in {}, at lines 1, 1, 3. Include more surrounding text in `old`."),
        ("z", "`old` does not occur in {}. Nothing was changed. Read the file with file_view."),
        (
            "  y\nw",
            "`old` does not occur in {}. The first line of `old`, apart from white space, is at line 2. Nothing was "
            "changed. Read the file with file_view.",
        ),
    ],
)
async def test_a_text_that_does_not_occur_once_changes_nothing(files: Files, desk: Desk, old: str, text: str) -> None:
    await desk.write("r.txt", b"xax\ny\nx")
    seen = await use(files, "file_replace", path="r.txt", old=old, new="n")
    assert (seen.ok, seen.text) == (False, text.format(f"{desk.home}/r.txt"))
    assert await desk.read("r.txt") == b"xax\ny\nx"
    with pytest.raises(ToolArgumentError, match="old is empty"):
        await use(files, "file_replace", path="r.txt", old="", new="n")


@pytest.mark.parametrize(
    ("before", "line", "text", "after"),
    [
        (b"a\nb\n", 0, "new", b"new\na\nb\n"),
        (b"a\nb\n", 1, "new\n", b"a\nnew\nb\n"),
        (b"a\nb", 2, "new", b"a\nb\nnew\n"),
        (b"a\r\nb\r\n", 1, "n\nm", b"a\r\nn\r\nm\r\nb\r\n"),
        (b"", 0, "new", b"new\n"),
    ],
)
async def test_lines_are_inserted(files: Files, desk: Desk, before: bytes, line: int, text: str, after: bytes) -> None:
    await desk.write("i.txt", before)
    assert (await use(files, "file_insert", path="i.txt", line=line, text=text)).ok
    assert await desk.read("i.txt") == after
    with pytest.raises(ToolArgumentError, match=r"line is 99, but .*i.txt has only \d lines"):
        await use(files, "file_insert", path="i.txt", line=99, text=text)


async def test_edits_are_undone_one_by_one_down_to_the_creation(files: Files, desk: Desk) -> None:
    await use(files, "file_create", path="u.txt", content="1\n")
    await use(files, "file_replace", path="./u.txt", old="1", new="2")
    await use(files, "file_insert", path="~/u.txt", line=1, text="3")
    assert await desk.read("u.txt") == b"2\n3\n"
    for expected in (b"2\n", b"1\n"):
        assert (await use(files, "file_undo", path="u.txt")).ok
        assert await desk.read("u.txt") == expected
    assert "was removed." in (await use(files, "file_undo", path="u.txt")).text
    with pytest.raises(FileError):
        await desk.read("u.txt")
    seen = await use(files, "file_undo", path="u.txt")
    assert (seen.ok, "no edit of" in seen.text) == (False, True)


async def test_equal_edits_are_undone_in_their_order(files: Files, desk: Desk) -> None:
    await use(files, "file_create", path="e.txt", content="a")
    for old, new in (("a", "b"), ("b", "a"), ("a", "b")):
        assert (await use(files, "file_replace", path="e.txt", old=old, new=new)).ok
    for expected in (b"a", b"b", b"a"):
        assert (await use(files, "file_undo", path="e.txt")).ok
        assert await desk.read("e.txt") == expected
    assert "was removed." in (await use(files, "file_undo", path="e.txt")).text


async def test_nothing_of_a_line_is_hidden(files: Files, desk: Desk) -> None:
    await desk.write("h.txt", b"a secret step\rnothing\tto see\x1b[2K\r\nend\n")
    seen = await use(files, "file_view", path="h.txt")
    assert seen.text == "     1\ta secret step\\rnothing\tto see\\x1b[2K\n     2\tend"


async def test_a_file_too_large_to_be_edited_can_be_replaced(files: Files, desk: Desk) -> None:
    await use(files, "file_create", path="large.txt", content="small")
    await desk.write("large.txt", b"x" * (module.EDITED + 1))
    assert "changed by another program" in (await use(files, "file_undo", path="large.txt")).text
    assert "already exists" in (await use(files, "file_create", path="large.txt", content="new")).text
    seen = await use(files, "file_create", path="large.txt", content="new", overwrite=True)
    assert seen.ok
    assert "was replaced: 3 bytes. This cannot be undone" in seen.text
    assert await desk.read("large.txt") == b"new"
    assert "no edit of" in (await use(files, "file_undo", path="large.txt")).text


async def test_a_file_that_was_changed_meanwhile_is_left_as_it_is(files: Files, desk: Desk) -> None:
    await use(files, "file_create", path="m.txt", content="ours")
    await desk.write("m.txt", b"theirs")
    seen = await use(files, "file_undo", path="m.txt")
    assert (seen.ok, "changed by another program" in seen.text) == (False, True)
    assert await desk.read("m.txt") == b"theirs"


async def test_the_undo_history_is_limited(files: Files, desk: Desk) -> None:
    for number in range(module.UNDONE + 10):
        await use(files, "file_create", path="many.txt", content=str(number), overwrite=True)
    assert len(files.edits) == module.UNDONE
    await desk.write("big.txt", b"x" * (module.EDITED + 1))
    with pytest.raises(FileError, match=r"more than 8 MiB, .* in the shell"):
        await use(files, "file_insert", path="big.txt", line=0, text="y")
