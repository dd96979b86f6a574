"""Run, read and write, byte for byte: tools for scripts, which parse JSON. They are not offered to models."""

from __future__ import annotations

import base64
import json

from hotdesk.config import MIB
from hotdesk.desk.seam import Desk, Done
from hotdesk.hands.paths import make_absolute
from hotdesk.tool import Arguments, Observation, Parameter, Tool, get_number, get_text, get_texts

MAX_OUTPUT_BYTES = 4 * MIB
"""Bytes of a program's output, and of its errors, that are returned."""
MAX_FILE_BYTES = 16 * MIB
"""Bytes of a file that is read or written."""
MAX_TIMEOUT_S = 3600.0
PATH = Parameter("path", "text", "the file; relative paths and ~ start in the home folder", required=True, longest=4096)

RUN = Tool(
    "exact_run",
    "Run a program to its end; returns JSON: exit_code, stdout and stderr in base64, timed_out, truncated, reason.",
    (
        Parameter("argv", "texts", "the program and its arguments", required=True),
        Parameter("timeout", "number", "time limit in seconds", default=MAX_TIMEOUT_S, least=0.1, most=MAX_TIMEOUT_S),
    ),
    {"argv": ["ls", "-l"]},
)
READ = Tool("exact_read", "Read a file; returns JSON: data, in base64.", (PATH,), {"path": "notes.md"}, parallel=True)
WRITE = Tool(
    "exact_write",
    "Write a whole file and create its folders; an existing file is replaced. Returns JSON: size.",
    (PATH, Parameter("data", "text", "the file's bytes in base64", required=True, longest=MAX_FILE_BYTES * 4 // 3 + 4)),
    {"path": "notes.md", "data": "SGVsbG8="},
)


class Exact:
    tools = (RUN, READ, WRITE)

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def use(self, tool: str, arguments: Arguments) -> Observation:
        match tool:
            case "exact_run":
                return await self.run(arguments)
            case "exact_read":
                return await self.read(arguments)
        return await self.write(arguments)

    async def run(self, arguments: Arguments) -> Observation:
        argv = get_texts(arguments, "argv")
        if not argv:
            raise RUN.refuse("argv is empty")
        timeout = get_number(arguments, "timeout", MAX_TIMEOUT_S)
        done = await self.desk.run(argv, timeout=timeout, output_limit=MAX_OUTPUT_BYTES)
        return Observation(json.dumps(as_data(done)), done.ok)

    async def read(self, arguments: Arguments) -> Observation:
        data = await self.desk.read(make_absolute(self.desk, get_text(arguments, "path")), limit=MAX_FILE_BYTES)
        return Observation(json.dumps({"data": _encode_base64(data)}))

    async def write(self, arguments: Arguments) -> Observation:
        try:
            data = base64.b64decode(get_text(arguments, "data"), validate=True)
        except ValueError:
            raise WRITE.refuse("data is not base64") from None
        await self.desk.write(make_absolute(self.desk, get_text(arguments, "path")), data)
        return Observation(json.dumps({"size": len(data)}))


def as_data(done: Done) -> dict[str, object]:
    return {
        "exit_code": done.exit_code,
        "stdout": _encode_base64(done.stdout),
        "stderr": _encode_base64(done.stderr),
        "timed_out": done.timed_out,
        "truncated": done.truncated,
        "reason": done.reason,
    }


def _encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
