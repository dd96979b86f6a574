"""Which guard stops which attack on snapshots, forks, a desk's next life and desks kept ready; as in `guards.py`."""

from __future__ import annotations

from tests.security.guards import BTRFS, LAYERS, OCI, ROOM, SEED, Guard, Removal, each

SNAPSHOT = "test_snapshot_attacks.py"
BENEATH, REBOOTS, UPKEEP = (
    "hotdesk/linux/openat2.py",
    "hotdesk/desk/keeper/reboot.py",
    "hotdesk/desk/keeper/operations.py",
)
OPENING, POOL, REQUEST = "hotdesk/desk/keeper/open.py", "hotdesk/desk/owner/pool.py", "hotdesk/desk/request.py"
CONTROL, KEPT = "hotdesk/desk/owner/control.py", "hotdesk/desk/owner/keeper_handle.py"
LINK = f"{SNAPSHOT}::test_a_link_in_the_way_of_a_forks_own_files_leads_nowhere"
PLACE = f"{SNAPSHOT}::test_whatever_is_in_the_place_of_a_forks_own_files_gives_way"
BURIED = f"{SNAPSHOT}::test_what_is_in_the_way_keeps_no_keeper_waiting_and_harms_only_the_fork"
RESIST = f"{SNAPSHOT}::test_a_desk_that_resists_is_kept_whole_or_its_owner_is_told_and_goes_back_all_the_same"
GUESS = f"{SNAPSHOT}::test_no_name_means_a_snapshot_of_another_desk"

ANYTHING = Removal(REQUEST, '[str, re.compile(r"[1-9][0-9]{0,8}"', '[str, re.compile(r"(?s).*"')
UNPLANTED = Removal(
    LAYERS, "        identity.plant(upper, files)\n", "        identity.plant(upper, {} if source else files)\n"
)
OVERWRITTEN = (
    Removal(
        BENEATH,
        "    remove(fd, name)\n    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC\n",
        "    flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC\n",
    ),
)

GUARDS_OF_SNAPSHOTS: tuple[Guard, ...] = (
    Guard(
        "names that end at their layer",
        (Removal(BENEATH, "flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS, mode)", "flags, 0, mode)"),),
        each(LINK, "{}", ("a folder that leads to the host", "a folder that leads out by dots")),
    ),
    Guard(
        "names that end at their layer, and at no process",
        (Removal(BENEATH, "flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS, mode)", "flags, 0, mode)"),),
        each(LINK, "{}", ("a folder that leads through a process",)),
    ),
    Guard(
        "files in the place of what was there",
        OVERWRITTEN,
        (f"{LINK}[a file that leads to the host]", *each(PLACE, "{}", ("a link", "a pipe", "a second name"))),
    ),
    Guard(
        "files of a fork's own",
        (UNPLANTED,),
        (PLACE,),
    ),
    Guard(
        "no folder that is emptied for a fork",
        (
            Removal(
                SEED,
                "            if is_folder(root, path):\n",
                "            if not path:\n",
            ),
        ),
        each(BURIED, "{}", ("a folder",)),
    ),
    Guard(
        "calls of `sudo` that end with their desk's life",
        (
            Removal(
                ROOM,
                "        if self.sudo is not None:\n            self.sudo.close()  #",
                "        if self.sudo is not None and self.sudo.fileno() < 0:\n            self.sudo.close()  #",
            ),
        ),
        (f"{SNAPSHOT}::test_a_call_of_sudo_that_holds_itself_open_does_not_outlive_its_desks_life",),
    ),
    Guard(
        "files as they were",
        (Removal(REBOOTS, "                layers.roll_back(source, held.spec.disk)\n", "                pass\n"),),
        (f"{SNAPSHOT}::test_nothing_that_was_written_or_ran_outlives_a_rollback",),
    ),
    Guard(
        "an end to a root that is starting",
        (Removal(REBOOTS, "if held.runtime or held.down:", "if held.is_starting() or held.down:"),),
        (f"{SNAPSHOT}::test_a_root_that_is_always_about_to_start_does_not_keep_its_desk_from_being_halted",),
    ),
    Guard(
        "an end to what resists",
        (Removal(REBOOTS, "if held.room.cgroup.strike() or held.children():", "if held.children():"),),
        (RESIST,),
    ),
    Guard(
        "room that was used already",
        (Removal(BTRFS, "most = max(size - self.charges.beside(desk), MIB)", "most = size"),),
        (f"{SNAPSHOT}::test_going_back_and_forking_win_no_room_on_the_disk",),
    ),
    Guard(
        "snapshots by a number",
        (
            ANYTHING,
            Removal(LAYERS, "        if snapshot not in self.snapshots:\n", "        if not snapshot:\n"),
            Removal(LAYERS, "        return self.snapshots[snapshot]\n", "        return snapshot\n"),
        ),
        (f"{GUESS}[10]",),
    ),
    Guard(
        "a tenant's forks",
        (Removal(OPENING, "origin.spec.tenant != spec.tenant:", "origin.spec.tenant == origin.desk:"),),
        (f"{SNAPSHOT}::test_a_fork_stays_with_its_tenant",),
    ),
    Guard(
        "desks nobody finds",
        (
            Removal(
                OCI,
                "            if not spare:\n                self.desks",
                "            if desk:\n                self.desks",
            ),
        ),
        (f"{SNAPSHOT}::test_a_desk_that_is_kept_ready_is_reached_by_nobody_and_claimed_once",),
    ),
    Guard(
        "desks that are claimed once",
        (Removal(UPKEEP, "    if not held.spare:\n", "    if held.down:\n"),),
        (f"{SNAPSHOT}::test_a_desk_that_is_kept_ready_is_reached_by_nobody_and_claimed_once",),
    ),
    Guard(
        "a tenant's spares",
        (Removal(POOL, "return Kind(spec.tenant, image,", 'return Kind("", image,'),),
        (f"{SNAPSHOT}::test_a_desk_that_is_kept_ready_for_one_tenant_is_not_given_to_another",),
    ),
    Guard(
        "a tenant's spares, as the keeper has them",
        (Removal(UPKEEP, "    if request.spec.tenant != held.spec.tenant or", "    if"),),
        (f"{SNAPSHOT}::test_a_desk_that_is_kept_ready_for_one_tenant_is_not_given_to_another",),
    ),
    Guard(
        "a certificate of a fork's own",
        (UNPLANTED,),
        (f"{SNAPSHOT}::test_a_fork_believes_its_own_door_and_outlives_its_origin",),
    ),
)

REFUSED = "without the first guard another refuses it: the keeper's names, or the shape a request must have"
NO_GUARD_OF_SNAPSHOTS: dict[str, str] = {
    **dict.fromkeys(each(GUESS, "{}", [*range(10), 11]), REFUSED),
    **dict.fromkeys(
        each(BURIED, "{}", ("a deep folder", "a file instead of a folder", "no folder")),
        "the kernel or the interpreter refuses it, too; that only the fork is harmed must pass",
    ),
    f"{SNAPSHOT}::test_a_fork_gets_nothing_for_what_its_origin_was_given": (
        "placeholders are made anew for every desk: test_secret_attacks.py shows what keeps them apart"
    ),
}
