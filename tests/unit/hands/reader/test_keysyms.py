"""Tests of characters and names as keys."""

from __future__ import annotations

import pytest

from hotdesk.errors import DeskError
from hotdesk.hands.reader import keysyms


@pytest.mark.parametrize(
    ("character", "keysym"),
    [("a", 0x61), ("~", 0x7E), ("ß", 0xDF), ("€", 0x10020AC), ("я", 0x100044F), ("😀", 0x101F600), ("\n", 0xFF0D)],
)
def test_a_character_is_a_key(character: str, keysym: int) -> None:
    assert keysyms.of_character(character) == keysym


@pytest.mark.parametrize("character", ["\0", "\x7f", "\x85", "\ud800"])
def test_a_character_no_key_types_is_refused(character: str) -> None:
    with pytest.raises(DeskError):
        keysyms.of_character(character)


@pytest.mark.parametrize(
    ("chord", "keys"),
    [
        ("Return", [0xFF0D]),
        ("ENTER", [0xFF0D]),
        ("Page_Up", [0xFF55]),
        ("ctrl+shift+t", [0xFFE3, 0xFFE1, 0x54]),
        ("CTRL+C", [0xFFE3, 0x63]),
        ("A", [0xFFE1, 0x41]),
        ("F12", [0xFFC9]),
        ("F5", [0xFFC2]),
        ("KP_0", [0xFFB0]),
        ("ctrl++", [0xFFE3, 0x2B]),
        ("ctrl+plus", [0xFFE3, 0x2B]),
        ("+", [0xFFE1, 0x2B]),
        ("alt+Tab", [0xFFE9, 0xFF09]),
        ("shift+Tab", [0xFFE1, 0xFE20]),
        ("shift+1", [0xFFE1, 0x21]),
        ("super", [0xFFEB]),
        ("ü", [0xFC]),
        ("U20AC", [0x10020AC]),
        ("ctrl+-", [0xFFE3, 0x2D]),
    ],
)
def test_a_chord_is_its_keys_in_order(chord: str, keys: list[int]) -> None:
    assert keysyms.of_chord(chord) == keys


@pytest.mark.parametrize("chord", ["", "ctrl+", "+a", "ctrl+shfit", "nonsense", "a+b+c+d+e+f+g+h+i"])
def test_an_invalid_chord_is_refused_with_an_example(chord: str) -> None:
    with pytest.raises(DeskError, match=r"ctrl\+shift\+t|Return"):
        keysyms.of_chord(chord)


def test_several_chords_follow_each_other() -> None:
    assert keysyms.of_chords("ctrl+a Delete") == [[0xFFE3, 0x61], [0xFFFF]]
    assert keysyms.of_chords(" ") == [[0x20]]
