"""The authenticated caller of a request: its tenant, key name and permissions."""

from __future__ import annotations

from typing import Literal, get_args

from hotdesk.config import DEFAULT_TENANT as DEFAULT_TENANT
from hotdesk.dataclass import dataclass

Power = Literal["sandboxes", "desks", "jobs", "approve", "drive", "vault", "journal", "admin"]
"""What a key may be used for; `admin` sees its tenant's keys and may end everything."""
POWERS: frozenset[Power] = frozenset(get_args(Power))


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request, as its key identifies it."""

    tenant: str
    name: str
    """The person or program the key was made for: approvals carry it."""
    key: str
    """The key's id, never the key."""
    powers: frozenset[Power] = POWERS

    @property
    def described(self) -> str:
        return f"{self.name} key {self.key}"

    def may(self, power: Power) -> bool:
        return power in self.powers
