"""A job's events for programs: one line of JSON each, with the receipt as the last."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import TextIO

from hotdesk.event import Event, as_dict
from hotdesk.job.record.progress import step_dict
from hotdesk.job.record.receipt import Receipt


class JsonLines:
    """Writes each event as a line: `{"at": milliseconds since 1970, "event": name, "data": {…}}`."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self.stream = stream
        self.clock = clock
        self.deaf = False

    def show(self, event: Event) -> None:
        self.write(type(event).__name__, as_dict(event))

    def finish(self, receipt: Receipt, paths: Mapping[str, str], proofs: Mapping[str, str], report: str) -> None:
        """Write the receipt with the paths of the results, certificates and report; `""` for no report becomes null."""
        fields = {**asdict(replace(receipt, steps=())), "steps": [step_dict(step) for step in receipt.steps]}
        files = {"paths": dict(paths), "certificates": dict(proofs), "report": report or None}
        self.write("Receipt", {**fields, **files})

    def write(self, name: str, data: Mapping[str, object]) -> None:
        """Write one line of plain ASCII; stop writing, but not the job, if the reader has gone."""
        if self.deaf:
            return
        line = json.dumps({"at": int(self.clock() * 1000), "event": name, "data": data}).replace("\x7f", "\\u007f")
        try:
            self.stream.write(f"{line}\n")
            self.stream.flush()
        except (OSError, ValueError):
            self.deaf = True
