"""The error about an inspection report that no sound desk returns."""

from __future__ import annotations

from hotdesk.strict import StrictError


class MalformedReportError(StrictError):
    """A report is malformed, which is no fault of the inspected file. `why` has the detail; it may be empty."""

    def __init__(self, why: str = "", path: tuple[str | int, ...] = ()) -> None:
        super().__init__(why, path)
