"""Which guard stops which attack of root's inside a desk, and of a desk that resists its pause; as in `guards.py`."""

from __future__ import annotations

from tests.security.guards import Guard, Removal, each
from tests.security.wall_guards import BTRFS, BUNDLE, CALLS_ALLOWED, FROZEN, ROOM, SHOWN, UIDS

ROOT, PAUSE = "test_root_attacks.py", "test_pause_attacks.py"
ROOTS, LEDGER, UPKEEP = "hotdesk/desk/keeper/root.py", "hotdesk/desk/owner/root.py", "hotdesk/desk/keeper/operations.py"
ACTS = "hotdesk_guest/acts.py"
WAYS = ("owner", "sudo")
LIE = f"{ROOT}::test_a_lying_root_harms_only_itself"
REPLACED = f"{ROOT}::test_a_python_that_root_replaced_gains_nothing"
RESISTERS = ("disk", "forking", "vfork", "waiting")
LIES = (
    "a-frame-nobody-opened",
    "a-number-that-is-none",
    "a-word-of-its-own",
    "an-act-that-is-a-list-of-lists",
    "an-end-with-a-strange-code",
    "no-value-at-all",
)
BURNS = f"{PAUSE}::test_a_desk_that_resists_burns_while_it_is_paused"

UNPROVEN_ROOT = Removal(ROOTS, "        if wrong and root.hard <= now():\n", "        wrong = []\n        if wrong:\n")

GUARDS_OF_ROOT: tuple[Guard, ...] = (
    Guard(
        "seven capabilities",
        (Removal(BUNDLE, '"SETUID": 7}', '"SETUID": 7, "MKNOD": 27}'),),
        (f"{ROOT}::test_seen_from_outside_roots_programs_are_nobody",),
    ),
    Guard(
        "no capability to give capabilities",
        (Removal(BUNDLE, '"SETUID": 7}', '"SETUID": 7, "SETFCAP": 31}'),),
        each(f"{ROOT}::test_nothing_root_makes_gives_anybody_more", "{}", WAYS),
    ),
    Guard(
        "calls that root is refused",
        (CALLS_ALLOWED,),
        each(f"{ROOT}::test_no_call_changes_a_wall_or_the_kernel", "{}", WAYS),
    ),
    Guard(
        "a folder of the keeper's that root cannot write",
        (
            Removal(
                BUNDLE,
                'mount(LINK, "bind", room.link, "bind", "ro", *plain, "noexec")',
                'mount(LINK, "bind", room.link, "bind", *plain, "noexec")',
            ),
        ),
        each(f"{ROOT}::test_what_the_keeper_laid_into_the_desk_is_not_changed", "{}", WAYS),
    ),
    Guard(
        "a /proc/sys that root cannot write",
        (Removal(BUNDLE, '"readonlyPaths": ["/proc/sys"],', '"readonlyPaths": [],'),),
        each(f"{ROOT}::test_no_kernel_file_is_written_and_the_first_process_stays_closed", "{}", WAYS),
    ),
    Guard(
        "no id but the desk's own",
        (Removal(UIDS, 'f"0 {base} {USER + 1}\\n65534 {base + NOBODY} 1\\n"', 'f"0 {base} {WIDTH}\\n"'),),
        each(f"{ROOT}::test_ids_beyond_the_desks_own_do_not_exist", "{}", WAYS),
    ),
    Guard(
        "one size for the files of every owner",
        (Removal(BTRFS, "LIMIT_MAX_REFERENCED, most, 0, 0, 0)", "LIMIT_MAX_REFERENCED, most * 5, 0, 0, 0)"),),
        (f"{ROOT}::test_files_of_every_owner_count_against_the_disk",),
    ),
    Guard(
        "root where it was allowed",
        (Removal(ROOM, "if spec.root:\n                self.sudo", "if spec:\n                self.sudo"),),
        (f"{ROOT}::test_a_desk_without_root_does_not_get_it_by_asking_itself",),
    ),
    Guard(
        "the proof before root is handed over",
        (UNPROVEN_ROOT,),
        (f"{ROOT}::test_a_root_whose_walls_do_not_stand_is_not_handed_over",),
    ),
    Guard(
        "a proof that keeps nobody waiting",
        (
            Removal(
                ROOTS,
                "        try:\n            wrong = prove.flaws(",
                '        try:\n            __import__("time").sleep(1)\n            wrong = prove.flaws(',
            ),
        ),
        (f"{ROOT}::test_a_root_that_never_looks_right_keeps_nobody_waiting",),
    ),
    Guard(
        "a rest between two roots",
        (Removal(ROOTS, "RESTING = 1.0", "RESTING = 0.0"),),
        (f"{ROOT}::test_a_root_that_ends_at_once_is_not_started_without_end",),
    ),
    *(
        Guard(
            f"an owner that outlives {lie.replace('-', ' ')}",
            (Removal(LEDGER, "    with suppress(HotdeskError):\n", "    with suppress(KeyError):\n"),),
            (f"{LIE}[{lie}]",),
        )
        for lie in LIES
    ),
    Guard(
        "numbers that can be answered",
        (
            Removal(LEDGER, " if 0 < number < MOST:", ":"),
            Removal(
                "hotdesk_guest/wire.py",
                "int(digits)\n    if not -MOST <= number <= MOST:",
                "int(digits)\n    if not end:",
            ),
        ),
        each(LIE, "{}", ("a-number-too-large-to-answer",)),
    ),
    Guard(
        "ends of what began",
        (Removal(LEDGER, " if number in running and 0 <= code < 256:", ":"),),
        each(LIE, "{}", ("an-end-of-what-never-began", "an-end-told-twice")),
    ),
    Guard(
        "a share of the journal",
        (Removal(LEDGER, "        if size > self.room:\n", "        if size < 0:\n"),),
        (f"{ROOT}::test_what_one_desk_has_noted_is_limited",),
    ),
    Guard(
        "streams that are closed to others",
        (Removal(ACTS, ", _socket.MSG_CMSG_CLOEXEC)", ")"),),
        (f"{ROOT}::test_a_stream_that_waits_is_not_given_to_others",),
    ),
    Guard(
        "streams that are closed",
        (Removal(ACTS, "        for fd in self.streams:\n            os.close(fd)\n", ""),),
        (f"{ROOT}::test_garbage_at_sudos_socket_takes_nothing_for_good",),
    ),
    Guard(
        "three streams a call",
        (Removal(ACTS, " or len(caller.streams) > 3:", ":"),),
        (f"{ROOT}::test_a_caller_cannot_make_root_hold_many_streams",),
    ),
    Guard(
        "callers that end",
        (Removal(ACTS, "        del self.callers[caller.sock.fileno()]\n", "        self.callers.pop(-2, None)\n"),),
        (f"{ROOT}::test_callers_who_say_nothing_end_with_themselves",),
    ),
    Guard(
        "a turn for every caller",
        (Removal(ACTS, "        if full:\n            self.listen()\n", ""), Removal(ACTS, "MOST = 64", "MOST = 4")),
        (f"{ROOT}::test_two_hundred_calls_of_sudo_at_once",),
    ),
    Guard(
        "desks that stop",
        (
            Removal(UPKEEP, "    held.room.cgroup.freeze(True)\n", ""),
            Removal(UPKEEP, "    while not held.room.cgroup.frozen():\n", "    while False:\n"),
        ),
        (
            *each(f"{PAUSE}::test_a_desk_that_resists_is_paused_or_the_owner_is_told", "{}", RESISTERS),
            f"{PAUSE}::test_a_desk_does_not_wake_itself",
        ),
    ),
    Guard(
        "an end to paused desks that resist",
        FROZEN,
        each(BURNS, "{}", ("disk", "forking", "waiting")),
    ),
    Guard(
        "a guest of root's that its programs cannot read",
        (SHOWN,),
        (f"{ROOT}::test_roots_guest_is_not_read_or_traced_by_programs[root]",),
    ),
)

OWN = "what root puts into its own desk runs behind that desk's walls, whatever it is; there is no other guard"
NO_GUARD_OF_ROOT: dict[str, str] = {
    REPLACED: OWN,
    f"{ROOT}::test_a_sudo_that_root_replaced_gains_nothing": OWN,
    f"{ROOT}::test_no_cgroup_is_in_reach": "nothing mounts one; calls that would are attacked elsewhere",
    f"{ROOT}::test_roots_guest_is_not_read_or_traced_by_programs[None]": "the kernel keeps other users out",
    f"{ROOT}::test_the_runtime_that_starts_root_is_not_touched_on_its_way_in": "the runtime's own guard: undumpable",
    f"{ROOT}::test_killing_everything_ends_at_most_the_desk": "without its pid namespace it would end this machine's",
    f"{PAUSE}::test_a_desk_that_resists_is_paused_or_the_owner_is_told[stopped]": "it stands still without us, too",
    f"{BURNS}[stopped]": "it cannot always be frozen, and then need not be thawed to burn",
    f"{BURNS}[vfork]": "it cannot always be frozen, and then need not be thawed to burn",
    f"{PAUSE}::test_whoever_calls_sudo_in_a_paused_desk_waits": "it must pass: that a pause is not an error",
    f"{PAUSE}::test_a_paused_desk_does_not_fill_its_owner": "the windows of its link, which other attacks show",
}
