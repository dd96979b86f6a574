"""The authenticated caller of a request: its tenant, key name and permissions."""

from __future__ import annotations

from typing import Literal, get_args

from hotdesk.config import DEFAULT_TENANT as DEFAULT_TENANT
from hotdesk.dataclass import dataclass

Power = Literal["sandboxes", "desks", "jobs", "approve", "drive", "vault", "journal", "admin"]
"""Permissions of a key; `admin` manages its tenant's keys, sees metrics and may stop everything."""
POWERS: frozenset[Power] = frozenset(get_args(Power))


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request, identified by its key."""

    tenant: str
    name: str
    """The person or program the key was created for; shown with approvals."""
    key: str
    """The key's id, not the key itself."""
    powers: frozenset[Power] = POWERS

    @property
    def described(self) -> str:
        return f"{self.name} key {self.key}"

    def may(self, power: Power) -> bool:
        return power in self.powers
