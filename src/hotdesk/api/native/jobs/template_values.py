"""Fills parameters into a template's brief: where a parameter may stand, and which values are valid there.

Text that an operator wrote (a default, one of the choices) may stand anywhere. A client's own text may stand in the
goal, in names of inputs and deliverables and in what a check expects; in a rule or grant it stands for one host or one
part of a path, and the resulting rule must be for a public host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hotdesk.api.native.desks.egress_limits import require_public
from hotdesk.api.native.problems import ProblemError
from hotdesk.brief.data import Rule
from hotdesk.dataclass import dataclass
from hotdesk.door.policy.scope import read_rule_or_preset
from hotdesk.errors import BriefError

_HOLE = re.compile(r"\{([a-z][a-z0-9_]{0,31})\}")
WORD = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
"""One host, or one part of a path: without spaces, slashes and wildcards."""
STAND_IN = "hotdesk-parameter"
"""A value put in place of a parameter to find out where in a rule the parameter stands."""
TEXTS = ("goal", "inputs", "deliverables")
"""Fields in which a client's text may stand as it is."""
RULES = ("egress", "grants")
FIXED = ("check", "checks", "kind", "active", "file", "beside", "repository", "source", "sources", "image", "with",
         "command", "argv", "tests")  # fmt: skip
"""Fields of a deliverable that select its checks, and the files and programs they use."""


@dataclass(frozen=True, slots=True)
class Parameters:
    values: Mapping[str, str]
    free: frozenset[str]
    """The parameters whose values a client wrote."""

    def fill(self, value: object) -> object:
        return put_in(value, self.values)

    def free_in(self, value: object) -> list[str]:
        return [name for text in _iterate_texts(value) for name in _HOLE.findall(text) if name in self.free]


def fill_brief(brief: Mapping[str, object], parameters: Parameters) -> dict[str, object]:
    """Fill parameters into a template's brief; `ProblemError` if a value may not stand where it is used."""
    filled: dict[str, object] = {}
    for key, value in brief.items():
        if key in RULES:
            filled[key] = [_fill_rule(key, each, parameters) for each in value] if isinstance(value, list) else value
            continue
        if key not in TEXTS:
            require_none(key, value, parameters)
        elif key == "deliverables":
            require_fixed(value, parameters)
        filled[key] = parameters.fill(value)
    return filled


def _fill_rule(key: str, rule: object, parameters: Parameters) -> object:
    filled, free = parameters.fill(rule), parameters.free_in(rule)
    for name in free:
        if not WORD.fullmatch(parameters.values[name]):
            raise ProblemError(
                400,
                "template.value",
                f"the value of {name!r} is part of a host name or path; use letters, digits, '.', '-' and '_' only",
            )
    if free and key == "egress":
        _require_one_host(rule, parameters)
        require_public(read_rules(filled))
    return filled


def _require_one_host(value: object, parameters: Parameters) -> None:
    """Refuse a value that changes which host a rule means: it must be a whole host name, or one label of one."""
    for name in dict.fromkeys(parameters.free_in(value)):
        stood_in = put_in(value, {**parameters.values, name: STAND_IN})
        for rule in read_rules(stood_in):
            if STAND_IN not in rule.host:
                continue
            whole, dotted = rule.host == STAND_IN, "." in parameters.values[name]
            if whole != dotted or "*" in rule.host:
                what = (
                    "a full host name, such as shop.example.test" if whole else "one part of a host name, without dots"
                )
                raise ProblemError(400, "template.value", f"the value of {name!r} must be {what}")


def read_rules(value: object) -> tuple[Rule, ...]:
    if not isinstance(value, str | dict):
        return ()  # the error is reported where the brief is parsed
    try:
        return read_rule_or_preset(value)
    except BriefError as e:
        raise ProblemError(
            400, "template.value", f"with these values, an egress rule of the template is invalid: {e}"
        ) from None


def require_fixed(data: object, parameters: Parameters) -> None:
    """Refuse a client's text in fields that decide how a deliverable is checked."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            if key in FIXED:
                require_none(key, value, parameters)
            require_fixed(value, parameters)
    elif isinstance(data, list):
        for each in data:
            require_fixed(each, parameters)


def require_none(key: str, value: object, parameters: Parameters) -> None:
    """Refuse a client's text in fields that only the operator may set."""
    for name in parameters.free_in(value):
        raise ProblemError(
            400,
            "template.value",
            f"the template uses the value of {name!r} in {key}, where callers may not enter free text; the template's "
            f"author must list `choices` for {name!r}",
        )


def _iterate_texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _iterate_texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _iterate_texts(each)


def put_in(value: object, values: Mapping[str, str]) -> object:
    if isinstance(value, dict):
        return {key: put_in(each, values) for key, each in value.items()}
    if isinstance(value, list):
        return [put_in(each, values) for each in value]
    return _HOLE.sub(lambda hole: values.get(hole[1], hole[0]), value) if isinstance(value, str) else value
