"""Tests of the wall for a tenant's desks: what the operator configured, otherwise the strongest one available."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.api.keys import ApiKeys
from hotdesk.api.settings import read
from hotdesk.api.walls import TenantWalls
from hotdesk.desk.seam import Spec
from hotdesk.errors import BriefError, HostError
from hotdesk.walls import NOMINAL_CATALOG, TRAITS, WallCatalog, WallStatus

PLAIN = WallCatalog({"container": WallStatus("container", TRAITS["container"])})
SENTRY = WallCatalog({name: WallStatus(name, TRAITS[name]) for name in ("container", "gvisor")})


def several() -> int:
    return 2


def test_one_tenant_has_containers() -> None:
    assert TenantWalls(NOMINAL_CATALOG).of("default") == "container"


def test_several_tenants_have_the_strongest_wall_available() -> None:
    assert TenantWalls(SENTRY, count=several).of("acme") == "gvisor"
    assert TenantWalls(NOMINAL_CATALOG, count=several).of("acme") == "microvm"


@pytest.mark.parametrize("walls", [PLAIN, WallCatalog()], ids=["containers alone", "nothing"])
def test_several_tenants_share_no_kernel_unless_the_operator_says_so(walls: WallCatalog) -> None:
    with pytest.raises(
        HostError, match=r"several tenants.* share the host's kernel; .*wall = \"container\" below \[serve"
    ):
        TenantWalls(walls, count=several).of("acme")


def test_the_operator_may_allow_sharing_for_all_tenants_or_for_one() -> None:
    assert TenantWalls(PLAIN, usual="container", count=several).of("acme") == "container"
    own = TenantWalls(SENTRY, own={"acme": "container"}, count=several)
    assert (own.of("acme"), own.of("other")) == ("container", "gvisor")
    assert TenantWalls(SENTRY, usual="gvisor", own={"acme": "container"}).of("acme") == "container"


def test_the_ceiling_overrides_the_settings_of_tenants() -> None:
    assert TenantWalls(SENTRY, "gvisor", usual="container", count=several).of("acme") == "gvisor"
    assert TenantWalls(SENTRY, "local").of("acme") == "container"


def test_a_missing_tenant_wall_is_refused() -> None:
    with pytest.raises(HostError, match="`hotdesk setup --wall gvisor` sets it up; hotdesk does not fall back"):
        TenantWalls(PLAIN, own={"acme": "gvisor"}).of("acme")


def test_a_client_may_request_a_stronger_wall_but_no_weaker_one() -> None:
    walls = TenantWalls(NOMINAL_CATALOG, usual="gvisor")
    assert walls.route("acme", Spec()).wall == "gvisor"
    assert walls.route("acme", Spec(wall="microvm")).wall == "microvm"
    spec = Spec(wall="gvisor")
    assert walls.route("acme", spec) is spec
    with pytest.raises(BriefError, match="microvm is not available here"):
        TenantWalls(SENTRY).route("acme", Spec(wall="microvm"))


def test_tenants_are_counted_by_their_valid_keys(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path)
    assert keys.count_tenants() == 0
    keys.make("one", "acme")
    keys.make("two", "acme")
    assert keys.count_tenants() == 1
    other = keys.make("three", "other")
    assert keys.count_tenants() == 2
    keys.revoke(other[4:12])
    assert keys.count_tenants() == 1


def test_settings_have_a_default_wall_and_one_for_each_tenant() -> None:
    serving = read({"wall": "container", "tenants": {"acme": {"wall": "gvisor"}, "other": {}}})
    assert (serving.wall, serving.tenants) == ("container", {"acme": "gvisor"})


@pytest.mark.parametrize(
    "table",
    [
        {"wall": "local"},
        {"wall": "paper"},
        {"tenants": 5},
        {"tenants": {"acme": {"wall": "local"}}},
        {"tenants": {"acme": {"walls": "gvisor"}}},
        {"tenants": {"acme": "gvisor"}},
    ],
    ids=str,
)
def test_invalid_settings_are_refused(table: object) -> None:
    with pytest.raises(BriefError):
        read(table)
