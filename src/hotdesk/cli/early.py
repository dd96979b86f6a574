"""A keeper started before the rest of a command is imported: both take about as long, and there are two cores."""

from __future__ import annotations

import os

from hotdesk import config
from hotdesk.config import Config
from hotdesk.desk.spawn import Started, start

_started: list[tuple[Config, Started]] = []


def begin() -> None:
    """Start a keeper, if this user may; a command that then opens no desk lets it end by itself."""
    if os.geteuid() == 0:
        chosen = config.load()
        _started.append((chosen, start(chosen)))


def settings() -> Config:
    """Give the settings, read once."""
    return _started[0][0] if _started else config.load()


def keeper() -> Started | None:
    """Give the keeper, to whoever asks first."""
    return _started.pop()[1] if _started else None
