"""All tools of one desk that its image supports, in one toolbox."""

from __future__ import annotations

from hotdesk.desk.owner.runtime import SESSION
from hotdesk.errors import FileError
from hotdesk.event import Note
from hotdesk.hands.browser.browser import Browser
from hotdesk.hands.files import Files
from hotdesk.hands.packages import Packages
from hotdesk.hands.picture import Sight
from hotdesk.hands.screen.reader_client import DISPLAY, DeskSeat
from hotdesk.hands.screen.screen import Screen
from hotdesk.hands.script_tools import Exact
from hotdesk.hands.search import Search
from hotdesk.hands.shell import Shell
from hotdesk.hands.toolbox import Toolbox, WheelState
from hotdesk.hands.vision import LOOK, VisionTool
from hotdesk.tool import Hand, Tool, Vision


async def make_toolbox(
    seat: DeskSeat, note: Note, wheel: WheelState, vision: Vision | None = None, *, exact: bool = False
) -> Toolbox:
    """Return the tools of a desk; those of screen and browser if its image has them."""
    desk = seat.desk
    screen = await has_screen(seat)
    sight = Sight(look=vision is not None)
    hands: list[Hand] = [Shell(desk, DISPLAY if screen else {}), Files(desk, sight), Search(desk), Packages(desk)]
    if vision is not None:
        hands.append(VisionTool(desk, vision))
    if screen:
        hands += [Screen(seat), Browser(seat)]
    if exact:
        hands.append(Exact(desk))
    return Toolbox(hands, note, wheel, desk.id, note_in_thread=True, sight=sight)


def list_tools(*, screen: bool, vision: bool, exact: bool) -> tuple[Tool, ...]:
    tools = [*Shell.tools, *Files.tools, *Search.tools, *Packages.tools]
    tools += [LOOK] if vision else []
    tools += [*Screen.tools, *Browser.tools] if screen else []
    tools += Exact.tools if exact else ()
    return tuple(tools)


async def has_screen(seat: DeskSeat) -> bool:
    try:
        await seat.desk.stat(SESSION)
    except FileError:
        return False
    return True
