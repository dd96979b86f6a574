"""Display data of values: all MIME types of IPython, tables as data, figures as charts, saved pictures."""

from __future__ import annotations

import base64
import contextlib
import math
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from IPython.core.formatters import BaseFormatter
from IPython.display import display
from traitlets import Unicode

BACKEND = "module://matplotlib_inline.backend_inline"
FIELDS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "e2b/data": "data",
    "e2b/chart": "chart",
}


def make_result(forms: Mapping[str, Any], main: bool) -> dict[str, object]:
    event: dict[str, object] = {"type": "result", "is_main_result": main}
    extra: dict[str, object] = {}
    for kind, value in forms.items():
        if kind == "text/plain":
            value = _strip_quotes(str(value))
        value = base64.b64encode(value).decode() if isinstance(value, bytes) else _make_jsonable(value)
        if kind in FIELDS:
            event[FIELDS[kind]] = value
        else:
            extra[kind] = value
    return event | ({"extra": extra} if extra else {})


def _strip_quotes(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _make_jsonable(value: Any) -> Any:
    """Return a value in a form that JSON supports: without NaN and numpy types, times as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _make_jsonable(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_make_jsonable(each) for each in value]
    if hasattr(value, "isoformat"):
        return None if str(value) == "NaT" else value.isoformat()
    return _make_jsonable(value.item()) if hasattr(value, "item") else str(value)


class DataFormatter(BaseFormatter):  # type: ignore[misc]
    """Formats tables as lists by column."""

    format_type = Unicode("e2b/data")

    def __call__(self, value: Any) -> dict[str, object] | None:
        return _list_columns(value) if _is_a(value, "pandas", "DataFrame") else None


class ChartFormatter(BaseFormatter):  # type: ignore[misc]
    """Formats figures as data, found by class: matplotlib's set-up drops formatters registered before it."""

    format_type = Unicode("e2b/chart")

    def __call__(self, value: Any) -> dict[str, object] | None:
        return _describe_chart(value) if _is_a(value, "matplotlib.figure", "Figure") else None


def _is_a(value: object, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def _list_columns(table: Any) -> dict[str, object]:
    return {str(name): _make_jsonable(table.iloc[:, n].tolist()) for n, name in enumerate(table.columns)}


def _describe_chart(figure: Any) -> dict[str, object] | None:
    import e2b_charts  # slow to import: only code with figures needs it

    try:
        with _fill_boxes(figure):
            found = e2b_charts.chart_figure_to_chart(figure)
        return None if found is None else {str(key): _make_jsonable(value) for key, value in found.model_dump().items()}
    except Exception:  # noqa: BLE001 - a figure of an unsupported kind is shown without chart data
        return None


@contextlib.contextmanager
def _fill_boxes(figure: Any) -> Iterator[None]:
    """Draw boxes as `patch_artist=True` does: e2b_charts takes boxes made of lines for line plots."""
    changed = [(axes, axes._children) for axes in figure.axes if _has_boxes(axes)]
    try:
        for axes, children in changed:
            axes._children = [_as_patch(child) if _is_box(child) else child for child in children]
        yield
    finally:
        for axes, children in changed:
            axes._children = children


def _has_boxes(axes: Any) -> bool:
    boxes = sum(map(_is_box, axes.lines))
    return 0 < 3 * boxes <= sum(len(line.get_xdata()) == 2 for line in axes.lines)


def _is_box(artist: Any) -> bool:
    if not _is_a(artist, "matplotlib.lines", "Line2D") or len(artist.get_xdata()) != 5:
        return False
    corners = [tuple(point) for point in artist.get_xydata()]
    return corners[0] == corners[4] and all(len({corner[axis] for corner in corners}) == 2 for axis in (0, 1))


def _as_patch(line: Any) -> Any:
    return import_module("matplotlib.patches").PathPatch(line.get_path())


def equip(shell: Any) -> None:
    formatter = shell.display_formatter
    for each in (DataFormatter(parent=formatter), ChartFormatter(parent=formatter)):
        formatter.formatters[each.format_type] = each
    if hasattr(formatter, "active_types"):
        formatter.active_types = [*formatter.formatters]
    _show_pictures()


def _show_pictures() -> None:
    picture_class: Any = import_module("PIL.Image").Image
    save = picture_class.save

    def display_picture(picture: Any, *_: Any, **__: Any) -> None:
        display(picture)

    def save_and_display(picture: Any, fp: Any, *more: Any, **options: Any) -> None:
        save(picture, fp, *more, **options)
        caller = str(sys._getframe(1).f_globals.get("__name__", ""))
        if not hasattr(fp, "write") and not caller.startswith(("matplotlib", "PIL", "IPython")):
            display(picture)

    picture_class.show = display_picture
    picture_class.save = save_and_display
