"""Reads briefs in TOML, JSON and Python, with the same fields and checks in all of them.

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
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path

from hotdesk.brief import deliverables, limits
from hotdesk.brief.access import MakeScope, read_scope
from hotdesk.brief.brief import Brief, Deliverable, DeskSize, JobBudget, Models
from hotdesk.brief.data import CLOSED
from hotdesk.brief.faults import FaultError, FindCheck, make_brief_error
from hotdesk.brief.keys import KEYS, explain_place, format_example
from hotdesk.brief.lines import find_json_lines, find_toml_lines
from hotdesk.brief.reserved import OPERATOR_ONLY, refuse_reserved
from hotdesk.brief.swarm import read_each, read_reduce
from hotdesk.brief.value import BriefValue, Form, is_json_value
from hotdesk.brief.wire import format_canonical_json
from hotdesk.errors import BriefError, make_printable

FILES = ("brief.toml", "brief.json")
MAX_BRIEF_BYTES = 1 << 20
"""Maximum bytes of a brief."""
_TOML_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)")


def read_job(path: Path, make_scope: MakeScope, find_check: FindCheck | None = None, *, operator: bool = True) -> Brief:
    """Read a brief from a file or a folder; raise `BriefError` with all of its faults.

    `find_check` validates the options of checks. Pass `operator=False` for a brief that this machine's operator did not
    write or vouch for; it must not use the fields in `OPERATOR_ONLY`.
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
        return parse_job(data, file.absolute().parent, make_scope, form, find_check, operator=operator)
    except ValueError as e:
        raise make_brief_error(make_printable(str(file)), e) from None


def find_brief(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = [path / name for name in FILES if (path / name).exists()]
    if len(found) > 1:
        raise BriefError(f"{make_printable(str(path))} has both {' and '.join(FILES)}; pass the path of one of them")
    return found[0] if found else path / FILES[0]


def parse_job(
    data: bytes,
    folder: Path,
    make_scope: MakeScope,
    form: Form = "toml",
    find_check: FindCheck | None = None,
    *,
    operator: bool = True,
) -> Brief:
    """Parse a brief's text; raise `ValueError` whose message starts with the line or a colon."""
    if len(data) > MAX_BRIEF_BYTES:
        raise ValueError(f": the brief is larger than {MAX_BRIEF_BYTES >> 20} MiB; move data into input files")
    try:
        brief = parse_text(data.decode(), form)
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise FaultError(f", line {line}: the text is not UTF-8; save the file as UTF-8", line) from None
    return build_job(brief, folder, hashlib.sha256(data).hexdigest(), make_scope, operator, find_check)


def parse_table(table: Mapping[str, object], folder: Path, make_scope: MakeScope, *, operator: bool = True) -> Brief:
    """Read a brief from a mapping; raise `BriefError` that names the faulty fields."""
    try:
        brief = BriefValue(_as_plain(table))
        if not is_json_value(brief.value):
            raise ValueError(": a value cannot be expressed in JSON; use texts, numbers, lists and tables")
        digest = hashlib.sha256(format_canonical_json(brief.value).encode()).hexdigest()
        return build_job(brief, folder.absolute(), digest, make_scope, operator)
    except RecursionError:
        raise BriefError("the brief: lists or tables are nested too deeply; use fewer levels") from None
    except ValueError as e:
        raise make_brief_error("the brief", e) from None


def brief_of(make_scope: MakeScope, folder: PathLike[str] | str = ".", **fields: object) -> Brief:
    """Build a brief in Python, with its fields as keyword arguments; inputs are in `folder`."""
    return parse_table(fields, Path(folder), make_scope)


def build_job(
    brief: BriefValue,
    folder: Path,
    digest: str,
    make_scope: MakeScope,
    operator: bool,
    find_check: FindCheck | None = None,
) -> Brief:
    """Read all fields. Faults are collected in `brief.faults` and raised together at the end."""
    if not isinstance(brief.value, dict):
        raise ValueError(": the brief must be a table with fields such as goal and deliverables")
    attempt = brief.attempt
    refuse_reserved(brief, operator)
    own = replace(brief, value={key: value for key, value in brief.value.items() if key not in OPERATOR_ONLY})
    own.require_table("a brief", KEYS, format_example(brief, "goal"), explain_place)
    for name in ("goal", "deliverables"):
        if brief.lacks(name, KEYS):
            brief.faults.append(brief.make_error(f"the field {name} is missing; write {format_example(brief, name)}"))
    brief = brief.rename_misspelt(KEYS)
    get = brief.get
    goal = attempt(lambda: deliverables.read_goal(get("goal")), "") if brief.has("goal") else ""
    items: tuple[Deliverable, ...] = ()
    if brief.has("deliverables"):
        items = attempt(lambda: deliverables.read_deliverables(get("deliverables"), find_check), ())
    inputs: tuple[str, ...] = ()
    inputs = attempt(lambda: deliverables.read_inputs(get("inputs", []), folder), inputs)
    memory = attempt(lambda: limits.read_memory(brief), "")
    if memory:
        attempt(lambda: deliverables.refuse_memory_paths(brief, inputs, items), None)
    job = Brief(
        goal=goal,
        deliverables=items,
        folder=folder,
        digest=digest,
        inputs=inputs,
        scope=attempt(lambda: read_scope(brief, make_scope), CLOSED),
        image=attempt(lambda: limits.read_image(get("image", "base")), ""),
        seconds=attempt(lambda: limits.read_seconds(brief), 0.0),
        look=attempt(lambda: limits.read_look(get("look", "")), ""),
        approve=attempt(lambda: limits.read_approve(get("approve", "auto")), "every"),
        tools=attempt(lambda: limits.read_tools(brief), ()),
        wall=attempt(lambda: limits.read_wall(get("wall", "container")), ""),
        sensitive_wall=attempt(lambda: limits.read_sensitive_wall(brief), ""),
        size=attempt(lambda: limits.read_size(get("size", {})), DeskSize()),
        budget=attempt(lambda: limits.read_budget(get("budget", {})), JobBudget()),
        models=attempt(lambda: limits.read_models(brief), Models()),
        memory=memory,
        wait=attempt(lambda: limits.read_wait(get("wait", 86400)), 0.0),
        each=attempt(lambda: read_each(brief), None),
        reduce=attempt(lambda: read_reduce(brief, find_check), None),
        explicit=frozenset(brief.value),
    )
    brief.raise_faults()
    return job


def parse_text(text: str, form: Form) -> BriefValue:
    """Parse a text with its line numbers. The scan for lines comes first, because it takes linear time on any input."""
    if form == "json":
        lines = find_json_lines(text)
        return BriefValue(_parse_json(text), form=form, lines=lines)
    lines = find_toml_lines(text)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        place = _TOML_PLACE.search(str(e))
        line = f", line {place[1]}, column {place[2]}" if place else ""
        raise ValueError(f"{line}: invalid TOML: {_TOML_PLACE.sub('', str(e))}; correct this line") from None
    except ValueError:
        raise _make_digits_error("TOML") from None
    return BriefValue(table, form=form, lines=lines)


def _parse_json(text: str) -> object:
    """Parse JSON. Python's non-standard constants were already refused by the scan for lines."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as e:
        raise ValueError(f", line {e.lineno}, column {e.colno}: invalid JSON: {e.msg}; correct this line") from None
    except ValueError:
        raise _make_digits_error("JSON") from None


def _make_digits_error(form: str) -> ValueError:
    """Return the error for a number that Python refuses to convert: its own text advises to change the interpreter."""
    most = sys.get_int_max_str_digits()
    return ValueError(f": invalid {form}: a number has more than {most} digits; write it with fewer digits")


def _as_plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _as_plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_plain(each) for each in value]
    return fspath(value) if isinstance(value, PathLike) else value
