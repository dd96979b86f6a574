"""Short texts from a job's papers. Missing papers are counted."""

from __future__ import annotations

import base64
import binascii
import json
import shlex
from pathlib import Path

from hotdesk.checks.verdict_json import StoredVerdict, from_json
from hotdesk.dataclass import dataclass
from hotdesk.errors import HotdeskError
from hotdesk.job.record import papers
from hotdesk.job.report.facts import PlannedStep

FIRST = (
    "command",
    "argv",
    "url",
    "path",
    "paths",
    "question",
    "summary",
    "why",
    "value",
    "values",
    "keys",
    "text",
    "ref",
)
"""Arguments that best describe a call, in order of preference."""
SHORT, WORDS = 160, 600


class PaperReader:
    """Reads the papers of one job."""

    def __init__(self, jobs: Path, job: str) -> None:
        self.missing = 0
        try:
            self.papers: papers.Papers | None = papers.find(jobs, job)
        except HotdeskError:
            self.papers = None

    def read_data(self, name: str) -> bytes | None:
        """Return a paper's bytes, or `None` if it is missing."""
        if self.papers is not None and name:
            try:
                return self.papers.read(name)
            except HotdeskError:
                pass
        self.missing += bool(name)
        return None

    def read_text(self, name: str) -> str:
        """Return a paper's text, or `""` if it is missing."""
        return (self.read_data(name) or b"").decode("utf-8", "replace")

    def read_json(self, name: str) -> dict[str, object]:
        """Return a paper's JSON object, or `{}` if it is missing or is not one."""
        try:
            data = json.loads(self.read_data(name) or b"{}")
        except (ValueError, RecursionError):
            return {}
        return data if isinstance(data, dict) else {}

    def read_verdict(self, name: str) -> StoredVerdict | None:
        """Return a verdict, or `None` if it is missing or cannot be read."""
        data = self.read_data(name)
        try:
            return from_json(data) if data else None
        except (ValueError, KeyError, TypeError):
            self.missing += 1
            return None

    def read_plan(self, name: str) -> list[PlannedStep]:
        """Return the steps of a plan; none if it is missing."""
        steps = self.read_json(name).get("steps")
        return [_parse_step(each) for each in steps if isinstance(each, dict)] if isinstance(steps, list) else []


def _parse_step(step: dict[str, object]) -> PlannedStep:
    makes, grants = (step.get(name) for name in ("makes", "grants"))
    return PlannedStep(
        str(step.get("name", "")),
        str(step.get("intent", "")),
        list_texts(makes),
        list_texts(grants),
        str(step.get("risk", "")),
    )


def list_texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def describe_use(call: dict[str, object]) -> str:
    arguments = call.get("arguments", call)
    if not isinstance(arguments, dict):
        return str(arguments)[:SHORT]
    for name in FIRST:
        value = arguments.get(name)
        if isinstance(value, list):
            value = shlex.join(map(str, value)) if name == "argv" else ", ".join(map(str, value))
        if isinstance(value, str) and value:
            return format_one_line(value)
    return (
        format_one_line(json.dumps({key: value for key, value in arguments.items() if key != "data"}))
        if arguments
        else ""
    )


def format_one_line(text: str, longest: int = SHORT) -> str:
    flat = " ".join(text[: 4 * longest].split())
    return flat if len(flat) <= longest else f"{flat[: longest - 1]}…"


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result of a tool."""

    text: str
    exit_code: int | None = None
    """The exit code, or `None` if no program ran or it did not exit."""


def read_output(observation: dict[str, object]) -> ToolOutput:
    """Read a tool's result: a program's output, a file's content, or the tool's own text."""
    text = str(observation.get("text", ""))
    try:
        match json.loads(text) if text.startswith("{") else None:
            case {"exit_code": int() | None as code, "stdout": str(out), "stderr": str(err), **rest}:
                parts = (decode_output(out), decode_output(err), str(rest.get("reason") or ""))
                return ToolOutput("\n".join(filter(None, parts)), code)
            case {"data": str(data)}:
                return ToolOutput(decode_output(data))
            case {"size": int(size)}:
                return ToolOutput(f"{size:,} bytes")
    except (ValueError, RecursionError, binascii.Error):
        pass
    return ToolOutput(text)


def decode_output(data: str) -> str:
    return base64.b64decode(data).decode("utf-8", "replace").strip()


def describe_failure(observation: dict[str, object]) -> str:
    """Return the output of a failed act; of a program, the exit code and the end of the output."""
    found = read_output(observation)
    if found.exit_code is None:
        return found.text[:WORDS]
    return f"exit code {found.exit_code}: {found.text[-WORDS:]}"
