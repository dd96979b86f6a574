"""Keys of a brief that only the machine's operator may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hotdesk.brief.brief import DRIVE
from hotdesk.brief.value import BriefValue
from hotdesk.dataclass import dataclass

SWITCH = "HOTDESK_ALLOW_LOCAL"
"""Environment variable without which the wall `local`, which isolates nothing, is refused."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """Why a field is reserved for the operator, and what others can do instead."""

    why: str
    remedy: str
    when: Callable[[object], bool] = bool
    """Returns whether a value of the field is reserved."""
    always: bool = False
    """Whether the field is refused even in the operator's own briefs."""


def _has_local_input(inputs: object) -> bool:
    return not isinstance(inputs, list) or any(not str(each).startswith(DRIVE) for each in inputs)


CODE = Reserved(
    "a brief describes work and cannot choose the programs of this machine",
    "name models in `models`, or start the job with `hotdesk work --script FILE`",
    when=lambda value: True,
    always=True,
)
OPERATOR_ONLY: Mapping[str, Reserved] = {
    "names": Reserved(
        "names decide where this machine connects to",
        "ask its operator for an entry in `[door] names` of the settings",
    ),
    "inputs": Reserved(
        "inputs of a brief from a client must be in the drive",
        f'store the file there and write "{DRIVE}NAME"',
        when=_has_local_input,
    ),
    "each": Reserved("the items of a swarm are files on this machine", "ask its operator to run `hotdesk swarm`"),
    "wall": Reserved("without a wall, programs would run directly on this machine", 'write wall = "container"',
                     when=lambda value: value == "local"),
    "brain": CODE,
    "script": CODE,
    "command": CODE,
    "program": CODE,
}  # fmt: skip
"""Reserved fields by key. Briefs of others may use none of them; in the operator's own, only `always` is refused."""


def refuse_reserved(brief: BriefValue, operator: bool) -> None:
    """Record each reserved field as a fault."""
    for key, reserved in OPERATOR_ONLY.items():
        if brief.has(key) and (reserved.always or not operator) and reserved.when(brief.get(key).value):
            why = f"this brief must not set {key}: {reserved.why}; {reserved.remedy}"
            brief.faults.append(brief.get(key).make_error(why))
