"""Briefs as people write them: TOML, JSON, Python. The same fields, the same checks, the same meaning.

goal = "Compare the invoices with the orders."
inputs = ["invoices"]
egress = ["GET https://erp.example.test/orders/*"]
grants = ["erp-token@erp.example.test bearer"]

[[deliverables]]
path = "report.xlsx"
expect = {rows = 5}
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path

from hotdesk.brief import deliverables, limits
from hotdesk.brief.access import MakeScope, read_scope
from hotdesk.brief.brief import Brief
from hotdesk.brief.keys import KEYS, format_example
from hotdesk.brief.lines import find_json_lines, find_toml_lines
from hotdesk.brief.reserved import refuse_reserved
from hotdesk.brief.swarm import read_each, read_reduce
from hotdesk.brief.value import BriefValue, Form, is_json_value
from hotdesk.brief.wire import format_canonical_json
from hotdesk.errors import BriefError, make_printable

FILES = ("brief.toml", "brief.json")
MAX_BRIEF_BYTES = 1 << 20
"""Bytes of the largest brief."""
_TOML_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)")


def read_job(path: Path, make_scope: MakeScope, *, operator: bool = True) -> Brief:
    """Read the brief at a path, or in a folder; unknown and invalid fields are refused.

    `operator`: whether this machine's operator wrote it, or answers for it. Others may use fewer fields:
    `OPERATOR_ONLY`.
    """
    file = find_brief(path)
    try:
        with file.open("rb") as source:
            data = source.read(MAX_BRIEF_BYTES + 1)
    except OSError as e:
        raise BriefError(
            f"the brief {make_printable(str(file))} cannot be read: {e.strerror}; pass the path of a brief or its "
            "folder"
        ) from e
    form: Form = "json" if file.suffix == ".json" else "toml"
    try:
        return parse_job(data, file.absolute().parent, make_scope, form, operator=operator)
    except ValueError as e:
        raise BriefError(f"{make_printable(str(file))}{e}") from None


def find_brief(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = [path / name for name in FILES if (path / name).exists()]
    if len(found) > 1:
        raise BriefError(f"{make_printable(str(path))} has both {' and '.join(FILES)}; pass the path of one of them")
    return found[0] if found else path / FILES[0]


def parse_job(data: bytes, folder: Path, make_scope: MakeScope, form: Form = "toml", *, operator: bool = True) -> Brief:
    """Read a brief's text; `ValueError` says where and why, and begins with a line or a colon."""
    if len(data) > MAX_BRIEF_BYTES:
        raise ValueError(f": it is larger than {MAX_BRIEF_BYTES >> 20} MiB; move data into inputs")
    try:
        brief = parse_text(data.decode(), form)
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise ValueError(f", line {line}: it is not UTF-8; save it as UTF-8") from None
    return build_job(brief, folder, hashlib.sha256(data).hexdigest(), make_scope, operator)


def parse_table(table: Mapping[str, object], folder: Path, make_scope: MakeScope, *, operator: bool = True) -> Brief:
    """Read a brief that is a mapping; `BriefError` says which field, and why."""
    try:
        brief = BriefValue(_as_plain(table))
        if not is_json_value(brief.value):
            raise ValueError(": it contains a value that JSON cannot express; use texts, numbers, lists and tables")
        digest = hashlib.sha256(format_canonical_json(brief.value).encode()).hexdigest()
        return build_job(brief, folder.absolute(), digest, make_scope, operator)
    except RecursionError:
        raise BriefError("the brief: its lists or tables are nested too deeply; a brief is flat") from None
    except ValueError as e:
        raise BriefError(f"the brief{e}") from None


def brief_of(make_scope: MakeScope, folder: PathLike[str] | str = ".", **fields: object) -> Brief:
    """Write a brief in Python: fields as keywords, each as in a file; inputs lie in the folder."""
    return parse_table(fields, Path(folder), make_scope)


def build_job(brief: BriefValue, folder: Path, digest: str, make_scope: MakeScope, operator: bool) -> Brief:
    if not isinstance(brief.value, dict):
        raise ValueError(": it must be a table with fields such as goal and deliverables")
    refuse_reserved(brief, operator)
    brief.require_table("a brief", KEYS, format_example(brief, "goal"))
    for name in ("goal", "deliverables"):
        if not brief.has(name):
            raise brief.make_error(f"it has no {name}; write {format_example(brief, name)}")
    goal = deliverables.read_goal(brief.get("goal"))
    items = deliverables.read_deliverables(brief.get("deliverables"))
    inputs = deliverables.read_inputs(brief.get("inputs", []), folder)
    memory = limits.read_memory(brief)
    if memory:
        deliverables.refuse_memory_paths(brief, inputs, items)
    return Brief(
        goal=goal,
        deliverables=items,
        folder=folder,
        digest=digest,
        inputs=inputs,
        scope=read_scope(brief, make_scope),
        image=limits.read_image(brief.get("image", "base")),
        seconds=limits.read_seconds(brief),
        look=limits.read_look(brief.get("look", "")),
        approve=limits.read_approve(brief.get("approve", "auto")),
        tools=limits.read_tools(brief),
        wall=limits.read_wall(brief.get("wall", "container")),
        sensitive_wall=limits.read_sensitive_wall(brief),
        size=limits.read_size(brief.get("size", {})),
        budget=limits.read_budget(brief.get("budget", {})),
        models=limits.read_models(brief),
        memory=memory,
        wait=limits.read_wait(brief.get("wait", 86400)),
        each=read_each(brief, items),
        reduce=read_reduce(brief),
        explicit=frozenset(brief.value),
    )


def parse_text(text: str, form: Form) -> BriefValue:
    """Parse a text, and know its lines: counted first, because that alone takes no longer than the text is."""
    if form == "json":
        lines = find_json_lines(text)
        return BriefValue(_parse_json(text), form=form, lines=lines)
    lines = find_toml_lines(text)
    try:
        table = tomllib.loads(text)
    except ValueError as e:
        place = _TOML_PLACE.search(str(e))
        line = f", line {place[1]}, column {place[2]}" if place else ""
        raise ValueError(f"{line}: it is not TOML: {_TOML_PLACE.sub('', str(e))}; correct that line") from None
    return BriefValue(table, form=form, lines=lines)


def _parse_json(text: str) -> object:
    """Parse JSON; what only looks so was refused when its lines were counted."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as e:
        raise ValueError(f", line {e.lineno}, column {e.colno}: it is not JSON: {e.msg}; correct that line") from None
    except ValueError as e:
        raise ValueError(f": it is not JSON: {e}; write shorter numbers") from None


def _as_plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _as_plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_plain(each) for each in value]
    return fspath(value) if isinstance(value, PathLike) else value
