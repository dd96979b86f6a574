"""Inspects the package of a document or slides, apart from its text. Runs inside a clean desk."""

from __future__ import annotations

import io
import posixpath
import re
import subprocess
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import openpyxl  # type: ignore[import-untyped]
from PIL import Image

MAX_TEXT_CHARS = 500
MAX_UNPACKED_BYTES = 512 << 20
"""Maximum bytes of all parts, unpacked."""
MAX_ENTRIES = 400
MOST_NUMBERS = 4000
OLD = b"\xd0\xcf\x11\xe0"
"""First bytes of files from before Office 2007, and of encrypted ones."""
DRAWN = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp")
CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
TITLE = "{http://purl.org/dc/elements/1.1/}title"
TYPES = "{http://schemas.openxmlformats.org/package/2006/content-types}"
Element = ElementTree.Element


class OoxmlPackage:
    """An OOXML file: parts that refer to one another."""

    def __init__(self, path: str, main: str) -> None:
        with Path(path).open("rb") as file:
            if file.read(4) == OLD:
                raise ValueError("the file is encrypted, or in a format from before Office 2007")
        self.file = zipfile.ZipFile(path)
        self.names = set(self.file.namelist())
        if sum(each.file_size for each in self.file.infolist()) > MAX_UNPACKED_BYTES:
            raise ValueError(f"the file unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB")
        if broken := self.file.testzip():
            raise ValueError(f"{broken} is damaged")
        opened = [target for kind, target, _ in self.read_relations("").values() if kind == "officeDocument"]
        if len(opened) != 1 or self.read_types().get(opened[0]) != main:
            raise ValueError("the content of the file does not match its suffix")
        self.main = opened[0]
        """The main part, which an office program opens first."""

    def read_types(self) -> dict[str, str]:
        found = self.parse_part("[Content_Types].xml").iter(TYPES + "Override")
        return {each.get("PartName", "").lstrip("/"): each.get("ContentType", "") for each in found}

    def parse_part(self, name: str) -> Element:
        return ElementTree.fromstring(self.file.read(name))  # noqa: S314 - it parses where it can hurt nobody

    def iterate_parts(self, shape: str) -> Iterator[tuple[str, Element]]:
        for name in sorted(self.names):
            if re.fullmatch(shape, name):
                yield name, self.parse_part(name)

    def read_relations(self, name: str) -> dict[str, tuple[str, str, bool]]:
        """Return a part's relations by id: kind, target, and whether the target is outside the file."""
        folder, file = posixpath.split(name)
        rels = posixpath.join(folder, "_rels", file + ".rels")
        if rels not in self.names:
            return {}
        found = {}
        for each in self.parse_part(rels):
            target, outside = each.get("Target", ""), each.get("TargetMode") == "External"
            inner = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            kind = each.get("Type", "").rsplit("/", 1)[-1]
            found[each.get("Id", "")] = (kind, target if outside else inner, outside)
        return found

    def read_title(self) -> str:
        if "docProps/core.xml" not in self.names:
            return ""
        return (self.parse_part("docProps/core.xml").findtext(TITLE) or "")[:MAX_TEXT_CHARS]

    def find_media_problems(self, places: dict[str, str]) -> list[list[str]]:
        """List missing, external, empty or undecodable media: name, place and problem."""
        found = []
        for name in sorted(self.names):
            for kind, target, outside in self.read_relations(name).values() if not name.endswith(".rels") else ():
                where = places.get(name, name)
                if outside and kind in ("image", "video", "audio", "media"):
                    found.append([target[:MAX_TEXT_CHARS], where, "a link to a file outside"])
                elif not outside and target not in self.names and not target.startswith("#"):
                    found.append([target[:MAX_TEXT_CHARS], where, "no such file"])
                elif kind == "image" and (problem := self.describe_problem(target)):
                    found.append([target[:MAX_TEXT_CHARS], where, problem])
        return found[:MAX_ENTRIES]

    def describe_problem(self, name: str) -> str:
        """Describe the fault of a picture; return `""` if it has none."""
        data = self.file.read(name) if name in self.names else b""
        if not data:
            return "an empty file"
        if not name.casefold().endswith(DRAWN):
            return ""
        try:
            with Image.open(io.BytesIO(data)) as image:
                image.load()
        except Exception:  # noqa: BLE001 - whatever a broken picture does to its decoder
            return "a picture that cannot be decoded"
        return ""

    def read_charts(self, places: dict[str, str]) -> list[dict[str, object]]:
        kinds = self.read_types()
        found = []
        for name, root in self.iterate_parts(r".*/charts/[^/]+\.xml"):
            if kinds.get(name, "").endswith("drawingml.chart+xml"):
                holders = [
                    each for each in self.names if any(name == to for _, to, _ in self.read_relations(each).values())
                ]
                where = next((places[each] for each in sorted(holders) if each in places), "document")
                found.append(self.read_chart(name, root, where))
        return found[:MAX_ENTRIES]

    def read_chart(self, name: str, root: Element, where: str) -> dict[str, object]:
        title = root.find(f"{CHART}chart/{CHART}title")
        words = "".join(each.text or "" for each in title.iter(DRAWING + "t")) if title is not None else ""
        report: dict[str, object] = {"name": (words or name)[:MAX_TEXT_CHARS], "where": where, "problem": ""}
        try:
            book = self.open_workbook(name, root)
        except Exception:  # noqa: BLE001 - whatever a broken workbook does to its parser
            return {**report, "problem": "a chart whose workbook cannot be opened", "series": []}
        return {**report, "series": [_read_series(each, book) for each in root.iter(CHART + "ser")][:MAX_ENTRIES]}

    def open_workbook(self, name: str, root: Element) -> openpyxl.Workbook | None:
        """Return the workbook with a chart's numbers, or `None` if the file has none."""
        external = root.find(CHART + "externalData")
        _, target, outside = self.read_relations(name).get(
            external.get(RELATION + "id", "") if external is not None else "", ("", "", 1)
        )
        if outside or target not in self.names:
            return None
        return openpyxl.load_workbook(io.BytesIO(self.file.read(target)), data_only=True)

    def read_theme_fonts(self) -> dict[str, str]:
        found = {}
        for _, root in self.iterate_parts(r"(word|ppt)/theme/theme1\.xml"):
            for which in ("major", "minor"):
                font = root.find(f".//{DRAWING}{which}Font/{DRAWING}latin")
                found[which] = font.get("typeface", "") if font is not None else ""
        return found


def _read_series(root: Element, book: openpyxl.Workbook | None) -> dict[str, object]:
    name = "".join(each.text or "" for each in root.findall(f"{CHART}tx//{CHART}v"))
    values = root.find(CHART + "val")
    values = values if values is not None else root.find(CHART + "yVal")
    shown = _read_cached_numbers(values) if values is not None else []
    formula = values.findtext(f"{CHART}numRef/{CHART}f") if values is not None else None
    numbers = read_cells(book, formula) if book is not None and formula else None
    return {"name": name[:MAX_TEXT_CHARS], "shown": shown[:MOST_NUMBERS], "book": numbers}


def _read_cached_numbers(values: Element) -> list[float | None]:
    points = {int(each.get("idx", "0")): each.findtext(CHART + "v") for each in values.iter(CHART + "pt")}
    if not points or max(points) >= MOST_NUMBERS:
        return []
    return [_as_number(points.get(at)) for at in range(max(points) + 1)]


def read_cells(book: openpyxl.Workbook, formula: str) -> list[float | None] | None:
    """Return the numbers in a range, or `None` if the formula is not a plain range."""
    found = re.fullmatch(r"'?((?:[^'!]|'')+)'?!(\$?[A-Z]+\$?\d+(?::\$?[A-Z]+\$?\d+)?)", formula)
    if found is None:
        return None
    sheet = found[1].replace("''", "'")
    if sheet not in book.sheetnames:
        return []
    selected = book[sheet][found[2].replace("$", "")]
    rows = selected if isinstance(selected, tuple) else ((selected,),)
    numbers = [_as_number(cell.value) for row in rows for cell in (row if isinstance(row, tuple) else (row,))]
    while numbers and numbers[-1] is None:
        numbers.pop()
    return numbers[:MOST_NUMBERS]


def _as_number(value: object) -> float | None:
    """Return a value as a number, or `None` if it is none."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if abs(number) < 1e300 else None


def match_fonts(names: Iterable[str]) -> list[list[str]]:
    found = []
    for name in sorted({each for each in names if each and not each.startswith("+")})[:100]:
        argv = ["fc-match", "-f", "%{family}", name.replace("\\", "").replace("-", "\\-").replace(":", "\\:")]
        drawn = subprocess.run(argv, capture_output=True, timeout=20, check=False).stdout
        found.append([name[:MAX_TEXT_CHARS], drawn.decode("utf-8", "replace")[:MAX_TEXT_CHARS]])
    return found
