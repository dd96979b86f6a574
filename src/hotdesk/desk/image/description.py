"""Describe an image's contents in a sentence for planners and workers, without opening a desk.

Versions come from the image's own package records. An imported image or one saved from a desk is hostile: only names in
the tables below and plain version numbers are taken from its records.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.desk.image.image import Image, find
from hotdesk.errors import BriefError, ImageError

MAX_RECORD_BYTES = 16 << 20
"""Maximum bytes of a package list; a longer one is ignored."""
MAX_NAMES = 10_000
"""Maximum entries read from a folder of libraries."""
STATUS = "/var/lib/dpkg/status"
RELEASE = "/usr/lib/os-release"
PROGRAMS = {
    "libreoffice-calc": "LibreOffice Calc {} (`soffice --headless`)",
    "libreoffice-writer": "LibreOffice Writer",
    "libreoffice-impress": "LibreOffice Impress",
    "tesseract-ocr": "tesseract {} (OCR)",
    "tesseract-ocr-eng": "tesseract language eng",
    "poppler-utils": "poppler {} (pdftotext, pdftoppm)",
    "chromium": "Chromium {}",
    "nodejs": "Node {}",
    "npm": "npm {}",
    "git": "git {}",
    "ripgrep": "ripgrep",
    "sqlite3": "sqlite3 {}",
    "jq": "jq",
    "curl": "curl",
    "python3-uno": "Python UNO bridge",
    "python3-tk": "Python tkinter",
    "xdotool": "xdotool (needs DISPLAY=:0, and a screen: the first use of a screen or browser tool starts it)",
    "scrot": "scrot (saves the screen to a file)",
    "tkremind": "TkRemind (`tkremind`)",
    "gcc": "gcc {}",
    "imagemagick": "ImageMagick {}",
    "ffmpeg": "ffmpeg {}",
    "pandoc": "pandoc {}",
}
"""Debian packages to mention, and the text for each; `{}` is the version."""
LIBRARIES = (
    "openpyxl", "xlsxwriter", "pandas", "numpy", "scipy", "matplotlib", "pdfplumber", "pypdf", "pypdfium2", "reportlab",
    "python_docx", "python_pptx", "pillow", "lxml", "beautifulsoup4", "requests", "httpx", "sqlalchemy", "scikit_learn",
    "polars", "pyarrow", "ipython", "pytest", "cryptography",
)  # fmt: skip
"""Python distributions to mention."""
_STANZA = re.compile(rb"^Package: ([a-z0-9+.-]{1,60})$(.*?)(?=^Package: |\Z)", re.MULTILINE | re.DOTALL)
_VERSION = re.compile(rb"^Version: (?:\d{1,4}:)?(\d{1,8}(?:\.\d{1,8}){0,2})", re.MULTILINE)
_INSTALLED = b"\nStatus: install ok installed\n"
_DISTRIBUTION = re.compile(r"([a-z0-9_]{1,40})-(\d{1,8}(?:\.\d{1,8}){0,3})[a-z0-9.+]{0,20}\.dist-info", re.IGNORECASE)
_PYTHON = re.compile(r"python3\.\d{1,2}")
_DEBIAN = re.compile(rb'^VERSION_ID="(\d{1,3})"$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """The digest and description of an image; both empty if there is no such image."""

    digest: str = ""
    text: str = ""
    """A sentence: system, Python and its libraries, programs."""


def read_image_facts(store: Path, name: str) -> ImageFacts:
    """Return the digest and description of an image on this machine."""
    try:
        image = find(store, name)
    except (BriefError, ImageError):
        return ImageFacts()
    return ImageFacts(image.digest, describe_image(store, name))


def describe_image(store: Path, name: str) -> str:
    """Describe an image's system, Python and its libraries, and programs. Empty if nothing is known."""
    try:
        return describe(find(store, name))
    except (BriefError, ImageError, OSError):
        return ""


def describe(image: Image) -> str:
    packages = dict(_read_packages(image))
    release = _DEBIAN.search(_read(image, RELEASE))
    system = f"Debian {release[1].decode()}" if release and packages else ""
    libraries = [f"{each.replace('_', '-')} {version}" for each, version in sorted(_read_libraries(image).items())]
    python = f"Python {packages['python3']}" if packages.get("python3") else ""
    if libraries:
        python = f"{python or 'Python'} with {', '.join(libraries)}"
    programs = [text.format(packages[each]).strip() for each, text in PROGRAMS.items() if each in packages]
    parts = [system, python, f"programs: {', '.join(programs)}" if programs else ""]
    content = "; ".join(filter(None, parts))
    return f"Image `{image.name}`: {content}." if content else f"Image `{image.name}`."


def _read_packages(image: Image) -> Iterator[tuple[str, str]]:
    for name, fields in _STANZA.findall(_read(image, STATUS)):
        if (name.decode() in PROGRAMS or name == b"python3") and _INSTALLED in fields:
            version = _VERSION.search(fields)
            yield name.decode(), version[1].decode() if version else ""


def _read_libraries(image: Image) -> dict[str, str]:
    """Return the known Python libraries, each with the version that is imported: that of the first folder."""
    found: dict[str, str] = {}
    for folder in (*_list_local_folders(image), "/usr/lib/python3/dist-packages"):
        for name in _list_names(image, folder):
            match = _DISTRIBUTION.fullmatch(name)
            if match and match[1].lower() in LIBRARIES:
                found.setdefault(match[1].lower(), match[2])
    return found


def _list_local_folders(image: Image) -> Iterator[str]:
    for name in sorted(filter(_PYTHON.fullmatch, _list_names(image, "/usr/local/lib"))):
        yield f"/usr/local/lib/{name}/dist-packages"


def _list_names(image: Image, path: str) -> list[str]:
    """Return the names in a folder as a desk sees them, those of the topmost layer first."""
    found: dict[str, bool] = {}
    for folder, mode in image.find_places(path):
        if not stat.S_ISDIR(mode):
            break
        with os.scandir(folder) as entries:
            for entry in islice(entries, MAX_NAMES):
                found.setdefault(
                    entry.name, entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)
                )
    return [name for name, is_shown in found.items() if is_shown]


def _read(image: Image, path: str) -> bytes:
    place = image.find_file(path)
    if place is None:
        return b""
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MAX_RECORD_BYTES + 1)
    return data if len(data) <= MAX_RECORD_BYTES else b""
