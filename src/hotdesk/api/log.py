"""The server's log on standard error: start, stop, reload, sign-in, refusal, error; one line each, text or JSON.

A line consists of fixed text, checked names and escaped values. Refused requests are counted and summed up, so that no
one without a key can fill the disk.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from hotdesk.dataclass import dataclass
from hotdesk.errors import HotdeskError, make_printable

_SELDOM_S = 10.0
"""Seconds between two log entries of a kind that callers without a key can cause."""
_MAX_PATH_CHARS = 200
REFUSED = frozenset({401, 403, 429})


@dataclass(slots=True)
class ServerLog:
    as_json: bool = False
    last_reports: dict[tuple[object, ...], tuple[float, int]] = field(default_factory=dict)
    """By kind of event: when it was last logged, and how many times it happened since."""

    def write(self, event: str, message: str = "", **fields: object) -> None:
        """Write one line: an event and its details."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if self.as_json:
            line = json.dumps({"time": now, "event": event, **({"message": message} if message else {}), **fields})
        else:
            details = " ".join(f"{name}={make_printable(str(value))}" for name, value in fields.items())
            line = f"{now} hotdesk: {' '.join(filter(None, (make_printable(message or event), details)))}"
        print(line, file=sys.stderr, flush=True)

    def report_error(self, error: Exception, scope: Mapping[str, Any] | None = None) -> None:
        """Log an error, and the method and path of the request in which it occurred."""
        request: dict[str, str] = {}
        if scope is not None:
            method = scope.get("method", "GET")  # a WebSocket's scope has none
            request = {"method": method, "path": scope["path"][:_MAX_PATH_CHARS]}
        self.write("error", describe(error), **request)

    def write_refusal(self, status: int, part: str, address: str) -> None:
        """Log a refused request; if there are many, only their number once in a while."""
        self.write_seldom("refused", "", (status, part), status=status, part=part, address=address)

    def write_seldom(self, event: str, message: str, kind: tuple[object, ...] = (), **fields: object) -> None:
        """Log an event at most every `_SELDOM_S` seconds, with how often it happened since."""
        last, count = self.last_reports.get((event, *kind), (-_SELDOM_S, 0))
        now = time.monotonic()
        if now - last < _SELDOM_S:
            self.last_reports[event, *kind] = (last, count + 1)
            return
        self.last_reports[event, *kind] = (now, 0)
        self.write(event, message, **fields, unreported=count)


def describe(error: Exception) -> str:
    """Return an error as text for the log.

    Of an unexpected error only type and place are included, because its text may quote a secret.
    """
    if isinstance(error, HotdeskError):
        return f"{error.code}: {error}"
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame else "?"
    return f"{type(error).__name__} at {place}"


LOG = ServerLog()
"""The log of this process."""
