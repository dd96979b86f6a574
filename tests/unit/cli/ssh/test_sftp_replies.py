"""Tests of filtering a desk's SFTP replies: requested ones pass, names and modes are made safe, the rest ends it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotdesk.cli.ssh import sftp_replies as sftp
from hotdesk.cli.ssh.fields import FieldReader, encode_string, encode_uint32
from hotdesk.cli.ssh.sftp_replies import SftpError, SftpReplies

PLAIN = encode_uint32(sftp.PERMISSIONS) + encode_uint32(0o100644)


def message(kind: int, *parts: bytes) -> bytes:
    return encode_string(bytes((kind,)) + b"".join(parts))


def entry(name: bytes, attributes: bytes = PLAIN) -> bytes:
    return encode_string(name) + encode_string(b"\x1b[31mlong") + attributes


class Dialogue:
    """A client and a desk after their greeting."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.replies = SftpReplies(self.notes.append)
        self.replies.note_requests(message(sftp.INIT, encode_uint32(3)))
        self.replies.check(message(sftp.VERSION, encode_uint32(3)))

    def ask(self, kind: int, *parts: bytes, number: int = 1) -> None:
        self.replies.note_requests(message(kind, encode_uint32(number), *parts))

    def answer(self, kind: int, *parts: bytes, number: int = 1) -> FieldReader:
        """Have the desk answer; return what the client reads, after the request's number."""
        fields = FieldReader(self.replies.check(message(kind, encode_uint32(number), *parts)))
        fields.read_uint32()
        self.kind = fields.read_byte()
        assert fields.read_uint32() == number
        return fields

    def list(self, *names: bytes) -> list[bytes]:
        """Have a folder listed; return the names the client reads."""
        self.ask(sftp.READDIR, encode_string(b"1"))
        fields = self.answer(sftp.NAME, encode_uint32(len(names)), *map(entry, names))
        found = []
        for _ in range(fields.read_uint32()):
            found.append(fields.read_string())
            assert b"\x1b" not in fields.read_string()
            sftp.read_attributes(fields)
        fields.end()
        return found


def test_a_desk_announces_only_known_extensions() -> None:
    replies = SftpReplies(print)
    replies.note_requests(message(sftp.INIT, encode_uint32(3)))
    said = replies.check(message(sftp.VERSION, encode_uint32(6), encode_string(b"run@evil"), encode_string(b"1")))
    assert b"evil" not in said
    assert said[4:9] == b"\x02" + encode_uint32(3)


HARMFUL = [b"../evil", b"a/b", b"/etc/passwd", b"", b"a\0b", b"\x1b[2Jx", b"line\nbreak", b"\xff\xfe", b"x" * 256,
           "\u202egpj.exe".encode(), "\u200bhidden".encode(), b"a/../../b", b"/"]  # fmt: skip


@pytest.mark.parametrize("name", HARMFUL)
def test_a_harmful_name_is_omitted_and_reported(name: bytes) -> None:
    dialogue = Dialogue()
    assert dialogue.list(b"good", name, "gut é".encode()) == [b"good", "gut é".encode()]
    [note] = dialogue.notes
    assert note.isprintable()
    assert "its name is not safe to use on this machine" in note


def test_a_listing_with_only_harmful_names_continues() -> None:
    assert Dialogue().list(b"../a", b"../b") == [b"."]


def test_few_of_many_harmful_names_are_reported() -> None:
    dialogue = Dialogue()
    for _ in range(10):
        dialogue.list(*[b"a/b"] * 10)
    assert len(dialogue.notes) == sftp.MAX_TOLD + 1


def test_modes_lose_set_id_bits_and_devices_are_hidden() -> None:
    dialogue = Dialogue()
    for mode, expected in ((0o106755, 0o100755), (0o041777, 0o040777), (0o060644, 0o020644), (0o010644, 0o020644)):
        dialogue.ask(sftp.LSTAT, encode_string(b"x"))
        fields = dialogue.answer(sftp.ATTRS, encode_uint32(sftp.PERMISSIONS), encode_uint32(mode))
        assert sftp.read_attributes(fields)[sftp.PERMISSIONS] == (expected,)


def test_a_path_is_one_plain_line() -> None:
    dialogue = Dialogue()
    dialogue.ask(sftp.REALPATH, encode_string(b"."))
    fields = dialogue.answer(sftp.NAME, encode_uint32(1), entry(b"/home/user", encode_uint32(0)))
    assert (fields.read_uint32(), fields.read_string()) == (1, b"/home/user")
    for path in (b"relative", b"/a\x1b[2J", b"/a\nb", b"", b"/" + b"x" * 5000):
        dialogue.ask(sftp.REALPATH, encode_string(b"."))
        fields = dialogue.answer(sftp.NAME, encode_uint32(1), entry(path, encode_uint32(0)))
        assert (dialogue.kind, fields.read_uint32()) == (sftp.STATUS, sftp.FAILURE)


def test_a_text_of_an_error_is_escaped_and_short() -> None:
    dialogue = Dialogue()
    dialogue.ask(sftp.REMOVE, encode_string(b"x"))
    fields = dialogue.answer(
        sftp.STATUS, encode_uint32(4_000_000), encode_string(b"\x1b]0;owned\x07" + b"x" * 9000), encode_string(b"en")
    )
    assert fields.read_uint32() == sftp.MAX_STATUS
    text = fields.read_text()
    assert text.isprintable()
    assert len(text) < 400


def test_an_endless_folder_is_cut() -> None:
    dialogue = Dialogue()
    dialogue.replies.entries[b"1"] = sftp.MAX_ENTRIES - 1
    assert dialogue.list(b"last") == [b"last"]
    dialogue.ask(sftp.READDIR, encode_string(b"1"))
    dialogue.answer(sftp.NAME, encode_uint32(1), entry(b"more"))
    assert dialogue.kind == sftp.STATUS
    dialogue.ask(sftp.CLOSE, encode_string(b"1"))
    dialogue.answer(sftp.STATUS, encode_uint32(0))
    assert not dialogue.replies.entries


def test_an_endless_file_is_cut() -> None:
    dialogue = Dialogue()
    dialogue.ask(sftp.READ, encode_string(b"1"), sftp.MAX_FILE_BYTES.to_bytes(8, "big"), encode_uint32(10))
    dialogue.answer(sftp.DATA, encode_string(b"x"))
    assert dialogue.kind == sftp.STATUS


def read(count: int) -> tuple[int, bytes]:
    return sftp.READ, encode_string(b"1") + bytes(8) + encode_uint32(count)


LIES = {
    "nobody asked": (None, message(sftp.STATUS, encode_uint32(9), encode_uint32(0))),
    "twice": ((sftp.REMOVE, encode_string(b"x")), message(sftp.STATUS, encode_uint32(1), encode_uint32(0)) * 2),
    "a second greeting": (None, message(sftp.VERSION, encode_uint32(3))),
    "more bytes than asked for": (read(3), message(sftp.DATA, encode_uint32(1), encode_string(b"four"))),
    "bytes for a listing": (
        (sftp.READDIR, encode_string(b"1")),
        message(sftp.DATA, encode_uint32(1), encode_string(b"four")),
    ),
    "a handle for a removal": (
        (sftp.REMOVE, encode_string(b"x")),
        message(sftp.HANDLE, encode_uint32(1), encode_string(b"1")),
    ),
    "names for a write": ((sftp.WRITE, encode_string(b"1")), message(sftp.NAME, encode_uint32(1), encode_uint32(0))),
    "an unknown kind": ((sftp.STAT, encode_string(b"x")), message(150, encode_uint32(1))),
    "a long handle": (
        (sftp.OPEN, encode_string(b"x")),
        message(sftp.HANDLE, encode_uint32(1), encode_string(b"x" * 257)),
    ),
    "many names": (
        (sftp.READDIR, encode_string(b"1")),
        message(sftp.NAME, encode_uint32(1), encode_uint32(257), entry(b"x") * 257),
    ),
    "more names than there are": (
        (sftp.READDIR, encode_string(b"1")),
        message(sftp.NAME, encode_uint32(1), encode_uint32(5), entry(b"x")),
    ),
    "bytes after the end": ((sftp.STAT, encode_string(b"x")), message(sftp.ATTRS, encode_uint32(1), PLAIN, b"more")),
    "unknown attributes": (
        (sftp.STAT, encode_string(b"x")),
        message(sftp.ATTRS, encode_uint32(1), encode_uint32(0x80000000), encode_uint32(0)),
    ),
    "a huge message": (read(1 << 31), encode_uint32(1 << 30) + b"x"),
    "an empty message": (read(1), encode_uint32(0)),
    "a reply of an unknown extension": ((sftp.EXTENDED, encode_string(b"x")), message(201, encode_uint32(1))),
}


@pytest.mark.parametrize("case", LIES)
def test_an_unsolicited_reply_ends_the_session(case: str) -> None:
    request, data = LIES[case]
    dialogue = Dialogue()
    if request is not None:
        dialogue.ask(*request)
    with pytest.raises(SftpError):
        dialogue.replies.check(data)


def test_replies_in_pieces_are_read_as_a_whole() -> None:
    dialogue = Dialogue()
    dialogue.ask(*read(4))
    data = message(sftp.DATA, encode_uint32(1), encode_string(b"four"))
    assert b"".join(dialogue.replies.check(data[at : at + 1]) for at in range(len(data))) == data


@given(st.lists(st.integers(1, 20), max_size=5), st.binary(max_size=200))
def test_no_bytes_of_a_desk_do_more_than_end_its_session(kinds: list[int], data: bytes) -> None:
    dialogue = Dialogue()
    for number, kind in enumerate(kinds):
        dialogue.ask(kind, encode_string(b"1"), bytes(8), encode_uint32(100), number=number)
    try:
        dialogue.replies.check(data)
        dialogue.replies.check(encode_string(data or b"x"))
    except SftpError:
        pass
