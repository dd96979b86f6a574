"""What a desk's SFTP server says: what was asked for passes, names and modes are made harmless, the rest ends it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotdesk.cli.ssh import sftp_replies as sftp
from hotdesk.cli.ssh.fields import FieldReader, string, uint32
from hotdesk.cli.ssh.sftp_replies import SftpError, SftpReplies

PLAIN = uint32(sftp.PERMISSIONS) + uint32(0o100644)


def message(kind: int, *parts: bytes) -> bytes:
    """Write an SFTP message."""
    return string(bytes((kind,)) + b"".join(parts))


def entry(name: bytes, attributes: bytes = PLAIN) -> bytes:
    """Write an entry of a listing, as a desk does."""
    return string(name) + string(b"\x1b[31mlong") + attributes


class Dialogue:
    """A client and a desk that were introduced."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.replies = SftpReplies(self.notes.append)
        self.replies.note_requests(message(sftp.INIT, uint32(3)))
        self.replies.check(message(sftp.VERSION, uint32(3)))

    def ask(self, kind: int, *parts: bytes, number: int = 1) -> None:
        """Have the client ask for something."""
        self.replies.note_requests(message(kind, uint32(number), *parts))

    def answer(self, kind: int, *parts: bytes, number: int = 1) -> FieldReader:
        """Have the desk answer; give what the client reads, after the request's number."""
        fields = FieldReader(self.replies.check(message(kind, uint32(number), *parts)))
        fields.uint32()
        self.kind = fields.byte()
        assert fields.uint32() == number
        return fields

    def list(self, *names: bytes) -> list[bytes]:
        """Have a folder listed; give the names that the client reads."""
        self.ask(sftp.READDIR, string(b"1"))
        fields = self.answer(sftp.NAME, uint32(len(names)), *map(entry, names))
        found = []
        for _ in range(fields.uint32()):
            found.append(fields.string())
            assert b"\x1b" not in fields.string()
            sftp.read_attributes(fields)
        fields.end()
        return found


def test_a_desk_announces_only_what_is_known() -> None:
    replies = SftpReplies(print)
    replies.note_requests(message(sftp.INIT, uint32(3)))
    said = replies.check(message(sftp.VERSION, uint32(6), string(b"run@evil"), string(b"1")))
    assert b"evil" not in said
    assert said[4:9] == b"\x02" + uint32(3)


HARMFUL = [b"../evil", b"a/b", b"/etc/passwd", b"", b"a\0b", b"\x1b[2Jx", b"line\nbreak", b"\xff\xfe", b"x" * 256,
           "\u202egpj.exe".encode(), "\u200bhidden".encode(), b"a/../../b", b"/"]  # fmt: skip


@pytest.mark.parametrize("name", HARMFUL)
def test_a_name_that_could_do_harm_is_left_out_and_told_of(name: bytes) -> None:
    dialogue = Dialogue()
    assert dialogue.list(b"good", name, "gut é".encode()) == [b"good", "gut é".encode()]
    [note] = dialogue.notes
    assert note.isprintable()
    assert "a name this machine must not use" in note


def test_a_listing_of_nothing_but_harm_does_not_end_there() -> None:
    assert Dialogue().list(b"../a", b"../b") == [b"."]


def test_few_of_many_harmful_names_are_told_of() -> None:
    dialogue = Dialogue()
    for _ in range(10):
        dialogue.list(*[b"a/b"] * 10)
    assert len(dialogue.notes) == sftp.MAX_TOLD + 1


def test_modes_lose_what_gives_rights_and_devices_are_no_files() -> None:
    dialogue = Dialogue()
    for mode, expected in ((0o106755, 0o100755), (0o041777, 0o040777), (0o060644, 0o020644), (0o010644, 0o020644)):
        dialogue.ask(sftp.LSTAT, string(b"x"))
        fields = dialogue.answer(sftp.ATTRS, uint32(sftp.PERMISSIONS), uint32(mode))
        assert sftp.read_attributes(fields)[sftp.PERMISSIONS] == (expected,)


def test_a_path_is_one_plain_line() -> None:
    dialogue = Dialogue()
    dialogue.ask(sftp.REALPATH, string(b"."))
    fields = dialogue.answer(sftp.NAME, uint32(1), entry(b"/home/user", uint32(0)))
    assert (fields.uint32(), fields.string()) == (1, b"/home/user")
    for path in (b"relative", b"/a\x1b[2J", b"/a\nb", b"", b"/" + b"x" * 5000):
        dialogue.ask(sftp.REALPATH, string(b"."))
        fields = dialogue.answer(sftp.NAME, uint32(1), entry(path, uint32(0)))
        assert (dialogue.kind, fields.uint32()) == (sftp.STATUS, sftp.FAILURE)


def test_a_text_of_an_error_is_escaped_and_short() -> None:
    dialogue = Dialogue()
    dialogue.ask(sftp.REMOVE, string(b"x"))
    fields = dialogue.answer(sftp.STATUS, uint32(4_000_000), string(b"\x1b]0;owned\x07" + b"x" * 9000), string(b"en"))
    assert fields.uint32() == sftp.MAX_STATUS
    text = fields.text()
    assert text.isprintable()
    assert len(text) < 400


def test_a_folder_without_an_end_ends() -> None:
    dialogue = Dialogue()
    dialogue.replies.entries[b"1"] = sftp.MAX_ENTRIES - 1
    assert dialogue.list(b"last") == [b"last"]
    dialogue.ask(sftp.READDIR, string(b"1"))
    dialogue.answer(sftp.NAME, uint32(1), entry(b"more"))
    assert dialogue.kind == sftp.STATUS
    dialogue.ask(sftp.CLOSE, string(b"1"))
    dialogue.answer(sftp.STATUS, uint32(0))
    assert not dialogue.replies.entries


def test_a_file_without_an_end_ends() -> None:
    dialogue = Dialogue()
    dialogue.ask(sftp.READ, string(b"1"), sftp.MAX_FILE_BYTES.to_bytes(8, "big"), uint32(10))
    dialogue.answer(sftp.DATA, string(b"x"))
    assert dialogue.kind == sftp.STATUS


def read(count: int) -> tuple[int, bytes]:
    """Ask for so many bytes."""
    return sftp.READ, string(b"1") + bytes(8) + uint32(count)


LIES = {
    "nobody asked": (None, message(sftp.STATUS, uint32(9), uint32(0))),
    "twice": ((sftp.REMOVE, string(b"x")), message(sftp.STATUS, uint32(1), uint32(0)) * 2),
    "a second greeting": (None, message(sftp.VERSION, uint32(3))),
    "more bytes than asked for": (read(3), message(sftp.DATA, uint32(1), string(b"four"))),
    "bytes for a listing": ((sftp.READDIR, string(b"1")), message(sftp.DATA, uint32(1), string(b"four"))),
    "a handle for a removal": ((sftp.REMOVE, string(b"x")), message(sftp.HANDLE, uint32(1), string(b"1"))),
    "names for a write": ((sftp.WRITE, string(b"1")), message(sftp.NAME, uint32(1), uint32(0))),
    "an unknown kind": ((sftp.STAT, string(b"x")), message(150, uint32(1))),
    "a long handle": ((sftp.OPEN, string(b"x")), message(sftp.HANDLE, uint32(1), string(b"x" * 257))),
    "many names": ((sftp.READDIR, string(b"1")), message(sftp.NAME, uint32(1), uint32(257), entry(b"x") * 257)),
    "more names than there are": ((sftp.READDIR, string(b"1")), message(sftp.NAME, uint32(1), uint32(5), entry(b"x"))),
    "bytes after the end": ((sftp.STAT, string(b"x")), message(sftp.ATTRS, uint32(1), PLAIN, b"more")),
    "unknown attributes": ((sftp.STAT, string(b"x")), message(sftp.ATTRS, uint32(1), uint32(0x80000000), uint32(0))),
    "a huge message": (read(1 << 31), uint32(1 << 30) + b"x"),
    "an empty message": (read(1), uint32(0)),
    "a reply of an unknown extension": ((sftp.EXTENDED, string(b"x")), message(201, uint32(1))),
}


@pytest.mark.parametrize("case", LIES)
def test_a_reply_that_nobody_can_have_asked_for_ends_the_session(case: str) -> None:
    request, data = LIES[case]
    dialogue = Dialogue()
    if request is not None:
        dialogue.ask(*request)
    with pytest.raises(SftpError):
        dialogue.replies.check(data)


def test_replies_in_pieces_are_read_as_a_whole() -> None:
    dialogue = Dialogue()
    dialogue.ask(*read(4))
    data = message(sftp.DATA, uint32(1), string(b"four"))
    assert b"".join(dialogue.replies.check(data[at : at + 1]) for at in range(len(data))) == data


@given(st.lists(st.integers(1, 20), max_size=5), st.binary(max_size=200))
def test_no_bytes_of_a_desk_do_more_than_end_its_session(kinds: list[int], data: bytes) -> None:
    dialogue = Dialogue()
    for number, kind in enumerate(kinds):
        dialogue.ask(kind, string(b"1"), bytes(8), uint32(100), number=number)
    try:
        dialogue.replies.check(data)
        dialogue.replies.check(string(data or b"x"))
    except SftpError:
        pass
