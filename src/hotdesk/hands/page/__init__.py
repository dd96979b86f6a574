"""The page of `hotdesk watch`: its files, read once, so that no request can choose a path.

Only `index.html` and `watch.js` are its own. The stylesheet and the script that shows the screen belong to the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from hotdesk.errors import HostError
from hotdesk.hands.page.bundle import bundle
from hotdesk.hands.page.server import PageFile

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
OWN = ("index.html", "watch.js")
SHARED = ("app.css", "dom.js", "screen.js")
LIBRARY = "novnc.js"
FOLDERS = ("core", "vendor")
ENTRY = "core/rfb.js"
MAX_SCRIPT_BYTES = 1 << 20


def load(novnc: Path, shared: Traversable) -> dict[str, PageFile]:
    """Read every file of the page, by its URL below the page's folder; `shared` is the folder of the server's page."""
    own = [files(__name__) / name for name in OWN] + [shared / name for name in SHARED]
    page = {file.name.removeprefix(OWN[0]): read_file(file) for file in own}
    return {**page, LIBRARY: load_library(novnc)}


def read_file(file: Traversable) -> PageFile:
    """Read one file; its suffix gives the media type."""
    return PageFile(TYPES[Path(file.name).suffix], file.read_bytes())


def load_library(novnc: Path) -> PageFile:
    sources = dict(_read_modules(novnc))
    if ENTRY not in sources:
        raise HostError(f"noVNC, which shows a desk's screen, is missing at {novnc}; run `hotdesk setup`")
    try:
        return PageFile(TYPES[".js"], bundle(sources, ENTRY).encode())
    except HostError as e:
        raise HostError(f"{e}; delete the folder {novnc}, then run `hotdesk setup`, which fetches noVNC again") from e


def _read_modules(novnc: Path) -> Iterator[tuple[str, str]]:
    """Read noVNC's modules, except links, special files and files that are too large for a script."""
    for folder in FOLDERS:
        for path in sorted((novnc / folder).rglob("*.js")):
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= MAX_SCRIPT_BYTES:
                yield path.relative_to(novnc).as_posix(), path.read_text("utf-8", "replace")
