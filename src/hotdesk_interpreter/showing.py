"""What is shown of values: every form IPython knows, tables as data, figures as charts too, pictures when saved."""

from __future__ import annotations

import base64
import math
import sys
from collections.abc import Mapping
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


def result(forms: Mapping[str, Any], main: bool) -> dict[str, object]:
    """Write a value's forms as an event."""
    event: dict[str, object] = {"type": "result", "is_main_result": main}
    extra: dict[str, object] = {}
    for kind, value in forms.items():
        if kind == "text/plain":
            value = unquoted(str(value))
        value = base64.b64encode(value).decode() if isinstance(value, bytes) else plain(value)
        if kind in FIELDS:
            event[FIELDS[kind]] = value
        else:
            extra[kind] = value
    return event | ({"extra": extra} if extra else {})


def unquoted(text: str) -> str:
    """Drop one pair of quotes around a text."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def plain(value: Any) -> Any:
    """Give a value as JSON can hold it: no NaN, no numbers of numpy, times as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(each) for each in value]
    if hasattr(value, "isoformat"):
        return None if str(value) == "NaT" else value.isoformat()
    return plain(value.item()) if hasattr(value, "item") else str(value)


class DataFormatter(BaseFormatter):  # type: ignore[misc]
    """Tables as lists by column."""

    format_type = Unicode("e2b/data")

    def __call__(self, value: Any) -> dict[str, object] | None:
        """Give a table so."""
        return data_of(value) if is_a(value, "pandas", "DataFrame") else None


class ChartFormatter(BaseFormatter):  # type: ignore[misc]
    """Figures as what they show; asked by class, as matplotlib's own set-up forgets what was said of figures before."""

    format_type = Unicode("e2b/chart")

    def __call__(self, value: Any) -> dict[str, object] | None:
        """Give a figure so."""
        return chart_of(value) if is_a(value, "matplotlib.figure", "Figure") else None


def is_a(value: object, module: str, name: str) -> bool:
    """Say whether a value is of a class of a module that need not be there."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def data_of(table: Any) -> dict[str, object]:
    """Give a table as lists by column."""
    return {str(name): plain(table.iloc[:, n].tolist()) for n, name in enumerate(table.columns)}


def chart_of(figure: Any) -> dict[str, object] | None:
    """Give what a figure shows, or nothing when that cannot be told."""
    import e2b_charts  # takes time that only figures shall cost

    try:
        found = e2b_charts.chart_figure_to_chart(figure)
        return None if found is None else {str(key): plain(value) for key, value in found.model_dump().items()}
    except Exception:  # noqa: BLE001 - a figure of a kind it does not know is shown all the same
        return None


def equip(shell: Any) -> None:
    """Teach a shell all that."""
    formatter = shell.display_formatter
    for each in (DataFormatter(parent=formatter), ChartFormatter(parent=formatter)):
        formatter.formatters[each.format_type] = each
    if hasattr(formatter, "active_types"):
        formatter.active_types = [*formatter.formatters]
    show_pictures()


def show_pictures() -> None:
    """Have a picture displayed when code shows it, or saves it to a path."""
    picture_class: Any = import_module("PIL.Image").Image
    save = picture_class.save

    def shown(picture: Any, *_: Any, **__: Any) -> None:
        display(picture)

    def saved(picture: Any, fp: Any, *more: Any, **options: Any) -> None:
        save(picture, fp, *more, **options)
        asked_by = str(sys._getframe(1).f_globals.get("__name__", ""))
        if not hasattr(fp, "write") and not asked_by.startswith(("matplotlib", "PIL", "IPython")):
            display(picture)

    picture_class.show = shown
    picture_class.save = saved
