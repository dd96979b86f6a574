"""What only the operator of a machine may say: whatever it dials, opens or runs because somebody wrote it down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hotdesk.brief.brief import DRIVE
from hotdesk.brief.value import BriefValue

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


def beside(inputs: object) -> bool:
    """Say whether any input is a file of this machine's."""
    return not isinstance(inputs, list) or any(not str(each).startswith(DRIVE) for each in inputs)


CODE = Reserved(
    "a brief asks for work and never says what this machine runs",
    "name models in `models`; another brain is chosen on the command line when the job starts",
    when=lambda value: True,
    always=True,
)
OPERATOR_ONLY: Mapping[str, Reserved] = {
    "names": Reserved("this machine dials what a name leads to", "its operator writes them to `[door] names`"),
    "inputs": Reserved("a file beside a brief is a file of this machine", f'put it into the drive, then "{DRIVE}NAME"',
                       when=beside),
    "wall": Reserved("a program behind no wall is a program on this machine", 'write "container"',
                     when=lambda value: value == "local"),
    "brain": CODE,
    "script": CODE,
    "command": CODE,
    "program": CODE,
}  # fmt: skip
"""By field. Whoever reads briefs of others refuses all of them; who reads the operator's own, only `always`."""


def refuse_reserved(brief: BriefValue, operator: bool) -> None:
    """Refuse what whoever wrote this brief may not say."""
    for key, reserved in OPERATOR_ONLY.items():
        if brief.has(key) and (reserved.always or not operator) and reserved.when(brief.get(key).value):
            raise brief.get(key).make_error(f"{key} is not for a brief to say: {reserved.why}; {reserved.remedy}")
