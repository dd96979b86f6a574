"""Keys of a brief that only the machine's operator may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hotdesk.brief.brief import DRIVE
from hotdesk.brief.value import BriefValue
from hotdesk.dataclass import dataclass

SWITCH = "HOTDESK_ALLOW_LOCAL"
"""Only with this variable set is there a wall `local`, which is none."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """Why a field is the operator's, and what others write instead."""

    why: str
    remedy: str
    when: Callable[[object], bool] = bool
    """Whether a value is one of those that are the operator's."""
    always: bool = False
    """In no brief at all, the operator's own included."""


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
"""By field. Whoever reads briefs of others refuses all of them; who reads the operator's own, only `always`."""


def refuse_reserved(brief: BriefValue, operator: bool) -> None:
    """Note each field that is the operator's as a fault."""
    for key, reserved in OPERATOR_ONLY.items():
        if brief.has(key) and (reserved.always or not operator) and reserved.when(brief.get(key).value):
            why = f"this brief must not set {key}: {reserved.why}; {reserved.remedy}"
            brief.faults.append(brief.get(key).make_error(why))
