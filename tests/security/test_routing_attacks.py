"""Attempts to get a weaker wall than required: by a brief, a step, a worker, a client or a tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.api.metering import MeteredHost
from hotdesk.api.quotas import Quotas
from hotdesk.api.wall_survey import WallSurvey
from hotdesk.api.walls import TenantWalls
from hotdesk.brain.amendments import Amendment, decide_amendment
from hotdesk.brain.permits import choose_wall
from hotdesk.brief import Scope, parse_grant, parse_rule
from hotdesk.brief.brief import Brief
from hotdesk.brief.ceiling import admit_brief
from hotdesk.brief.routing import route_brief
from hotdesk.config import Ceiling, Config
from hotdesk.desk.keeper import state
from hotdesk.desk.seam import Desk, Spec
from hotdesk.desk.wall.registry import survey
from hotdesk.errors import BriefError, HostError, WallError
from hotdesk.host import Host
from hotdesk.plan import Plan, Step
from hotdesk.walls import NOMINAL_CATALOG, TRAITS, WallCatalog, WallStatus, read_proof
from tests import strong_wall
from tests.security.guards import Removal, falls_without, no_guard

JOB = Brief("goal", (), Path(), "", explicit=frozenset({"wall"}))
PLAIN = WallCatalog({"container": WallStatus("container", TRAITS["container"])})
"""A machine that has only containers."""
QUIET = Step("quiet", "Count.", ("shell",), (), ())


def several() -> int:
    return 2


# -- briefs, steps, workers ------------------------------------------------------------------------------------------


@falls_without(
    "the least wall of a machine",
    Removal("brief/ceiling.py", "    if walls.is_weaker(job.wall, ceiling.wall):\n", "    if not job.wall:\n"),
)
@pytest.mark.parametrize("wall", ["container", "local", "gvisor"])
def test_no_brief_names_a_weaker_wall_than_its_ceiling(wall: str) -> None:
    with pytest.raises(BriefError, match=f"the wall {wall} is weaker than microvm"):
        admit_brief(replace(JOB, wall=wall), Ceiling("microvm"))


@falls_without(
    "strength by what a wall is",
    Removal("hotdesk/walls.py", "        if not self.is_boundary:\n", "        if not self.kernel:\n"),
)
def test_a_brief_cannot_pass_an_emulated_machine_off_as_a_stronger_wall() -> None:
    emulated = WallStatus("microvm", replace(TRAITS["microvm"], is_boundary=False))
    here = WallCatalog({**NOMINAL_CATALOG.statuses, "microvm": emulated})
    with pytest.raises(BriefError, match="the wall microvm is weaker than gvisor"):
        admit_brief(replace(JOB, wall="microvm"), Ceiling("gvisor"), here)
    assert route_brief(replace(JOB, wall="microvm", least_wall="gvisor"), here).wall == "gvisor"


@falls_without(
    "the wall of whoever starts a job",
    Removal(
        "brief/routing.py",
        "    wall = walls.choose(job.wall, job.least_wall)\n",
        "    wall = job.wall or job.least_wall\n",
    ),
)
@pytest.mark.parametrize("wall", ["container", "local"])
def test_no_brief_lowers_the_requesters_wall(wall: str) -> None:
    assert route_brief(replace(JOB, wall=wall, least_wall="gvisor"), NOMINAL_CATALOG).wall == "gvisor"


@falls_without(
    "the operator's wall around checks",
    Removal("brief/routing.py", "choose(wall, sensitive, verify_wall)", "choose(wall, sensitive)"),
)
def test_no_brief_lowers_the_wall_around_its_checks() -> None:
    job = replace(JOB, wall="container", sensitive_wall="container")
    assert route_brief(job, NOMINAL_CATALOG, "microvm").verify_wall == "microvm"


@falls_without(
    "walls that are there", Removal("brief/routing.py", "        walls.require(name)\n", "        walls.find(name)\n")
)
@pytest.mark.parametrize(
    "job",
    [replace(JOB, wall="gvisor"), replace(JOB, least_wall="gvisor"), replace(JOB, sensitive_wall="gvisor")],
    ids=["its own", "of whoever starts it", "for what is sensitive"],
)
def test_a_missing_wall_is_not_replaced_by_a_weaker_one(job: Brief) -> None:
    with pytest.raises(BriefError, match="the wall gvisor is not available here"):
        route_brief(job, PLAIN)


@falls_without(
    "a brief's wall around its steps", Removal("brain/permits.py", "    needed = [job.wall]\n", '    needed = [""]\n')
)
def test_no_step_of_a_plan_lowers_the_wall_of_its_brief() -> None:
    plan = Plan((replace(QUIET, wall="container"),))
    assert choose_wall(plan, [0], replace(JOB, wall="gvisor")) == "gvisor"


@falls_without(
    "walls of sensitive steps",
    Removal(
        "brain/permits.py",
        '        needed.append(job.sensitive_wall if is_sensitive(plan, index, job) else "")\n',
        "",
    ),
)
@pytest.mark.parametrize("wall", ["", "container"])
def test_no_plan_moves_a_step_with_secrets_to_a_weaker_wall(wall: str) -> None:
    scope = Scope((parse_rule("read erp.test"),), (parse_grant("erp@erp.test bearer"),))
    pays = replace(QUIET, hosts=("GET erp.test/a",), grants=("erp",), wall=wall)
    assert choose_wall(Plan((pays,)), [0], replace(JOB, scope=scope, sensitive_wall="gvisor")) == "gvisor"


@falls_without(
    "walls of later steps",
    Removal("brain/amendments.py", "    if _lowers_wall([", "    if not old and _lowers_wall(["),
)
@pytest.mark.parametrize(
    "later",
    [replace(QUIET, name="later"), replace(QUIET, name="later", wall="container"), replace(QUIET, name="other")],
)
def test_no_worker_moves_a_later_step_to_a_weaker_wall(later: Step) -> None:
    plan = Plan((QUIET, replace(QUIET, name="later", wall="gvisor")))
    amendment = Amendment("quiet", steps=(later,))
    assert decide_amendment(amendment, plan, replace(JOB, tools=("shell",)), "auto") == "ask"


# -- tenants and clients ---------------------------------------------------------------------------------------------


@falls_without(
    "a kernel for several tenants",
    Removal("api/walls.py", "            self.require_kernel(written)\n", ""),
)
def test_several_tenants_do_not_share_the_hosts_kernel_by_default() -> None:
    with pytest.raises(HostError, match="share the host's kernel"):
        TenantWalls(PLAIN, count=several).route("acme", Spec())


@falls_without(
    "the wall of a tenant",
    Removal(
        "api/walls.py",
        "        wall = self.catalog.choose(self.of(tenant), spec.wall)\n",
        "        wall = spec.wall or self.of(tenant)\n",
    ),
)
@pytest.mark.parametrize(
    "walls", [TenantWalls(usual="gvisor"), TenantWalls(own={"acme": "gvisor"})], ids=["all", "own"]
)
def test_no_client_opens_a_desk_behind_a_weaker_wall_than_its_tenants(walls: TenantWalls) -> None:
    assert walls.route("acme", Spec()).wall == "gvisor"


@falls_without(
    "the ceiling above tenants",
    Removal("api/walls.py", 'choose("container", self.ceiling, written)', 'choose("container", written)'),
)
def test_no_tenant_lowers_the_wall_of_the_machine() -> None:
    walls = TenantWalls(ceiling="microvm", own={"acme": "container"}, count=several)
    assert walls.of("acme") == "microvm"


@falls_without(
    "walls that were removed meanwhile",
    Removal("api/wall_survey.py", "before, self.walls.catalog = self.walls.catalog, found", "before = found"),
)
async def test_a_wall_that_was_removed_while_a_server_runs_is_not_replaced_by_a_weaker_one(settings: Config) -> None:
    both = WallCatalog({name: WallStatus(name, TRAITS[name]) for name in ("container", "gvisor")})
    walls = TenantWalls(both, own={"acme": "gvisor"}, count=several)
    assert walls.route("acme", Spec()).wall == walls.route("other", Spec()).wall == "gvisor"
    await WallSurvey(settings, walls, list[int], lambda settings: PLAIN).refresh()
    for tenant in ("acme", "other"):
        with pytest.raises(WallError):
            walls.route(tenant, Spec())


@pytest.fixture
async def tenant(settings: Config) -> AsyncIterator[MeteredHost]:
    with strong_wall.install():
        walls = TenantWalls(survey(settings), usual=strong_wall.NAME)
        keeper = strong_wall.start_keeper(settings)
        async with MeteredHost(settings, "acme", Quotas(), keeper, walls) as host:
            yield host


def wall_of(host: Host, desk: Desk) -> str:
    return read_proof(state.read_facts(host.config.run / "desks" / desk.id) or {}).wall


@falls_without(
    "every desk of a tenant",
    Removal("desk/owner/runtime.py", "        spec = self.route(spec)\n", ""),
)
@pytest.mark.container
@pytest.mark.timeout(60)
@pytest.mark.parametrize("way", ["host", "runtime"])
async def test_every_desk_of_a_tenant_has_the_tenants_wall(tenant: MeteredHost, way: str) -> None:
    opening = tenant.open(Spec()) if way == "host" else tenant.get_keeper_runtime().open(Spec())  # as local sockets do
    desk = await opening
    assert wall_of(tenant, desk) == strong_wall.NAME
    (fork,) = await tenant.fork(desk, 1)
    assert wall_of(tenant, fork) == strong_wall.NAME


@falls_without(
    "desks that are kept ready for a tenant",
    Removal(
        "hotdesk/host.py", "self.pool.keep(self.get_keeper_runtime().route(spec), count", "self.pool.keep(spec, count"
    ),
)
@pytest.mark.container
@pytest.mark.timeout(60)
async def test_desks_opened_in_advance_for_a_tenant_have_the_tenants_wall(tenant: MeteredHost) -> None:
    tenant.keep_ready(Spec(), 1)
    await tenant.pool.wait_until_full()
    (ready,) = state.list_own_desks(tenant.config)
    assert read_proof(ready).wall == strong_wall.NAME


@no_guard("a keeper has the walls of its own program: what an owner registers is not known to it")
@pytest.mark.container
@pytest.mark.timeout(60)
async def test_an_owner_cannot_have_a_container_named_as_a_stronger_wall(settings: Config) -> None:
    with strong_wall.install():
        async with Host(settings, control=False) as host:
            with pytest.raises(HostError, match="is not available here"):
                await host.open(Spec(wall=strong_wall.NAME))
