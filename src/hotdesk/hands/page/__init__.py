"""The files of the page that shows a desk, with noVNC's; read once, so that no request chooses a path."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from hotdesk.errors import HostError
from hotdesk.hands.web import File

OWN = {
    "": ("index.html", "text/html; charset=utf-8"),
    "view.js": ("view.js", "text/javascript; charset=utf-8"),
    "view.css": ("view.css", "text/css; charset=utf-8"),
}
SCRIPT = "text/javascript; charset=utf-8"
FOLDERS = ("core", "vendor")
PRELOAD = b"<!-- preload -->"
LARGEST = 1 << 20


def load(novnc: Path) -> dict[str, File]:
    """Read every file of the page, by its address below the page's folder."""
    scripts = dict(library(novnc))
    if "novnc/core/rfb.js" not in scripts:
        raise HostError(f"noVNC, which shows a desk's screen, is not at {novnc}: run `hotdesk setup`")
    here = files(__name__)
    page = {name: File(media, (here / file).read_bytes()) for name, (file, media) in OWN.items()}
    links = "\n".join(f'<link rel="modulepreload" href="{name}">' for name in scripts)
    page[""] = File(page[""].media, page[""].data.replace(PRELOAD, links.encode()))
    return {**page, **scripts}


def library(novnc: Path) -> list[tuple[str, File]]:
    """Read noVNC's scripts; what is no plain file, or has a strange name, is left out."""
    found = []
    for folder in FOLDERS:
        for path in sorted((novnc / folder).rglob("*.js")):
            name = path.relative_to(novnc).as_posix()
            if (
                path.is_file()
                and not path.is_symlink()
                and name.replace("/", "").replace(".", "").replace("_", "").replace("-", "").isalnum()
            ):
                found.append((f"novnc/{name}", File(SCRIPT, path.read_bytes()[:LARGEST])))
    return found
