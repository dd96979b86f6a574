"""A summary of a brief, for people and for programs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from hotdesk.brief import grant_text, rule_text
from hotdesk.brief.brief import DRIVE, Brief, Deliverable, Each, JobBudget
from hotdesk.checks.required import list_requirements
from hotdesk.cli.terminal import align_columns
from hotdesk.errors import make_printable

MAX_LINES = 20
"""Maximum lines of one field."""
APPROVALS = {
    "auto": "starting the job approves the plan",
    "risky": "a person approves the plan if it does more than read, or uses secrets",
    "plan": "a person approves the plan",
    "every": "a person approves the plan and each step",
}


def format_brief(job: Brief) -> list[str]:
    rows = [
        (field if number == 0 else "", line)
        for field, lines in _describe_fields(job)
        for number, line in enumerate(lines)
    ]
    return align_columns(rows)


def _describe_fields(job: Brief) -> Iterator[tuple[str, list[str]]]:
    yield "goal", [shorten_text(job.goal)]
    yield "inputs", limit_lines([_describe_input(job.folder, name) for name in job.inputs]) or ["none"]
    if job.each is not None:
        yield "items", [_describe_items(job.each)]
    yield "deliverables", limit_lines([_describe_deliverable(item) for item in job.deliverables])
    if job.reduce is not None:
        yield (
            "report",
            [
                shorten_text(job.reduce.goal),
                *limit_lines([_describe_deliverable(item) for item in job.reduce.deliverables]),
            ],
        )
    yield "network", limit_lines([rule_text(rule) for rule in job.scope.rules]) or ["no network"]
    yield "secrets", limit_lines([grant_text(grant) for grant in job.scope.grants]) or ["none"]
    if job.scope.names:
        yield "names", limit_lines([f"{name} maps to {upstream}" for name, upstream in job.scope.names.items()])
    yield "tools", [", ".join(job.tools) or "all tools of the desk"]
    yield "models", _describe_models(job)
    yield "budget", [_describe_budget(job)]
    if job.memory:
        yield "memory", [f"{job.memory}: workers can read what earlier jobs stored there, and add to it"]
    deadline = f"a request without an answer is refused after {_format_seconds(job.wait)}"
    yield (
        "approvals",
        [f"{job.approve}: {APPROVALS[job.approve]}; {deadline}"],
    )
    size = f"{job.size.cpus:g} CPUs, {format_bytes(job.size.memory)} of memory, {format_bytes(job.size.disk)} of disk"
    more = f"steps that have secrets or read untrusted content run behind the wall {job.sensitive_wall}"
    yield "desk", [f"{job.image} behind the wall {job.wall}, {size}", *([more] if job.sensitive_wall else [])]
    if requirements := [line for item in job.deliverables for line in _list_requirements(item)]:
        yield "requirements", requirements


def _describe_items(each: Each) -> str:
    batch = f", {each.batch} rows per item" if each.batch > 1 else ""
    budget = "".join(f", {text}" for text in _describe_amounts(each.budget))
    return (
        f"{each.over}{batch}: each item at its own desk, with at most {_format_seconds(each.seconds)}{budget} and "
        f"{each.attempts} attempts; the swarm pauses if more than {each.quarantine:.0%} of the items fail"
    )


def _describe_amounts(budget: JobBudget) -> list[str]:
    """List the limits of a budget that are set."""
    tokens = [] if budget.tokens is None else [f"{budget.tokens:,} tokens"]
    dollars = [] if budget.dollars is None else [f"${budget.dollars:,.15g}"]
    return [*tokens, *dollars, *([] if budget.acts is None else [f"{budget.acts:,} tool calls"])]


def _describe_input(folder: Path, name: str) -> str:
    if name.startswith(DRIVE):
        return f"{name}, from the drive"
    count, size = measure_input(folder / name)
    return f"{name}, {count} file{'s' * (count != 1)}, {format_bytes(size)}"


def measure_input(path: Path) -> tuple[int, int]:
    """Return the number of files of an input and their bytes, without following links."""
    if path.is_file():
        return 1, path.stat().st_size
    found = [os.path.join(place, name) for place, _, names in os.walk(path) for name in names]
    return len(found), sum(os.lstat(each).st_size for each in found)


def _describe_deliverable(item: Deliverable) -> str:
    checks = [f"{each.check} {json.dumps(each.expect)}" if each.expect else each.check for each in item.checks]
    active = f", and may contain {', '.join(item.active)}" if item.active else ""
    checked = f"checked by {', '.join(checks)}" if checks else "not checked"
    return f"{item.path} ({item.kind}), {checked}{active}"


def _list_requirements(item: Deliverable) -> list[str]:
    """List what the planner and the worker are told about a file's checks."""
    sentences = [make_printable(f"  - {each}") for each in list_requirements(item)]
    return [f"{item.path}:", *sentences] if sentences else []


def _describe_models(job: Brief) -> list[str]:
    lines = (
        [f"planning: {_list_models(job.models.plan)}"] if job.models.plan else ["the model given on the command line"]
    )
    if job.models.act:
        lines.append(f"acting: {_list_models(job.models.act)}")
    return [*lines, f"looking at pictures: {job.look}"] if job.look else lines


def _list_models(models: Sequence[str]) -> str:
    first, *fallbacks = models
    return f"{first} (fallback: {', '.join(fallbacks)})" if fallbacks else first


def _describe_budget(job: Brief) -> str:
    limits = {"tokens": job.budget.tokens, "dollars": job.budget.dollars, "tool calls": job.budget.acts}
    *others, last = [name for name, most in limits.items() if most is None] or [""]
    free = f"; no limit on {', '.join(others)}{' or ' if others else ''}{last}" if last else ""
    return ", ".join([_format_seconds(job.seconds), *_describe_amounts(job.budget)]) + free


def _format_seconds(seconds: float) -> str:
    """Format a time exactly, in units for people: `45 s`, `15 min`, `24 h`, `7 days`."""
    if seconds < 60 or seconds % 1:
        return f"{seconds:.15g} s"
    rest, parts = int(seconds), []
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min"), (1, "s")):
        if rest >= size and (unit != "days" or rest >= 2 * size):
            parts.append(f"{rest // size} {unit}")
            rest %= size
    return " ".join(parts)


def shorten_text(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:200]}… ({len(line)} characters)"


def limit_lines(lines: list[str]) -> list[str]:
    more = len(lines) - MAX_LINES
    return [*lines[:MAX_LINES], f"and {more} more: see --json"] if more > 0 else lines


def format_bytes(size: int) -> str:
    value, unit = float(size), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    if size == 1:
        return "1 byte"
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"


def as_json(job: Brief) -> dict[str, object]:
    return {
        "goal": job.goal,
        "digest": job.digest,
        "folder": str(job.folder),
        "inputs": [_input_to_json(job.folder, name) for name in job.inputs],
        "deliverables": [asdict(item) for item in job.deliverables],
        "egress": [rule_text(rule) for rule in job.scope.rules],
        "grants": [grant_text(grant) for grant in job.scope.grants],
        "names": dict(job.scope.names),
        "tools": list(job.tools),
        "models": {**asdict(job.models), "look": job.look},
        "budget": {**asdict(job.budget), "seconds": job.seconds},
        "memory": job.memory,
        "approve": job.approve,
        "wait": job.wait,
        "image": job.image,
        "wall": job.wall,
        "sensitive_wall": job.sensitive_wall,
        "size": asdict(job.size),
    }


def _input_to_json(folder: Path, name: str) -> Mapping[str, object]:
    if name.startswith(DRIVE):
        return {"name": name}
    count, size = measure_input(folder / name)
    return {"name": name, "files": count, "bytes": size}
