"""Keys by name, and characters as keys: X11 keysyms."""

from __future__ import annotations

from hotdesk.errors import DeskError

_UNICODE = 0x0100_0000
"""Offset of the keysyms that stand for Unicode characters."""
_TYPED = {"\n": 0xFF0D, "\r": 0xFF0D, "\t": 0xFF09, "\b": 0xFF08, "\x1b": 0xFF1B}
"""Control characters that have a key."""

NAMED = {
    "BackSpace": 0xFF08, "Tab": 0xFF09, "Linefeed": 0xFF0A, "Clear": 0xFF0B, "Return": 0xFF0D, "Pause": 0xFF13,
    "Scroll_Lock": 0xFF14, "Sys_Req": 0xFF15, "Escape": 0xFF1B, "Multi_key": 0xFF20, "Delete": 0xFFFF,
    "Home": 0xFF50, "Left": 0xFF51, "Up": 0xFF52, "Right": 0xFF53, "Down": 0xFF54, "Prior": 0xFF55, "Next": 0xFF56,
    "End": 0xFF57, "Begin": 0xFF58, "Select": 0xFF60, "Print": 0xFF61, "Execute": 0xFF62, "Insert": 0xFF63,
    "Undo": 0xFF65, "Redo": 0xFF66, "Menu": 0xFF67, "Find": 0xFF68, "Cancel": 0xFF69, "Help": 0xFF6A, "Break": 0xFF6B,
    "Mode_switch": 0xFF7E, "Num_Lock": 0xFF7F, "ISO_Level3_Shift": 0xFE03, "ISO_Left_Tab": 0xFE20,
    "KP_Space": 0xFF80, "KP_Tab": 0xFF89, "KP_Enter": 0xFF8D, "KP_Home": 0xFF95, "KP_Left": 0xFF96, "KP_Up": 0xFF97,
    "KP_Right": 0xFF98, "KP_Down": 0xFF99, "KP_Prior": 0xFF9A, "KP_Next": 0xFF9B, "KP_End": 0xFF9C, "KP_Begin": 0xFF9D,
    "KP_Insert": 0xFF9E, "KP_Delete": 0xFF9F, "KP_Equal": 0xFFBD, "KP_Multiply": 0xFFAA, "KP_Add": 0xFFAB,
    "KP_Separator": 0xFFAC, "KP_Subtract": 0xFFAD, "KP_Decimal": 0xFFAE, "KP_Divide": 0xFFAF,
    "Shift_L": 0xFFE1, "Shift_R": 0xFFE2, "Control_L": 0xFFE3, "Control_R": 0xFFE4, "Caps_Lock": 0xFFE5,
    "Shift_Lock": 0xFFE6, "Meta_L": 0xFFE7, "Meta_R": 0xFFE8, "Alt_L": 0xFFE9, "Alt_R": 0xFFEA, "Super_L": 0xFFEB,
    "Super_R": 0xFFEC, "Hyper_L": 0xFFED, "Hyper_R": 0xFFEE,
    "XF86AudioLowerVolume": 0x1008FF11, "XF86AudioMute": 0x1008FF12, "XF86AudioRaiseVolume": 0x1008FF13,
    "XF86AudioPlay": 0x1008FF14, "XF86AudioStop": 0x1008FF15, "XF86AudioPrev": 0x1008FF16, "XF86AudioNext": 0x1008FF17,
    "XF86HomePage": 0x1008FF18, "XF86Search": 0x1008FF1B, "XF86Back": 0x1008FF26, "XF86Forward": 0x1008FF27,
    "XF86Reload": 0x1008FF73, "XF86Copy": 0x1008FF57, "XF86Cut": 0x1008FF58, "XF86Paste": 0x1008FF6D,
    **{f"F{number}": 0xFFBD + number for number in range(1, 36)},
    **{f"KP_{number}": 0xFFB0 + number for number in range(10)},
    **{f"KP_F{number}": 0xFF90 + number for number in range(1, 5)},
}  # fmt: skip
"""X11's names of keys that are not characters."""

_CHARACTERS = dict(zip(
    "space exclam quotedbl numbersign dollar percent ampersand apostrophe parenleft parenright asterisk plus comma "
    "minus period slash colon semicolon less equal greater question at bracketleft backslash bracketright asciicircum "
    "underscore grave braceleft bar braceright asciitilde nobreakspace exclamdown cent sterling currency yen brokenbar "
    "section diaeresis copyright guillemotleft notsign registered degree plusminus acute mu paragraph onequarter "
    "onehalf threequarters questiondown multiply division ssharp adiaeresis odiaeresis udiaeresis EuroSign".split(),
    " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\xa0¡¢£¤¥¦§¨©«¬®°±´µ¶¼½¾¿×÷ßäöü€",  # noqa: RUF001 - signs are meant
    strict=True,
))  # fmt: skip
"""X11's names of characters."""

_ALIASES = {
    "enter": "Return", "ret": "Return", "newline": "Return", "esc": "Escape", "del": "Delete", "ins": "Insert",
    "backspace": "BackSpace", "bksp": "BackSpace", "back": "BackSpace", "pageup": "Prior", "page_up": "Prior",
    "pgup": "Prior", "pagedown": "Next", "page_down": "Next", "pgdn": "Next", "pgdown": "Next",
    "arrowleft": "Left", "arrowright": "Right", "arrowup": "Up", "arrowdown": "Down", "leftarrow": "Left",
    "rightarrow": "Right", "uparrow": "Up", "downarrow": "Down", "capslock": "Caps_Lock", "numlock": "Num_Lock",
    "scrolllock": "Scroll_Lock", "printscreen": "Print", "prtsc": "Print", "sysrq": "Sys_Req", "contextmenu": "Menu",
    "apps": "Menu", "ctrl": "Control_L", "control": "Control_L", "ctl": "Control_L", "lctrl": "Control_L",
    "rctrl": "Control_R", "shift": "Shift_L", "lshift": "Shift_L", "rshift": "Shift_R", "alt": "Alt_L",
    "option": "Alt_L", "opt": "Alt_L", "lalt": "Alt_L", "ralt": "Alt_R", "altgr": "ISO_Level3_Shift", "meta": "Super_L",
    "super": "Super_L", "win": "Super_L", "windows": "Super_L", "cmd": "Super_L", "command": "Super_L",
    "hyper": "Hyper_L", "spacebar": "space",
}  # fmt: skip
"""Names that people and models commonly use for keys."""

_LOWERED = {name.lower(): keysym for name, keysym in NAMED.items()}
_LOWERED_CHARACTERS = {name.lower(): character for name, character in _CHARACTERS.items()}
SHIFTS = frozenset({NAMED["Shift_L"], NAMED["Shift_R"]})
_SHIFTED = {NAMED["Tab"]: NAMED["ISO_Left_Tab"]} | {
    ord(plain): ord(shifted)
    for plain, shifted in zip(
        "abcdefghijklmnopqrstuvwxyz1234567890-=[]\\;',./`",
        'ABCDEFGHIJKLMNOPQRSTUVWXYZ!@#$%^&*()_+{}|:"<>?~',
        strict=True,
    )
}
"""Keysyms of keys while Shift is held: for the plain one, a server would release Shift or press Caps Lock."""
_WITH_SHIFT = {ord(character) for character in map(chr, _SHIFTED.values()) if character.isascii()}


def to_press(character: str) -> list[int]:
    """Return the keys to press for a character, Shift first: without Shift the server would press Caps Lock for `A`."""
    key = of_character(character)
    return [NAMED["Shift_L"], key] if key in _WITH_SHIFT else [key]


def of_character(character: str) -> int:
    code = ord(character)
    if character in _TYPED:
        return _TYPED[character]
    if code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000:
        raise DeskError(f"no key can type the character {character!r}")
    return code if code < 0x100 else _UNICODE + code


def _of_name(name: str) -> int:
    """Return a key by name: X11's name, a common one, or the character itself."""
    if len(name) == 1:
        return of_character(name)
    lowered = name.lower()
    lowered = _ALIASES.get(lowered, lowered).lower()
    if lowered in _LOWERED:
        return _LOWERED[lowered]
    if lowered in _LOWERED_CHARACTERS:
        return of_character(_LOWERED_CHARACTERS[lowered])
    if name[:1] in "Uu" and 4 <= len(name[1:].removeprefix("+")) <= 6:
        try:
            return of_character(chr(int(name[1:].removeprefix("+"), 16)))
        except (ValueError, OverflowError):
            pass
    raise DeskError(f"unknown key {name[:40]!r}; use an X11 name, such as Return, Escape, Page_Up, F5, ctrl, a")


def of_chord(chord: str) -> list[int]:
    """Return the keys of a chord such as `ctrl+shift+t`, in the order in which they go down."""
    names = chord.removesuffix("+").removesuffix("+").split("+") if chord.endswith("++") else chord.split("+")
    if len(chord) == 1:
        return to_press(chord)
    if chord.endswith("++"):
        names.append("+")
    if len(names) > 8 or not all(names):
        raise DeskError(f"{chord[:40]!r} is not a key combination; write it like ctrl+shift+t")
    if len(names) > 1:  # the names are of keys, not of the characters that Shift makes of them
        names = [name.lower() if len(name) == 1 else name for name in names]
    keys = [_of_name(name) for name in names]
    return [_SHIFTED.get(key, key) for key in keys] if SHIFTS & set(keys) else keys


def of_chords(text: str) -> list[list[int]]:
    """Return the chords of a text such as `ctrl+a Delete`, in order."""
    return [of_chord(" ")] if text == " " else [of_chord(chord) for chord in text.split()]
