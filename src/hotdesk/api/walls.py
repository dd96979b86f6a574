"""The wall of each tenant's desks: the operator's setting, or the strongest available.

Tenants that do not trust each other must not share the host's kernel unless the operator says so. A caller may ask for
more and never for less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace

from hotdesk.config import WALLS, make_choice_hint, read_settings
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Spec
from hotdesk.errors import BriefError, WallError
from hotdesk.walls import NOMINAL_CATALOG, WallCatalog, explain_missing

SHARED_KERNEL = "host"
REMEDY = (
    "`hotdesk setup --wall gvisor` sets up a stronger wall; to accept a shared kernel, write "
    'wall = "container" below [serve]'
)


def _count_one() -> int:
    return 1


@dataclass(slots=True)
class TenantWalls:
    catalog: WallCatalog = NOMINAL_CATALOG
    ceiling: str = ""
    """The weakest wall that `[ceiling]` permits."""
    usual: str = ""
    """The value of `[serve] wall`; empty if it is not set."""
    own: Mapping[str, str] = field(default_factory=dict)
    """The values of `[serve.tenants.NAME] wall`, by tenant."""
    count: Callable[[], int] = _count_one
    """Counts the tenants that have a valid key."""

    def of(self, tenant: str) -> str:
        """Return the weakest wall of a tenant's desks; `WallError` if the operator has to set up or choose one."""
        written = self.own.get(tenant) or self.usual
        if not written and self.count() > 1:
            written = self.catalog.find_strongest()
            self.require_kernel(written)
        wall = self.catalog.choose("container", self.ceiling, written)
        if not (status := self.catalog.find(wall)).is_available:
            raise WallError(f"{explain_missing(status)}; hotdesk does not fall back to a weaker wall")
        return wall

    def require_kernel(self, wall: str) -> None:
        """Refuse a wall with the host's kernel, which only the operator may choose for several tenants."""
        if not wall or self.catalog.find(wall).traits.kernel == SHARED_KERNEL:
            raise WallError(
                "this server has several tenants, but every wall that works on this machine lets them share the "
                f"host's kernel; {REMEDY}"
            )

    def find_faults(self, tenants: Iterable[str]) -> Iterator[str]:
        """Explain why desks of some tenants cannot be opened."""
        for tenant in tenants:
            try:
                self.of(tenant)
            except WallError as e:
                yield str(e)

    def route(self, tenant: str, spec: Spec) -> Spec:
        """Return the spec with the tenant's wall, or with the stronger one it requests."""
        wall = self.catalog.choose(self.of(tenant), spec.wall)
        self.catalog.require(wall)
        return spec if wall == spec.wall else replace(spec, wall=wall)


def read_tenants(name: str, table: object) -> dict[str, str]:
    """Read `[serve.tenants]`: a table for each tenant, with its wall."""
    if not isinstance(table, dict):
        raise BriefError(f"the setting {name} is not a table; write [{name}.NAME] and its settings below")
    found = {
        key: read_settings(f"{name}.{key}", each, {"wall": make_choice_hint(WALLS[1:])}) for key, each in table.items()
    }
    return {key: str(each["wall"]) for key, each in found.items() if "wall" in each}
