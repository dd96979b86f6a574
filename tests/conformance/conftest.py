"""The walls that every test of this folder runs on, and which walls are expected to fail which tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import TypeAlias

import anyio
import pytest
from tests.origins import SLOW, BehindGvisor, BehindMicrovm, Origin

from hotdesk.config import Config
from hotdesk.desk.owner.runtime import container_runtime
from hotdesk.desk.seam import Desk, Runtime, Spec
from hotdesk.desk.wall.local.runtime import local_runtime

WATCHING = """
test_a_deadline_burns_the_desk
test_an_idle_desk_is_burnt
test_the_deadline_does_not_wait_for_a_paused_desk
test_a_paused_desk_is_not_idle
test_the_deadline_does_not_wait_for_a_halted_desk
test_the_deadline_is_not_later_for_a_desk_that_started_again
test_a_forks_deadline_begins_when_it_is_forked
""".split()
LISTING = """
test_a_desk_is_listed_in_its_state_directory_until_it_burns
test_a_desks_listing_says_that_it_is_paused
test_a_desks_listing_says_whether_it_is_halted
test_the_record_of_a_desk_names_its_snapshots
""".split()
BEING_ROOT = """
test_rollback_restores_the_whole_tree_exactly
test_calls_made_while_a_desk_is_rolled_back_wait
test_a_desk_starts_again_from_its_disk
test_calls_wait_while_a_desk_is_halted_and_then_succeed
test_forks_are_computers_of_their_own
test_a_fork_has_the_very_files_of_its_origin
""".split()
FILLING = """
test_a_full_disk_is_reported
test_a_full_disk_inside_is_an_errno
test_a_disk_in_memory_is_limited
test_rolling_back_gains_no_disk_space
test_rolling_back_repeatedly_gains_a_full_desk_almost_no_space
test_forks_are_limited_as_their_origin_is
""".split()
COUNTING = """
test_processor_time_is_counted
test_memory_is_counted
test_disk_use_is_counted
test_processes_are_counted
test_kills_for_memory_are_counted
test_a_burnt_desk_uses_nothing
""".split()

EXHAUSTING = """
test_out_of_memory_is_reported
test_out_of_memory_in_a_child_is_reported
test_out_of_memory_in_an_act_is_reported
test_the_number_of_processes_is_limited
test_kills_for_memory_are_counted
test_limits_are_the_same_after_a_restart
""".split()

HURRYING = """
test_a_deadline_burns_the_desk
test_an_idle_desk_is_burnt
test_a_desk_in_use_is_not_idle
test_burning_ends_waiting_calls
test_the_deadline_does_not_wait_for_a_paused_desk
test_a_paused_desk_is_not_idle
test_the_deadline_does_not_wait_for_a_halted_desk
test_the_deadline_is_not_later_for_a_desk_that_started_again
test_a_forks_deadline_begins_when_it_is_forked
test_a_timeout_kills_all_descendants
test_a_listing_stops_at_its_limit
test_forks_are_computers_of_their_own
test_root_starts_again_after_its_guest_was_killed
test_waiting_for_a_killed_root_reports_that_the_desk_continues
""".split()
"""Tests that give a desk less time than an emulated machine takes."""

NOT_OF_MACHINES = frozenset(("test_root_of_a_desk_is_not_root_of_its_kernel",))
"""Tests of what root cannot do to the kernel of its desk: in a virtual machine it can (`e2e/test_microvm.py`)."""

COPYING = """
test_rollback_restores_the_whole_tree_exactly
test_a_fork_has_the_very_files_of_its_origin
test_a_snapshot_during_writing_is_whole
test_a_full_disk_is_reported
test_forks_are_limited_as_their_origin_is
""".split()
"""Tests that also run with snapshots as copies (ext4) in every run; the others do so in the long run."""

KNOWN_FAILURES: dict[tuple[str, str], str] = {
    ("local", "test_the_user_is_1000_named_user"): "programs run as whoever runs the tests",
    ("local", "test_hostname_and_machine_id_are_a_desks_own"): "a directory is no computer of its own",
    ("local", "test_two_desks_do_not_see_each_others_processes"): "there is no wall",
    ("local", "test_two_desks_do_not_see_each_others_files"): "there is no wall",
    ("local", "test_there_is_no_network_but_loopback"): "there is no wall",
    ("local", "test_out_of_memory_is_reported"): "there is no memory limit",
    ("local", "test_out_of_memory_in_a_child_is_reported"): "there is no memory limit",
    ("local", "test_the_number_of_processes_is_limited"): "there is no limit",
    ("local", "test_resource_exhaustion_ends_programs_or_the_desk_and_is_reported"): "there is no limit",
    ("local", "test_orphans_are_adopted"): "the guest is not pid 1",
    ("local", "test_zombies_are_reaped"): "the guest is not pid 1: it depends on the machine's init",
    ("local", "test_rollback_ends_every_program_and_keeps_the_id"): "it boots with this machine, and has its /tmp",
    ("local", "test_limits_are_the_same_after_a_restart"): "there is no limit",
    ("local", "test_a_cancelled_fork_leaves_nothing"): "it keeps no state, and how far a fork came depends on it",
    ("gvisor", "test_processes_are_counted"): "the host's kernel sees the sentry's threads, no programs",
    ("gvisor", "test_root_has_seven_capabilities_and_no_way_to_more"): "its /proc says nothing of NoNewPrivs",
    ("gvisor", "test_rollback_restores_the_whole_tree_exactly"): "its files have no extended attributes",
    ("gvisor", "test_a_fork_has_the_very_files_of_its_origin"): "its files have no extended attributes",
    ("gvisor", "test_all_three_streams_are_one_controlling_terminal"): "it has no /dev/tty",
    (
        "gvisor",
        "test_too_many_changes_are_reported_as_an_overflow",
    ): "its inotify queues have no limit but memory's",
    ("microvm", "test_processes_are_counted"): "the host's kernel sees the emulator's threads, no programs",
    ("microvm", "test_kills_for_memory_are_counted"): "the host's kernel kills nothing in a machine",
    ("microvm", "test_root_has_seven_capabilities_and_no_way_to_more"): "root of its own kernel has them all",
    **{("microvm", name): "it depends on how fast the machine is: it may be emulated" for name in HURRYING},
    **{("gvisor", name): "what exhausts a desk ends it, and is told" for name in EXHAUSTING},
    **{("local", name): "no keeper watches over it" for name in WATCHING},
    **{("local", name): "it keeps no state" for name in LISTING},
    **{("local", name): "nobody is root in it" for name in BEING_ROOT},
    **{("local", name): "a directory has no size" for name in FILLING},
    **{("local", name): "no keeper counts what it uses" for name in COUNTING},
}
"""What a wall cannot do, and why. Each test still runs, and must fail unless it `depends`."""


WALLS = [
    "local",
    pytest.param("container", marks=pytest.mark.container),
    pytest.param("gvisor", marks=[pytest.mark.container, pytest.mark.gvisor]),
    pytest.param("microvm", marks=[pytest.mark.container, pytest.mark.microvm, pytest.mark.timeout(300)]),
]
GVISOR_SAMPLE = frozenset(
    """
    test_a_desk_starts_again_from_its_disk
    test_a_full_disk_inside_is_an_errno
    test_a_killed_first_process_ends_the_desk
    test_a_program_is_notified_of_a_new_size
    test_a_path_is_described
    test_a_port_without_a_listener_is_an_error
    test_a_server_inside_is_dialled
    test_a_snapshot_is_a_point_in_time
    test_a_timeout_kills_all_descendants
    test_a_tree_is_removed
    test_calls_wait_while_a_desk_is_paused_and_then_succeed
    test_ctrl_c_interrupts
    test_every_follower_gets_everything
    test_every_kind_of_change_is_reported
    test_forks_are_computers_of_their_own
    test_hostname_and_machine_id_are_a_desks_own
    test_large_data_passes_both_ways_at_once
    test_orphans_are_adopted
    test_root_is_root_and_the_user_is_not
    test_root_starts_again_after_its_guest_was_killed
    test_stdout_and_stderr_are_apart
    test_sudo_runs_as_root_with_the_callers_streams
    test_there_is_no_network_but_loopback
    test_resource_exhaustion_ends_programs_or_the_desk_and_is_reported
    test_a_written_file_is_read_back
    test_programs_left_at_a_terminal_are_hung_up
    """.split()
)
"""Tests that run behind gVisor in every run; the others are `long`."""
MICROVM_SAMPLE = frozenset(
    """
    test_a_path_is_described
    test_stdout_and_stderr_are_apart
    test_a_written_file_is_read_back
    """.split()
)
"""Tests that run in virtual machines in every run: the machines may be emulated, and slow."""


LONG_ON_LOCAL = frozenset(("test_desk_outside", "test_desk_snapshots", "test_desk_terminal"))
"""Files that run without a wall only in the long run; with containers they run every day."""


Open: TypeAlias = Callable[[Spec], AbstractAsyncContextManager[Desk]]
"""Opens a separate desk, which burns at the end of the block."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark known failures as expected, and run other origins than `opened` on one wall.

    Without a wall, tests that are known to fail or take seconds are `long`.
    """
    idle = {item for item in items if isinstance(item, pytest.Function) and is_idle(item)}
    config.hook.pytest_deselected(items=list(idle))
    items[:] = [item for item in items if item not in idle]
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            wall = item.callspec.params.get("wall")
            if wall == "ext4" and item.originalname not in COPYING:
                item.add_marker(pytest.mark.long)
            if reason := KNOWN_FAILURES.get((str(wall), item.originalname)):
                item.add_marker(pytest.mark.xfail(reason=reason, strict="depends" not in reason))
            if wall == "local" and (reason or item.originalname in SLOW or item.path.stem in LONG_ON_LOCAL):
                item.add_marker(pytest.mark.long)
            if wall == "gvisor" and item.originalname not in GVISOR_SAMPLE:
                item.add_marker(pytest.mark.long)
            if wall == "microvm" and item.originalname not in MICROVM_SAMPLE:
                item.add_marker(pytest.mark.long)


def is_idle(item: pytest.Function) -> bool:
    """Return whether a test has nothing to show with these parameters."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if params.get("wall") == "microvm" and item.originalname in NOT_OF_MACHINES:
        return True
    return params.get("wall", "container") != "container" and params.get("origin", "opened") != "opened"


@pytest.fixture(scope="module", params=WALLS)
def wall(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
async def runtime(wall: str, settings: Config, origin: Origin) -> AsyncIterator[Runtime]:
    if wall == "local":
        async with local_runtime() as local:
            yield local
    else:
        chosen = replace(settings, disk="ext4") if wall == "ext4" else replace(settings, microvm_emulate=True)
        async with container_runtime(chosen) as container:
            yield {"gvisor": BehindGvisor, "microvm": BehindMicrovm}.get(wall, origin)(container)


@pytest.fixture(scope="module")
async def desk(runtime: Runtime) -> AsyncIterator[Desk]:
    """Yield a desk that several tests share; each works in a folder with its own name."""
    opened = await runtime.open(Spec(env={"FROM_SPEC": "spec", "BOTH": "spec"}))
    yield opened
    await runtime.burn(opened.id)


@pytest.fixture
def fresh(runtime: Runtime) -> Open:
    @asynccontextmanager
    async def opened(spec: Spec) -> AsyncIterator[Desk]:
        desk = await runtime.open(spec)
        try:
            yield desk
        finally:
            with anyio.move_on_after(20, shield=True):
                await runtime.burn(desk.id)

    return opened
