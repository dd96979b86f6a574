"""The office suite of a clean desk: a LibreOffice that stays for the next file, documents in it, and pages as pixels.

Runs inside the desk with its own Python and `uno`. Programs of this folder import it by its bare name.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import uno  # type: ignore[import-not-found]

FOLDER = Path(__file__).resolve().parent / "office"
"""Folder of its profile, its lock and its process id."""
PROFILE = FOLDER / "profile"
PIPE = f"hotdesk{os.getuid()}"
START_TIMEOUT_S = 60.0
"""Seconds for LibreOffice to respond after it was started."""
AGAIN = 81
"""Exit code with which LibreOffice asks to be started again, after it has set up a profile."""
WIDEST = 900
MOST_PAGES = 40
SETTINGS: dict[str, dict[str, object]] = {
    "Office.Calc/Formula/Load": {"OOXMLRecalcMode": 0, "ODFRecalcMode": 0},
    "Office.Calc/Content/Update": {"Link": 0},
    "Office.Writer/Content/Update": {"Link": 2},
    "Office.Common/Security/Scripting": {
        "MacroSecurityLevel": 3,
        "DisableMacrosExecution": "true",
        "SecureURL": f"<it>{FOLDER.as_uri()}</it>",
    },
    "Office.Common/Misc": {"UseOpenCL": "false", "FirstRun": "false"},
    "Office.Recovery/AutoSave": {"Enabled": "false"},
    "Office.Recovery/RecoveryInfo": {"Enabled": "false", "CrashReporter": "false"},
    "Setup/L10N": {"ooLocale": "en-US"},
    "Setup/Office": {"ooSetupInstCompleted": "true"},
}
"""Configuration of LibreOffice. Every formula is recalculated when a workbook is loaded, whatever values were saved.
Links are updated without a question if the `UpdateDocMode` of a load says so. No macro runs, wherever a document
is. The last two entries save most of the first start's time: they skip the search for languages and the set-up."""
OPTIONS = ["--headless", "--invisible", "--norestore", "--nologo", "--nodefault", "--nolockcheck"]

locks: list[IO[str]] = []
"""The lock on the office suite while this program uses it."""


def get_desktop() -> Any:
    """Return the desktop of the running LibreOffice; start one if none answers."""
    take_turn()
    with suppress(Exception):  # it is not listening yet
        return connect()
    return start()


def prepare_drawing() -> None:
    """Import what `draw` needs ahead of time, for a resident program."""
    import_module("pypdfium2")


def take_turn() -> None:
    """Wait for the lock on the office suite, and end an instance that was interrupted in the middle of a file."""
    if locks:
        return
    FOLDER.mkdir(exist_ok=True)
    turn = (FOLDER / "turn").open("a+")
    fcntl.flock(turn, fcntl.LOCK_EX)
    locks.append(turn)
    if (FOLDER / "busy").exists():
        end()


def _give_turn() -> None:
    while locks:
        locks.pop().close()


def connect(service: str = "com.sun.star.frame.Desktop") -> Any:
    context = _resolve_context()
    return context.ServiceManager.createInstanceWithContext(service, context)


@cache
def _resolve_context() -> Any:
    local = uno.getComponentContext()
    resolver = local.ServiceManager.createInstanceWithContext("com.sun.star.bridge.UnoUrlResolver", local)
    return resolver.resolve(f"uno:pipe,name={PIPE};urp;StarOffice.ComponentContext")


def start() -> Any:
    """Start LibreOffice and wait until it responds."""
    _resolve_context.cache_clear()
    end()  # a previous start may have been killed half way
    write_settings()
    until, running = time.monotonic() + START_TIMEOUT_S, launch()
    while time.monotonic() < until:
        with suppress(Exception):
            return connect()
        if running.poll() == AGAIN:
            running = launch()
        elif running.poll() is not None:
            raise RuntimeError(f"LibreOffice could not start: it ended with exit code {running.returncode}")
        time.sleep(0.01)
    raise TimeoutError(f"LibreOffice could not start: it did not respond within {START_TIMEOUT_S:.0f} s")


def launch() -> subprocess.Popen[bytes]:
    """Start the LibreOffice process, which outlives this one."""
    accept = f"--accept=pipe,name={PIPE};urp;"
    argv = [str(find_program()), *OPTIONS, f"-env:UserInstallation={PROFILE.as_uri()}", accept]
    unused = ("SAL_DISABLE_PRINTERLIST", "SAL_DISABLE_CUPS", "SAL_DISABLE_OPENCL")
    quiet = {"SAL_USE_VCLPLUGIN": "svp", **dict.fromkeys(unused, "1")}  # CUPS would search the network for printers
    nothing = subprocess.DEVNULL
    running = subprocess.Popen(
        argv, stdin=nothing, stdout=nothing, stderr=nothing, env={**os.environ, **quiet}, start_new_session=True
    )
    (FOLDER / "pid").write_text(str(running.pid))
    return running


def find_program() -> Path:
    """Return the LibreOffice binary itself, without its start script."""
    return Path(shutil.which("soffice") or "soffice").resolve().with_name("soffice.bin")


def write_settings() -> None:
    shutil.rmtree(PROFILE, ignore_errors=True)
    (PROFILE / "user/extensions").mkdir(parents=True, exist_ok=True)
    versions = find_program().with_name("versionrc").read_text(errors="replace")
    build = next((line.partition("=")[2] for line in versions.splitlines() if line.startswith("buildid=")), "")
    (PROFILE / "user/extensions/buildid").write_text(build)
    marks = {"Setup/Office": {**SETTINGS["Setup/Office"], "LastCompatibilityCheckID": build}}
    items = [
        f'<item oor:path="/org.openoffice.{path}"><prop oor:name="{name}"><value>{value}</value></prop></item>'
        for path, properties in {**SETTINGS, **marks}.items()
        for name, value in properties.items()
    ]
    head = '<?xml version="1.0" encoding="UTF-8"?><oor:items xmlns:oor="http://openoffice.org/2001/registry">'
    (PROFILE / "user/registrymodifications.xcu").write_text(head + "".join(items) + "</oor:items>")


def end() -> None:
    """End an instance that may no longer work; the next call starts another."""
    with suppress(OSError, ValueError):
        pid = int((FOLDER / "pid").read_text())
        if b"soffice" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
    (FOLDER / "busy").unlink(missing_ok=True)


@contextmanager
def open_document(path: str, **hints: object) -> Iterator[Any]:
    """Load a copy of a document hidden and read-only, without macros and link updates; `hints` override that."""
    try:
        desktop = get_desktop()
        yield from _load_document(desktop, path, hints)
    finally:
        _give_turn()


def _load_document(desktop: Any, path: str, hints: Mapping[str, object]) -> Iterator[Any]:
    chosen = {"Hidden": True, "ReadOnly": True, "MacroExecutionMode": 0, "UpdateDocMode": 0, **hints}
    with busy(), tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        copy = shutil.copy(path, Path(folder) / f"copy{Path(path).suffix}")
        document = desktop.loadComponentFromURL(Path(copy).as_uri(), "_blank", 0, make_properties(chosen))
        if document is None:
            raise ValueError("LibreOffice cannot open the file")
        try:
            yield document
        finally:
            document.close(True)


@contextmanager
def busy() -> Iterator[None]:
    """Mark the instance as busy: if this process is killed meanwhile, the instance is not used again."""
    (FOLDER / "busy").touch()
    try:
        yield
    finally:
        (FOLDER / "busy").unlink(missing_ok=True)


def as_pdf(document: Any, target: str, **chosen: object) -> None:
    """Export a document as PDF with the filter of its type; `chosen` are options of the filter."""
    kinds = {"SpreadsheetDocument": "calc", "TextDocument": "writer", "PresentationDocument": "impress"}
    kind = next((kinds[each] for each in kinds if document.supportsService(_get_service_name(each))), "draw")
    data = uno.Any("[]com.sun.star.beans.PropertyValue", make_properties(chosen))
    named = {"FilterName": f"{kind}_pdf_Export", "FilterData": data, "Overwrite": True}
    document.storeToURL(Path(target).resolve().as_uri(), make_properties(named))


def _get_service_name(kind: str) -> str:
    part = {"SpreadsheetDocument": "sheet", "TextDocument": "text"}.get(kind, "presentation")
    return f"com.sun.star.{part}.{kind}"


def make_properties(values: Mapping[str, object]) -> tuple[Any, ...]:
    return tuple(_make_property(name, value) for name, value in values.items())


def _make_property(name: str, value: object) -> Any:
    option = uno.createUnoStruct("com.sun.star.beans.PropertyValue")
    option.Name, option.Value = name, value
    return option


def draw(path: str, widest: int = WIDEST, most: int = MOST_PAGES) -> list[tuple[int, int, bytes]]:
    """Render the first pages of a PDF as width, height and RGB rows; the longer side has at most `widest` pixels."""
    document, pages = import_module("pypdfium2").PdfDocument(path), []
    for place in range(min(len(document), most)):
        page = document[place]
        scale = widest / max(page.get_size())
        bitmap = page.render(scale=min(scale, 4.0), rev_byteorder=True, no_smoothtext=False)
        pages.append(_extract_pixels(bitmap, widest))
    document.close()
    return pages


def _extract_pixels(bitmap: Any, widest: int) -> tuple[int, int, bytes]:
    """Return a rendered page's pixels without row padding."""
    data, channels, stride = bytes(bitmap.buffer), bitmap.n_channels, bitmap.stride
    width, height = min(bitmap.width, widest), min(bitmap.height, widest)
    rows = [data[row * stride : row * stride + width * channels] for row in range(height)]
    if channels == 4:
        rows = [b"".join(row[at : at + 3] for at in range(0, len(row), 4)) for row in rows]
    return width, height, b"".join(rows)


def tell(answer: Mapping[str, object], pages: Sequence[tuple[int, int, bytes]] = ()) -> None:
    packed = [zlib.compress(rgb, 1) for _, _, rgb in pages]
    sizes = [[width, height, len(data)] for (width, height, _), data in zip(pages, packed, strict=True)]
    line = json.dumps({**answer, "drawn": sizes}, allow_nan=False)
    sys.stdout.buffer.write(line.encode() + b"\n" + b"".join(packed))
    sys.stdout.buffer.flush()


def read_version() -> str:
    provider = connect("com.sun.star.configuration.ConfigurationProvider")
    path = make_properties({"nodepath": "/org.openoffice.Setup/Product"})
    product = provider.createInstanceWithArguments("com.sun.star.configuration.ConfigurationAccess", path)
    return str(product.ooSetupVersionAboutBox)
