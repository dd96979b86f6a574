"""Windows, programs and the clipboard of a desk's desktop. All results are untrusted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import anyio

from hotdesk.dataclass import dataclass
from hotdesk.desk.owner.runtime import SESSION
from hotdesk.desk.seam import Done
from hotdesk.errors import DeskError, make_printable
from hotdesk.hands.screen.reader_client import Seat

_Selection: TypeAlias = Literal["clipboard", "primary"]
SELECTIONS: tuple[_Selection, ...] = ("clipboard", "primary")
COMMAND_TIMEOUT_S = 20.0
_MAX_WINDOWS = 200
MAX_TITLE_CHARS = 200
MAX_OUTPUT_BYTES = 1 << 20
LIST = r"""
for id in $(xprop -root -notype _NET_CLIENT_LIST | sed 's/.*#//; s/,//g'); do
    place=$(xdotool getwindowgeometry --shell "$id" | sed -n -E 's/^(X|Y|WIDTH|HEIGHT)=//p' | tr '\n' ' ')
    pid=$(xdotool getwindowpid "$id" || echo 0)
    class=$(xprop -id "$id" -notype WM_CLASS | sed -n 's/.*, "\(.*\)"/\1/p' | tr -d ' ')
    echo "$id $place $pid $class $(xdotool getwindowname "$id" | tr '\n' ' ')"
done 2>/dev/null
"""
"""Lists windows, one in each line; a window that closes meanwhile leaves an invalid line."""
LINE = re.compile(r"(0x[0-9a-f]{1,8})((?: +-?\d{1,9}){4}) +(\d{1,9}) (\S*) (.*)")
PLACE = re.compile(rb"x:(\d{1,5}) y:(\d{1,5}) ")


@dataclass(frozen=True, slots=True)
class Window:
    """A window as its program describes it."""

    id: str
    pid: int
    x: int
    y: int
    width: int
    height: int
    program: str
    title: str


async def run(seat: Seat, argv: Sequence[str], stdin: bytes = b"") -> Done:
    return await seat.desk.run([SESSION, *argv], stdin=stdin, timeout=COMMAND_TIMEOUT_S, output_limit=MAX_OUTPUT_BYTES)


async def list_windows(seat: Seat) -> list[Window]:
    done = await run(seat, ["sh", "-c", LIST])
    if not done.ok:
        raise DeskError(
            f"the windows of desk {seat.desk.id} cannot be listed: {_describe_failure(done)}; "
            "the desk's window manager may have ended: open another desk"
        )
    found = (LINE.fullmatch(line) for line in done.text.splitlines()[:_MAX_WINDOWS])
    return [_parse_window(match) for match in found if match is not None]


def _parse_window(match: re.Match[str]) -> Window:
    identity, numbers, pid, program, title = match.groups()
    x, y, width, height = map(int, numbers.split())
    return Window(identity, int(pid), x, y, width, height, _sanitize_title(program), _sanitize_title(title.strip()))


def _sanitize_title(text: str) -> str:
    return make_printable(text)[:MAX_TITLE_CHARS]


async def focus(seat: Seat, query: str) -> Window:
    there = await list_windows(seat)
    for each in there:
        if query == each.id or (query and query.casefold() in each.title.casefold()):
            done = await run(seat, ["wmctrl", "-i", "-a", each.id])
            if done.ok:
                return each
            raise DeskError(f"window {each.id} cannot be brought to the front: {_describe_failure(done)}")
    titles = "; ".join(f"{each.id} {each.title[:60]}" for each in there[:20]) or "none"
    raise DeskError(f"no window matches {query[:60]!r}; the windows are: {titles}")


async def launch(seat: Seat, argv: Sequence[str]) -> int:
    """Start a program in the desktop and leave it running; return its process id. `DeskError`: it did not start."""
    process = await seat.desk.start([SESSION, *argv], stdin=False)
    with anyio.move_on_after(0.3):
        done = await process.wait()
        if done.exit_code in (126, 127):
            raise DeskError(f"{argv[0]} does not start: the program does not exist, or cannot be executed")
        if not done.ok:
            raise DeskError(f"{argv[0]} ended at once with exit code {done.exit_code}")
    await process.detach()
    return process.pid


async def put(seat: Seat, text: str, selection: _Selection = "clipboard") -> None:
    # The program that owns the clipboard keeps running, and must not keep our output pipe open.
    line = f"exec xclip -selection {selection} -in >/dev/null 2>&1"
    if not (done := await run(seat, ["sh", "-c", line], text.encode())).ok:
        raise DeskError(
            f"the text cannot be put on the clipboard ({_describe_failure(done)}); try again, or write it to a file"
        )


async def read_clipboard(seat: Seat, selection: _Selection = "clipboard") -> str:
    """Return the text on the clipboard; empty if there is none."""
    done = await run(seat, ["xclip", "-selection", selection, "-out", "-target", "UTF8_STRING"])
    if done.truncated:
        raise DeskError(f"the clipboard has more than {MAX_OUTPUT_BYTES >> 20} MiB, which is the limit")
    if done.timed_out:
        raise DeskError(f"the program whose text is on the clipboard did not respond within {COMMAND_TIMEOUT_S:g} s")
    return done.text if done.ok else ""


async def find_pointer(seat: Seat) -> tuple[int, int]:
    done = await run(seat, ["xdotool", "getmouselocation"])
    if (match := PLACE.match(done.stdout)) is None:
        raise DeskError(f"the position of the pointer could not be read: {_describe_failure(done)}; try again")
    return int(match[1]), int(match[2])


def _describe_failure(done: Done) -> str:
    words = make_printable(done.stderr.decode("utf-8", "replace").strip()[-200:])
    return words or ("it took too long" if done.timed_out else f"exit code {done.exit_code}")
