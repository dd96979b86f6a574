"""The files of the page that shows a desk, with noVNC's as one; read once, so that no request chooses a path."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from hotdesk.errors import HostError
from hotdesk.hands.page.bundle import bundle
from hotdesk.hands.page.server import PageFile

SCRIPT = "text/javascript; charset=utf-8"
OWN = {
    "": ("index.html", "text/html; charset=utf-8"),
    "view.js": ("view.js", SCRIPT),
    "view.css": ("view.css", "text/css; charset=utf-8"),
}
LIBRARY = "novnc.js"
FOLDERS = ("core", "vendor")
ENTRY = "core/rfb.js"
LARGEST = 1 << 20


def load(novnc: Path) -> dict[str, PageFile]:
    """Read every file of the page, by its address below the page's folder."""
    sources = dict(library(novnc))
    if ENTRY not in sources:
        raise HostError(f"noVNC, which shows a desk's screen, is not at {novnc}: run `hotdesk setup`")
    here = files(__name__)
    page = {name: PageFile(media, (here / file).read_bytes()) for name, (file, media) in OWN.items()}
    return {**page, LIBRARY: PageFile(SCRIPT, bundle(sources, ENTRY).encode())}


def library(novnc: Path) -> Iterator[tuple[str, str]]:
    """Read noVNC's modules; what is no plain file, or is larger than a script is, is left out."""
    for folder in FOLDERS:
        for path in sorted((novnc / folder).rglob("*.js")):
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST:
                yield path.relative_to(novnc).as_posix(), path.read_text("utf-8", "replace")
