"""Observe a page: as markdown, as a tree with references, as a picture, or by an expression."""

from __future__ import annotations

import base64
import binascii
import fnmatch

from hotdesk.errors import DeskError, make_printable
from hotdesk.hands.reader import ProtocolError, VerbResult, scripts
from hotdesk.hands.reader.cdp import CdpError
from hotdesk.hands.reader.markdown import MAX_OUTLINE_CHARS, to_markdown
from hotdesk.hands.reader.page import OBJECT_GROUP, BrowserPage, Countdown, describe_exception
from hotdesk.hands.reader.tree import Node, cut, read_nodes, to_lines
from hotdesk.hands.reader.untrusted import UntrustedObject

MAX_PICTURE_BYTES = 16 << 20
TALLEST, WIDEST = 16_000, 8_000
_PICTURE_SECONDS = 30.0
_MAX_ELEMENTS = 10_000
"""Elements a page may have for a snapshot: its tree is one message with some kilobytes for each element."""
MAX_FRAMES = 20
MAGIC = {"png": b"\x89PNG\r\n\x1a\n", "jpeg": b"\xff\xd8\xff"}


async def read(page: BrowserPage, start: int, most: int) -> dict[str, object]:
    outline = await page.look(scripts.OUTLINE, MAX_OUTLINE_CHARS // 2)
    text = to_markdown(outline.data.get("tree")).encode("utf-8", "replace").decode()
    return {**cut(text, start, most), "whole": not outline.flag("cut")}


async def take_snapshot(page: BrowserPage, start: int, most: int) -> dict[str, object]:
    elements = (await page.look(scripts.READY)).read_integer("elements")
    if elements > _MAX_ELEMENTS:
        raise DeskError(
            f"the page has {elements} elements, more than the {_MAX_ELEMENTS} that a snapshot can contain: "
            "use browser_read, browser_evaluate or browser_screenshot"
        )
    nodes = read_nodes(await page.ask("Accessibility.getFullAXTree"))
    hidden = await _put_frames(page, nodes)
    text = "\n".join(to_lines(nodes, page.tab.references.refer)).encode("utf-8", "replace").decode()
    return {**cut(text, start, most), "hidden": hidden}


async def _put_frames(page: BrowserPage, nodes: list[Node]) -> int:
    """Insert the trees of frames at their places; return how many frames are not accessible."""
    owners = {node.backend: node for node in nodes if node.role in ("Iframe", "IframePresentational")}
    if not owners:
        return 0
    for frame in _list_frames((await page.ask("Page.getFrameTree")).read_object("frameTree"))[:MAX_FRAMES]:
        try:
            owner = (await page.ask("DOM.getFrameOwner", frameId=frame)).read_integer("backendNodeId")
            inner = read_nodes(await page.ask("Accessibility.getFullAXTree", frameId=frame))
        except CdpError:  # the frame has a process of its own, or is gone
            continue
        if owner in owners and inner:
            owners[owner].frame = inner
            owners.update({node.backend: node for node in inner if node.role in ("Iframe", "IframePresentational")})
    return sum(not node.frame for node in owners.values())


def _list_frames(tree: UntrustedObject, depth: int = 0) -> list[str]:
    found: list[str] = []
    for child in tree.read_objects("childFrames")[:MAX_FRAMES] if depth < 10 else []:
        found += [child.read_object("frame").read_text("id", 100), *_list_frames(child, depth + 1)]
    return found


async def take_screenshot(page: BrowserPage, full: bool, ref: str, form: str, quality: int) -> VerbResult:
    """Take a picture of the viewport, the whole page or one element. It is passed on unread."""
    parameters: dict[str, object] = {"format": form}
    if form == "jpeg":
        parameters["quality"] = quality
    if ref or full:
        parameters |= {
            "clip": await (_measure_box(page, ref) if ref else _measure_page(page)),
            "captureBeyondViewport": True,
        }
    data = (await page.ask_within(_PICTURE_SECONDS, "Page.captureScreenshot", **parameters)).data.get("data")
    if not isinstance(data, str) or len(data) > MAX_PICTURE_BYTES * 4 // 3 + 4:
        raise ProtocolError(f"the browser's picture is missing, or has more than {MAX_PICTURE_BYTES} bytes")
    try:
        picture = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as e:
        raise ProtocolError("the browser's picture is not base64") from e
    if not picture.startswith(MAGIC[form]):
        raise ProtocolError(f"the browser's picture is not in the format {form}")
    return VerbResult({}, picture)


async def _measure_box(page: BrowserPage, ref: str) -> dict[str, float]:
    area = await page.apply(ref, scripts.BOX)
    if area.flag("framed"):
        raise DeskError(f"{ref} is inside a frame: take a screenshot of the page instead")
    return _clip_area(area)


async def _measure_page(page: BrowserPage) -> dict[str, float]:
    return _clip_area((await page.ask("Page.getLayoutMetrics")).read_object("cssContentSize"))


def _clip_area(area: UntrustedObject) -> dict[str, float]:
    """Return the area of a picture, limited to the largest allowed size."""
    width, height = area.read_number("width"), area.read_number("height")
    if width < 1 or height < 1:
        raise DeskError("the element has no size, so it cannot be captured")
    box = {"x": max(area.read_number("x"), 0), "y": max(area.read_number("y"), 0)}
    return {**box, "width": min(width, WIDEST), "height": min(height, TALLEST), "scale": 1}


async def evaluate(page: BrowserPage, expression: str, most: int, seconds: float) -> dict[str, object]:
    """Evaluate an expression to JSON, which is cut to a length inside the page."""
    wrapped = scripts.EVALUATE.replace("EXPRESSION", expression, 1).replace("LIMIT", str(most))
    reply = await _evaluate_raw(page, wrapped, seconds, returnByValue=True)
    if "exceptionDetails" not in reply:
        return _read_outcome(reply.read_object("result").read_object("value"), most)
    reply = await _evaluate_raw(page, expression, seconds, replMode=True)
    if "exceptionDetails" in reply:
        raise DeskError(f"the expression could not be evaluated: {describe_exception(reply)}")
    result = reply.read_object("result")
    if not (handle := result.read_text("objectId", 200)):
        value = result.data.get("value", result.data.get("unserializableValue", "undefined"))
        text = value if isinstance(value, str) else str(value).lower()
        return _read_outcome(UntrustedObject({"text": text[:most], "length": len(text)}), most)
    page.holds = True
    return _read_outcome(await page.run(scripts.BOUND, (most,), objectId=handle), most)


async def _evaluate_raw(page: BrowserPage, expression: str, seconds: float, **how: object) -> UntrustedObject:
    """Evaluate in the page's own world; an expression that exceeds its time is terminated."""
    clock = Countdown(seconds)
    try:
        return await page.ask_within(
            seconds + 1,
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            userGesture=True,
            timeout=int(seconds * 1000),
            objectGroup=OBJECT_GROUP,
            **how,
        )
    except (CdpError, DeskError):
        if clock.over:
            raise DeskError(f"the expression did not end within {seconds:g} seconds") from None
        raise


def _read_outcome(value: UntrustedObject, most: int) -> dict[str, object]:
    if "thrown" in value:
        raise DeskError(f"the expression threw an error: {make_printable(value.read_text('thrown', 2000))}")
    return {"text": value.read_text("text", most), "length": value.read_integer("length")}


async def wait_for(page: BrowserPage, what: str, value: str, seconds: float) -> dict[str, object]:
    """Wait for a condition; return whether it was met in time."""
    clock = Countdown(seconds)
    while True:
        if await _is_so(page, what, value):
            return {"met": True}
        if clock.over:
            return {"met": False}
        await page.pause(min(0.1, clock.remaining))


async def _is_so(page: BrowserPage, what: str, value: str) -> bool:
    match what:
        case "url":
            return fnmatch.fnmatchcase(page.tab.url, value)
        case "load":
            return "load" in page.tab.stages
        case "idle":
            return "networkIdle" in page.tab.stages
        case "ref":
            return not (await page.apply(value, scripts.POINT)).flag("hidden")
    try:
        found = (await page.look(scripts.HOLDS, value)).flag("found")
    except CdpError:  # the page is navigating
        return False
    return found == (what == "text")
