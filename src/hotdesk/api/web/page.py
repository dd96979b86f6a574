"""Serves the page's files with their security headers; they are read once, so that no request chooses a path."""

from __future__ import annotations

import gzip
import hashlib
from importlib.resources import files
from pathlib import Path

import anyio
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from hotdesk.api.web.content import Content, get_content_name, get_content_origin
from hotdesk.dataclass import dataclass
from hotdesk.errors import HostError
from hotdesk.hands import page as viewer
from hotdesk.hands.page import novnc
from hotdesk.hands.page.server import PageFile

INDEX = "index.html"
ELSEWHERE = frozenset({"localhost", "[::1]"})
"""Names that redirect to the one people sign in at: desks' ports are below `localhost`."""
_NO_VIEWER = (
    "noVNC, which shows a desk's screen, is not installed on this server. Run `hotdesk setup` there, then reload this "
    "page. The terminal and the files work without it."
)
ALWAYS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "cache-control": "no-cache",
    "vary": "accept-encoding",
}


@dataclass(frozen=True, slots=True)
class WebFile:
    media: str
    plain: bytes
    packed: bytes
    """The same bytes, compressed with gzip."""
    tag: str
    """Its entity tag."""


class WebPage:
    """Serves the page at the server's own name, and desks' content at the other."""

    def __init__(self, content: Content, lib: Path, name: str = "127.0.0.1") -> None:
        self.content = content
        self.name = name
        """The only name at which people on this machine sign in."""
        self.files = _read_files()
        self.lib = lib
        """The state directory, below which noVNC is installed."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Headers(scope=scope).get("host", "")
        name, port = _split_host(host)
        if name == get_content_name(self.content.domain):
            await self.content(scope, receive, send)
        elif name in ELSEWHERE:
            home = f"{scope['scheme']}://{self.name}{port}/"
            await RedirectResponse(home, 307, self.make_headers(scope, host))(scope, receive, send)
        else:
            await (await self.answer(scope, host))(scope, receive, send)

    async def answer(self, scope: Scope, host: str) -> Response:
        rules = self.make_headers(scope, host)
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            return JSONResponse({"code": "page.method", "message": "the page only supports GET and HEAD"}, 405, rules)
        path: str = scope["path"]
        file = await self.find(INDEX if path == "/" else path.removeprefix("/web/"))
        if file is None:
            message = _NO_VIEWER if path == f"/web/{viewer.LIBRARY}" else "file not found"
            return JSONResponse({"code": "page.none", "message": message}, 404, rules)
        headers = Headers(scope=scope)
        rules["etag"] = file.tag
        if headers.get("if-none-match") == file.tag:
            return Response(None, 304, rules)
        if "gzip" in headers.get("accept-encoding", ""):
            return Response(file.packed, 200, {**rules, "content-encoding": "gzip"}, file.media)
        return Response(file.plain, 200, rules, file.media)

    def make_headers(self, scope: Scope, host: str) -> dict[str, str]:
        return {**ALWAYS, "content-security-policy": format_policy(scope["scheme"], host, self.content.domain)}

    async def find(self, name: str) -> WebFile | None:
        """Find a file by name; the screen's large script is assembled on first use."""
        if name == viewer.LIBRARY and name not in self.files:
            file = await anyio.to_thread.run_sync(load_library, novnc.get_folder(self.lib))
            self.files |= {} if file is None else {name: file}
        return self.files.get(name)


def _split_host(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    return (name.lower(), f":{port}") if colon and port.isdecimal() else (host.lower(), "")


def format_policy(scheme: str, host: str, domain: str) -> str:
    streams = f"{'wss' if scheme == 'https' else 'ws'}://{host}"
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            f"connect-src 'self' {streams}",
            f"frame-src {get_content_origin(scheme, host, domain)}",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _read_files() -> dict[str, WebFile]:
    found = (each for each in (files(__package__) / "static").iterdir() if each.is_file())
    return {each.name: _as_file(viewer.read_file(each)) for each in found}


def load_library(folder: Path) -> WebFile | None:
    """Read noVNC, which shows a desk's screen; `None` if it is not installed."""
    try:
        return _as_file(viewer.load_library(folder))
    except HostError:
        return None


def _as_file(file: PageFile) -> WebFile:
    tag = f'"{hashlib.sha256(file.data).hexdigest()[:32]}"'
    return WebFile(file.media, file.data, gzip.compress(file.data, mtime=0), tag)
