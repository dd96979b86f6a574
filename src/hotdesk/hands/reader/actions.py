"""Act on a page by reference: click, fill, select, upload, press, hover, scroll."""

from __future__ import annotations

from hotdesk.errors import DeskError, make_printable
from hotdesk.hands.reader import scripts
from hotdesk.hands.reader.keys import read_stroke
from hotdesk.hands.reader.page import BrowserPage
from hotdesk.hands.reader.untrusted import UntrustedObject, clip

BUTTONS = {"left": 1, "right": 2, "middle": 4}
TRUE = ("true", "on", "yes", "1", "checked")
_FALSE = ("false", "off", "no", "0", "")
_CHOOSER_SECONDS = 5.0
_MAX_VALUE_CHARS = 200_000


async def click(page: BrowserPage, ref: str, button: str = "left", count: int = 1) -> dict[str, object]:
    """Click an element at a point that is not covered; if there is none, use the keyboard."""
    point = await _find_point(page, ref)
    covered = make_printable(point.read_text("by", 200))
    if covered:
        return await _press_covered(page, ref, covered, plain=(button, count) == ("left", 1))
    x, y = point.read_number("x"), point.read_number("y")
    await move(page, x, y)
    for number in range(1, count + 1):
        await _send_mouse_event(page, "mousePressed", x, y, button, number)
        await _send_mouse_event(page, "mouseReleased", x, y, button, number)
    await page.settle()
    if point.flag("aside"):
        return {"fallback": "coordinates", "covered": make_printable(point.read_text("covered", 200))}
    return {}


async def _find_point(page: BrowserPage, ref: str) -> UntrustedObject:
    point = await page.apply(ref, scripts.POINT)
    if point.flag("hidden"):
        raise DeskError(
            f"{ref} is not visible on the page: open the menu or section that contains it, then take a new snapshot"
        )
    return point


async def _press_covered(page: BrowserPage, ref: str, covered: str, plain: bool) -> dict[str, object]:
    """Use the keyboard on an element that something covers, as a person would with Tab."""
    focus = await page.apply(ref, scripts.FOCUS)
    if not plain or not focus.flag("focused"):
        raise DeskError(f"{ref} is covered by {covered}: close or move the covering element first")
    await press(page, [focus.read_text("key", 10)])
    return {"fallback": "keyboard", "covered": covered}


async def move(page: BrowserPage, x: float, y: float) -> None:
    await page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)


async def _send_mouse_event(page: BrowserPage, kind: str, x: float, y: float, button: str, count: int) -> None:
    buttons = BUTTONS[button] if kind == "mousePressed" else 0
    await page.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=buttons, clickCount=count)


async def hover(page: BrowserPage, ref: str) -> dict[str, object]:
    point = await _find_point(page, ref)
    await move(page, point.read_number("x"), point.read_number("y"))
    await page.settle()
    return {"covered": make_printable(point.read_text("by", 200))}


async def press(page: BrowserPage, keys: list[str]) -> dict[str, object]:
    for stroke in [read_stroke(key) for key in keys]:
        await page.ask("Input.dispatchKeyEvent", **stroke.make_down_event())
        await page.ask("Input.dispatchKeyEvent", **stroke.make_up_event())
    await page.settle()
    return {}


async def insert(page: BrowserPage, text: str) -> dict[str, object]:
    await page.ask("Input.insertText", text=text)
    await page.settle()
    return {}


async def fill(page: BrowserPage, ref: str, text: str) -> dict[str, object]:
    """Fill a field, and verify its value."""
    field = await page.apply(ref, scripts.FIELD)
    kind = field.read_text("kind")
    if field.flag("disabled") or (field.flag("fixed") and kind == "text"):
        raise DeskError(f"{ref} is disabled or read-only: it cannot be filled")
    match kind:
        case "select":
            return await select(page, ref, [text])
        case "check":
            return await check(page, ref, text, field.flag("checked"))
        case "set":
            await page.apply(ref, scripts.SET, text)
        case "text":
            await _fill_text(page, ref, text, field)
        case "file":
            raise DeskError(f"{ref} is a file field: use browser_upload")
        case _:
            raise DeskError(
                f"{ref} is not a form field: take a new snapshot, and use the reference of a textbox or similar"
            )
    await page.settle()
    return compare(text, await page.apply(ref, scripts.FIELD))


async def _fill_text(page: BrowserPage, ref: str, text: str, field: UntrustedObject) -> None:
    selection = await page.apply(ref, scripts.SELECT_ALL)
    if not selection.flag("focused"):
        raise DeskError(f"{ref} does not take the focus: click it first, or the element that covers it")
    if text:
        await page.ask("Input.insertText", text=text)
    elif field.read_text("value"):
        await press(page, ["Delete"])


def compare(meant: str, field: UntrustedObject) -> dict[str, object]:
    holds = field.read_text("value", _MAX_VALUE_CHARS)
    editable = field.flag("editable")
    same = _normalize_text(holds, editable) == _normalize_text(meant, editable)
    return {"as_meant": same, "holds": "" if same else make_printable(holds[:500])}


def _normalize_text(text: str, editable: bool) -> str:
    """Return a text for comparison: with uniform line ends, and for an editable element without empty lines."""
    text = text.replace("\r\n", "\n").replace("\u00a0", " ")
    return "\n".join(line for line in text.split("\n") if line) if editable else text


async def check(page: BrowserPage, ref: str, text: str, checked: bool) -> dict[str, object]:
    if text.lower() not in TRUE + _FALSE:
        raise DeskError(f"{ref} is a checkbox: fill it with true or false")
    clicked: dict[str, object] = {}
    if checked != (expected := text.lower() in TRUE):
        clicked = await click(page, ref)
        checked = (await page.apply(ref, scripts.FIELD)).flag("checked")
    return {**clicked, "as_meant": checked == expected, "holds": "" if checked == expected else str(checked).lower()}


async def select(page: BrowserPage, ref: str, values: list[str]) -> dict[str, object]:
    result = await page.apply(ref, scripts.CHOOSE, values)
    if result.flag("other"):
        raise DeskError(f"{ref} is not a select list: click it, take a new snapshot, and click the option")
    if "known" in result:
        labels = ", ".join(make_printable(clip(one, 100)) for one in result.read_list("known")[:50])
        single = result.flag("single") and not result.read_list("missing")
        why = "accepts only one option" if single else "has no such option"
        raise DeskError(f"{ref} {why}; its options are: {labels}")
    await page.settle()
    return {"text": "chosen: " + ", ".join(make_printable(clip(one, 100)) for one in result.read_list("chosen")[:50])}


async def upload(page: BrowserPage, ref: str, paths: list[str]) -> dict[str, object]:
    field = await page.apply(ref, scripts.FIELD)
    number = page.tab.references.find(ref)
    if field.read_text("kind") != "file":
        number = await _open_chooser(page, ref)
    await page.ask("DOM.setFileInputFiles", files=paths, backendNodeId=number)
    await page.settle()
    if field.read_text("kind") != "file":
        return {}
    holds = (await page.apply(ref, scripts.FIELD)).read_text("value")
    meant = ", ".join(path.rpartition("/")[2] for path in paths)
    return {"as_meant": holds == meant, "holds": "" if holds == meant else make_printable(holds[:500])}


async def _open_chooser(page: BrowserPage, ref: str) -> int:
    """Click an element that opens a file chooser; return the node id of the chooser's field."""
    page.tab.chooser = 0
    await page.ask("Page.setInterceptFileChooserDialog", enabled=True)
    try:
        await click(page, ref)
        if not await page.cdp.wait(lambda: page.tab.chooser != 0, _CHOOSER_SECONDS):
            raise DeskError(f"{ref} is not a file field, and clicking it opens no file chooser: take a new snapshot")
    finally:
        if page.tab.dialog is None:
            await page.ask("Page.setInterceptFileChooserDialog", enabled=False)
    return page.tab.chooser


async def scroll(page: BrowserPage, ref: str, down: float, right: float) -> dict[str, object]:
    if ref:
        await _find_point(page, ref)
        return {}
    position = await page.look(scripts.SCROLL, down, right)
    end = position.read_integer("y") + position.read_integer("height")
    return {"text": f"the lower edge of the view is at pixel {end} of {position.read_integer('all')}"}
