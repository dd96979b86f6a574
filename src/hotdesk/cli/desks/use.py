"""`hotdesk use`: use a worker's tools by hand."""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.ids import find_desk
from hotdesk.cli.terminal import run_interruptible
from hotdesk.errors import BriefError, KeeperError, make_printable
from hotdesk.host import reach
from hotdesk.linux.landlock import confine
from hotdesk.tool import MAX_CALL_BYTES

INTERMIXED = True
"""Whether options may be mixed with positional arguments."""
TIMEOUT_S = 700.0
"""Seconds one tool use may take."""
FAILED = 1
"""Exit code of a failed tool."""
WORDS = {"true": True, "yes": True, "false": False, "no": False}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("desk", metavar="ID", help="the id of an open desk")
    parser.add_argument("tool", nargs="?", help="the tool to call (default: list the tools)")
    parser.add_argument(
        "given",
        nargs="*",
        metavar="NAME=VALUE",
        help="arguments of the tool; a list is written with commas, or as JSON",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the picture that the tool returns to this file")
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Use a worker's tool at a desk. Exit code 1 means that the tool failed; standard error has the reason.

    For example:

      hotdesk use $ID
      hotdesk use $ID browser_goto url=https://example.test/
      hotdesk use $ID screen_click x=640 y=400
      hotdesk use $ID screen_screenshot --out screen.png
      hotdesk use $ID shell command='ls -l ~/Downloads'
    """
    desk = find_desk(config.load(), arguments.desk)
    out = arguments.out.absolute() if arguments.out is not None else None

    async def work() -> int:
        confine([out.parent] if out is not None else [])
        async with reach(config.load(), desk) as lent:
            tools = (await lent.runtime.call("GET", f"/desks/{desk}/tools")).get("items")
            by_name = {tool["name"]: tool for tool in tools} if isinstance(tools, list) else {}
            if arguments.tool is None:
                return _show_tools(by_name, arguments.json)
            fields = parse_values(arguments.given, by_name.get(arguments.tool, {}))
            target = f"/desks/{desk}/tools/{arguments.tool}"
            observation = await lent.runtime.call("POST", target, fields, TIMEOUT_S, MAX_CALL_BYTES)
        return show(observation, out, arguments.json)

    return run_interruptible(work)


def _show_tools(tools: Mapping[str, Any], as_json: bool) -> int:
    if as_json:
        print(json.dumps(list(tools.values()), indent=1))
        return 0
    for name, tool in tools.items():
        schema = tool["input_schema"]
        takes = [each if each in schema["required"] else f"[{each}]" for each in schema["properties"]]
        print(
            make_printable(f"{name} {' '.join(takes)}\n    {tool['description']}".replace("\n", "\f")).replace(
                "\\x0c", "\n"
            )
        )
    return 0


def parse_values(pairs: list[str], tool: Mapping[str, Any]) -> dict[str, object]:
    """Parse arguments by the types of the tool's parameters; invalid ones are left to the tool to refuse."""
    types = tool.get("input_schema", {}).get("properties", {})
    fields: dict[str, object] = {}
    for each in pairs:
        name, equals, text = each.partition("=")
        if not equals:
            raise BriefError(f"tool arguments must be NAME=VALUE, such as x=640, not {make_printable(each[:80])!r}")
        fields[name] = _parse_value(text, types.get(name, {}))
    return fields


def _parse_value(text: str, kind: Mapping[str, Any]) -> object:
    match kind.get("type"):
        case "integer" | "number" as number:
            try:
                return int(text) if number == "integer" else float(text)
            except ValueError:
                return text
        case "boolean":
            return WORDS.get(text.lower(), text)
        case "array" if text.startswith("["):
            return _parse_list(text)
        case "array":
            return [_parse_value(item, kind.get("items", {})) for item in text.split(",")] if text else []
    return text


def _parse_list(text: str) -> object:
    """Parse a list written as JSON, whose items may contain commas."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def show(observation: Mapping[str, object], out: Path | None, as_json: bool) -> int:
    try:
        image = base64.b64decode(str(observation["image"]), validate=True)
        text, note, ok = str(observation["text"]), str(observation["note"]), bool(observation["ok"])
    except (KeyError, ValueError) as e:
        raise KeeperError(f"malformed tool result from the process that opened the desk: {e!r}") from e
    if out is not None and image:
        write(out, image)
        print(f"hotdesk: wrote {make_printable(str(out))}, {len(image)} bytes", file=sys.stderr)
    if as_json:
        print(json.dumps({name: field for name, field in observation.items() if name != "image" or out is None}))
        return 0 if ok else FAILED
    for line in text.splitlines():
        print(make_printable(line.expandtabs()))
    if note:
        print(f"hotdesk: {make_printable(note)}", file=sys.stderr)
    if image and out is None:
        print(f"hotdesk: the tool returned a picture of {len(image)} bytes; save it with --out FILE", file=sys.stderr)
    return 0 if ok else FAILED


def write(path: Path, image: bytes) -> None:
    try:
        path.write_bytes(image)
    except OSError as e:
        raise BriefError(f"{make_printable(str(path))} cannot be written: {e.strerror}") from e
