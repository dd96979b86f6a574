"""Keys in the form the browser needs: `Enter`, `Control+a`, `Shift+Tab`, or one character."""

from __future__ import annotations

from hotdesk.dataclass import dataclass
from hotdesk.errors import DeskError, make_printable

_MODIFIERS = {"Alt": 1, "Control": 2, "Ctrl": 2, "Meta": 4, "Shift": 8}
NAMED = {
    "Enter": 13, "Tab": 9, "Escape": 27, "Backspace": 8, "Delete": 46, "Insert": 45, "Home": 36, "End": 35,
    "PageUp": 33, "PageDown": 34, "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39, "Space": 32,
    **{f"F{number}": 111 + number for number in range(1, 13)},
}  # fmt: skip
"""Keys by name, with their Windows key codes, which pages still use."""
TEXTS = {"Enter": "\r", "Space": " "}


@dataclass(frozen=True, slots=True)
class Stroke:
    """One key, with the modifiers that are held down."""

    key: str
    code: str
    number: int
    modifiers: int
    text: str
    """The text that the key types."""

    def make_down_event(self) -> dict[str, object]:
        return {**self.make_up_event(), "type": "keyDown" if self.text else "rawKeyDown", "text": self.text}

    def make_up_event(self) -> dict[str, object]:
        event: dict[str, object] = {"type": "keyUp", "key": self.key, "modifiers": self.modifiers}
        return {**event, "code": self.code, "windowsVirtualKeyCode": self.number}


def read_stroke(name: str) -> Stroke:
    *modifier_names, last = (
        name.split("+") if len(name) > 1 and not name.endswith("++") else [*name[:-1].split("+")[:-1], name[-1:]]
    )
    unknown = [one for one in modifier_names if one not in _MODIFIERS]
    if unknown or not (last in NAMED or len(last) == 1):
        wrong = unknown[0] if unknown else last
        examples = ", ".join([*NAMED][:15])
        raise DeskError(f"unknown key {make_printable(wrong[:20])!r}; keys are one character, {examples}, F1 to F12; "
                        "combine them with Alt, Control, Meta or Shift, as in Control+a")  # fmt: skip
    modifiers = 0
    for one in modifier_names:
        modifiers |= _MODIFIERS[one]
    if last in NAMED:
        key = " " if last == "Space" else last
        return Stroke(key, last, NAMED[last], modifiers, TEXTS.get(last, "") if not modifiers & ~8 else "")
    if modifiers & 8:
        last = last.upper()
    code = f"Key{last.upper()}" if last.isascii() and last.isalpha() else f"Digit{last}" if last.isdecimal() else ""
    number = ord(last.upper()) if last.isascii() and last.isalnum() else 0
    return Stroke(last, code, number, modifiers, "" if modifiers & 7 else last)
