"""Which guard stops which attack: how to take each guard out, and the attacks that must then succeed.

A guard that another one covers is taken out together with it: no capability is of use to a call the filter refuses.
No removal lets an attack leave this machine or the folder of its test: routes lead to loopback, limits grow a little.
"""

from __future__ import annotations

from tests.security.guards import Guard, Removal, cases, each

SECCOMP, BUNDLE, PROOF = (
    "hotdesk/desk/wall/container/seccomp.py",
    "hotdesk/desk/wall/container/bundle.py",
    "hotdesk/desk/wall/container/prove.py",
)
ROOM, KEEPER, CGROUP = "hotdesk/desk/room/room.py", "hotdesk/desk/keeper/keeper.py", "hotdesk/linux/cgroup.py"
TRANSFER, LINKED, OCI = "hotdesk/desk/owner/transfer.py", "hotdesk/desk/link/desk.py", "hotdesk/desk/owner/runtime.py"
KERNEL, UIDS, DISK = "hotdesk/linux/syscalls.py", "hotdesk/linux/uids.py", "hotdesk/desk/room/disk.py"
BTRFS, LAYERS, SEED = "hotdesk/desk/room/btrfs.py", "hotdesk/desk/room/rootfs.py", "hotdesk/desk/room/identity.py"
DOORMAN, DOOR, CONFINE = "hotdesk/desk/keeper/services.py", "hotdesk/door/process.py", "hotdesk/linux/landlock.py"
CELL = "hotdesk/linux/jail.py"
STATE, AGENT = "hotdesk/desk/keeper/state.py", "hotdesk_guest/agent.py"
BURNING, LAUNCH, CHANNEL = (
    "hotdesk/desk/keeper/burn.py",
    "hotdesk/desk/wall/container/crun.py",
    "hotdesk/desk/link/channel.py",
)
PROCESS = "hotdesk/desk/link/process.py"

CALL = "test_kernel_attacks.py::test_a_call_is_answered_as_the_rules_say"
PRIVILEGE = "test_process_attacks.py::test_a_process_has_no_privilege"
RISE = "test_process_attacks.py::test_a_process_cannot_rise"
HOST = "test_process_attacks.py::test_no_process_of_the_host_is_there"
FIRST = "test_process_attacks.py::test_the_first_process_cannot_be_read_traced_or_stopped"
SPACE = "test_process_attacks.py::test_no_namespace_leads_to_another"
CORE = "test_process_attacks.py::test_no_core_is_ever_dumped"
SIGNALS = "test_process_attacks.py::test_queued_signals_are_limited_and_not_charged_to_the_hosts_root"
FAR = "test_network_attacks.py::test_no_address_beyond_it_can_be_reached"
OWN_ADDRESS = "test_network_attacks.py::test_the_hosts_own_address_cannot_be_reached"
LOOPBACK = "test_network_attacks.py::test_a_desk_has_loopback_and_nothing_else"
SOCKET = "test_network_attacks.py::test_sockets_of_the_host_and_of_other_desks_are_out_of_reach"
CHANGE = "test_network_attacks.py::test_a_desk_cannot_change_its_network"
NAME = "test_file_attacks.py::test_no_name_or_link_reaches_anything_new"
MARK = "test_file_attacks.py::test_no_attribute_or_order_to_the_file_system_does_anything"
OVERWRITE = "test_file_attacks.py::test_no_program_that_runs_outside_can_be_overwritten"
MADE = "test_file_attacks.py::test_what_the_keeper_made_cannot_be_added_to"
AGENTS = "test_file_attacks.py::test_there_is_no_cgroup_to_set_a_release_agent_in"
DEVICES = "test_device_attacks.py"
FACTS = "test_host_fact_attacks.py"
DIALLED = "test_link_attacks.py::test_nobody_dials_the_link_a_second_time"
UNREAD = "test_bomb_attacks.py::test_many_processes_with_many_sockets_have_no_more_unread_than_a_desks_memory"
BOMB = "test_bomb_attacks.py::test_a_bomb_stays_in_its_limits_another_desk_answers_and_it_burns"
RESIST = "test_resistance_attacks.py::test_a_desk_that_resists_burns_within_a_bound"
LIE = "test_transfer_attacks.py::test_a_lying_guest_brings_nothing_else_out"
PLAIN = "test_transfer_attacks.py::test_only_plain_files_and_folders_with_plain_names_come_out"
LIAR = "test_transfer_attacks.py::test_a_guest_that_lies_about_names_writes_nothing_elsewhere"
TURNED = "test_owner_attacks.py::test_a_turned_command_can_write_only_where_results_go_and_reach_nobody"
NEIGHBOUR = "test_neighbour_attacks.py"
SHARED = f"{NEIGHBOUR}::test_who_may_open_desks_at_a_shared_socket_opens_none_with_what_is_the_operators"
LIFE = "test_lifetime_attacks.py"

RESISTERS = (
    "a chain of vforks",
    "children stopped by their tracer",
    "children whose exit their tracer holds",
    "stopped groups",
    "children nobody reaps",
    "a race of forks",
    "waiting for locks",
    "every signal blocked",
    "writing to disk",
    "threads that will not end",
    "in a cage of its own",
)
KINDS = ("TCP", "TCP on IPv6", "UDP", "abstract", "abstract datagram")

UNPROVEN = Removal(PROOF, "while wrong := flaws(pid, uid, capabilities, netns, userns):", "while wrong := list[str]():")
"""Without it a desk that lacks a wall is not handed over at all."""
CAPABLE = (
    UNPROVEN,
    Removal(BUNDLE, "guest(room, uids.USER, [],", 'guest(room, uids.USER, [f"CAP_{each}" for each in ALL.split()],'),
    Removal(BUNDLE, '"inheritable": [], "ambient": []', '"inheritable": capabilities, "ambient": capabilities'),
    Removal(
        BUNDLE,
        'LIMITS = {"NOFILE"',
        'ALL = """CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE\n'
        "NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_CHROOT SYS_PTRACE SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE\n"
        'MKNOD SETFCAP"""\n'
        'LIMITS = {"NOFILE"',
    ),
)
CALLS_ALLOWED = Removal(SECCOMP, "refuse(REFUSED, errno.EPERM)", "allow(REFUSED)")
SHOWN = Removal(AGENT, "    guest.line.dial()\n    hide()\n", "    guest.line.dial()\n")
FIRST_TRACED = Removal(SECCOMP, 'refuse("ptrace", errno.EPERM, equal(1, 1))', 'allow("ptrace", equal(1, 1))')
NEW_NETWORK = "        self.netns, self.gate = syscalls.in_new_netns(open_gate)\n"
QUICK = (
    Removal(CGROUP, "def kill(self, seconds: float = 5.0)", "def kill(self, seconds: float = 0.3)"),
    Removal(BURNING, "PATIENCE = 5.0", "PATIENCE = 0.3"),
)
SPARED = (*QUICK, Removal(CGROUP, "        for pid in sorted(pids):\n", "        for pid in sorted(pids)[1:]:\n"))
"""Spares a desk's first process, and nothing that could do harm."""
FROZEN = (*QUICK, Removal(CGROUP, "            self.freeze(False)\n", "            pass\n"))


def without_namespace(kind: str) -> Removal:
    """Leave a desk in the host's namespace of a kind."""
    kinds = ("pid", "ipc", "uts", "mount", "cgroup")
    left = ", ".join(f'"{each}"' for each in kinds if each != kind)
    return Removal(BUNDLE, 'for kind in ("pid", "ipc", "uts", "mount", "cgroup"))', f"for kind in ({left}))")


CALLS = ()

PROCESSES = ()

NETWORK = ()

FILES = ()

LINK = ()

LIMITS = ()

ENDS = (
    Guard(
        "an end to bombs",
        SPARED,
        (
            *cases(BOMB, "output | inodes | descriptors | loopback | signals"),
            f"{LIFE}::test_a_desk_that_ignores_signals_burns_at_once",
        ),
    ),
    Guard("an end to desks that resist", SPARED, each(RESIST, "{}-running", RESISTERS)),
    Guard("an end to frozen desks that resist", FROZEN, each(RESIST, "{}-frozen", RESISTERS)),
    Guard("an end to frozen desks", FROZEN, (f"{LIFE}::test_a_frozen_desk_burns_too",)),
    Guard(
        "an end with the owner",
        (Removal(KEEPER, '            self.burn(desk, "owner gone")\n', "            pass\n"),),
        (f"{LIFE}::test_a_desk_dies_with_its_owner",),
    ),
    Guard(
        "an end in time",
        (Removal(KEEPER, "            if at <= now():\n", "            if at <= now() - 60:\n"),),
        (
            f"{LIFE}::test_a_stopped_owner_does_not_stop_a_deadline",
            f"{LIFE}::test_a_deadline_and_idleness_burn_what_still_works",
        ),
    ),
    Guard(
        "an end with the first process",
        (Removal(KEEPER, "elif pid == held.init:", "elif pid == -held.init:"),),
        (
            "test_resistance_attacks.py::test_a_desk_whose_first_process_is_killed_ends_and_says_so",
            "test_resistance_attacks.py::test_a_desk_that_ends_its_own_first_process_is_gone_and_says_so",
            "test_resistance_attacks.py::test_a_guest_that_leaves_takes_its_desk_along",
        ),
    ),
    Guard(
        "an end by the next keeper",
        (Removal("hotdesk/desk/keeper/reap.py", "for desk in state.orphans(settings):", "for desk in list[str]():"),),
        (f"{LIFE}::test_a_desk_whose_owner_and_keeper_are_killed_is_buried_by_the_next_keeper",),
    ),
    Guard(
        "an end by the owner",
        (Removal(OCI, "            await bury(self.config)\n", "            pass\n"),),
        (f"{LIFE}::test_a_desk_whose_keeper_is_killed_is_buried_by_its_owner",),
    ),
)

COPIES = (
    Guard(
        "names without folders",
        (Removal(TRANSFER, 'or "/" in name or len', 'or name.startswith("/") or len'),),
        (*cases(LIE, "/climb | /climb-folders"), LIAR),
    ),
    Guard(
        "names that can be printed",
        (Removal(TRANSFER, "    return name.isprintable()\n", "    return True\n"),),
        (*cases(LIE, "/control"), PLAIN),
    ),
    Guard(
        "no link followed here",
        (Removal(TRANSFER, "flags | os.O_NOFOLLOW | os.O_CLOEXEC", "flags | os.O_CLOEXEC"),),
        ("test_transfer_attacks.py::test_links_pipes_and_devices_of_this_machine_are_not_written_through",),
    ),
    Guard(
        "folders by descriptor",
        (
            Removal(
                TRANSFER,
                "        fd = open_local(name, os.O_RDONLY | os.O_DIRECTORY, above)\n",
                '        place = os.readlink(f"/proc/self/fd/{above}").replace("-moved", "")\n'
                '        fd = os.open(f"{place}/{name}", os.O_RDONLY)\n',
            ),
            Removal(
                TRANSFER,
                "        fd = open_local(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK, above, mode)\n",
                '        place = os.readlink(f"/proc/self/fd/{above}").replace("-moved", "")\n'
                '        fd = os.open(f"{place}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)\n',
            ),
        ),
        ("test_transfer_attacks.py::test_a_link_swapped_in_here_during_a_copy_is_not_followed",),
    ),
    Guard(
        "regular files only",
        (Removal(TRANSFER, "if not stat.S_ISREG(os.fstat(fd).st_mode):", "if fd < 0:"),),
        ("test_transfer_attacks.py::test_links_pipes_and_devices_of_this_machine_are_not_written_through",),
    ),
    Guard(
        "modes of our own",
        (Removal(TRANSFER, "mode = 0o755 if found.mode & 0o100 else 0o644", "mode = found.mode"),),
        (*cases(LIE, "/modes | /negative"), PLAIN),
    ),
    Guard(
        "no link asked for",
        (Removal(TRANSFER, 'if found.kind == "symlink":', 'if found.kind == "none":'),),
        ("test_transfer_attacks.py::test_a_link_in_the_desk_is_never_followed",),
    ),
    Guard(
        "so many bytes",
        (Removal(TRANSFER, "if self.bytes_left < 0:", "if self.bytes_left < -(8 << 20):"),),
        (
            "test_transfer_attacks.py::test_a_file_that_grows_without_end_stops_at_the_limit",
            "test_transfer_attacks.py::test_a_copy_ends_at_its_byte_limit",
        ),
    ),
    Guard(
        "a copy that is stopped closes what it reads",
        (
            Removal(
                TRANSFER,
                "async with aclosing(self.desk.read_stream(remote)) as stream:",
                "if stream := self.desk.read_stream(remote):",
            ),
        ),
        ("test_transfer_attacks.py::test_a_copy_that_is_stopped_reads_no_further",),
    ),
    Guard(
        "so large a file",
        (Removal(TRANSFER, "if found.size > self.bytes_left:", "if found.size > 1 << 80:"),),
        (
            *cases(LIE, "/huge"),
            "test_transfer_attacks.py::test_a_file_larger_than_the_limit_is_refused_before_it_is_copied",
        ),
    ),
    Guard(
        "so many entries",
        (Removal(TRANSFER, "if self.entries_left < 0:", "if self.entries_left < -1000:"),),
        ("test_transfer_attacks.py::test_a_guest_that_lists_without_end_is_stopped",),
    ),
    Guard(
        "so long a listing",
        (
            Removal(CHANNEL, "LISTED = 32 * MIB", "LISTED = 1 * MIB"),
            Removal(
                LINKED, 'raise FileError(f"{path} has more than {most}; list less of it", "other")', "return found"
            ),
        ),
        cases(LIE, "/million"),
    ),
    Guard("so deep a folder", (Removal(TRANSFER, "DEPTH = 64", "DEPTH = 70"),), cases(LIE, "/deep")),
    Guard(
        "one thing by one name",
        (
            Removal(
                TRANSFER,
                "        with suppress(FileExistsError):\n",
                "        with suppress(FileExistsError):\n"
                '            if os.path.isfile(f"/proc/self/fd/{above}/{name}"):\n'
                "                os.unlink(name, dir_fd=above)\n",
            ),
        ),
        cases(LIE, "/twice"),
    ),
    Guard(
        "kinds that we know",
        (
            Removal(
                "hotdesk/desk/link/replies.py", '(str(value.get("kind")), "other")', '(str(value.get("kind")), "file")'
            ),
        ),
        (*cases(LIE, "/odd"), "test_transfer_attacks.py::test_devices_of_an_image_do_not_come_out"),
    ),
    Guard(
        "no folder behind a link on the way in",
        (Removal(TRANSFER, "if not os.path.islink(os.path.join(folder, name)):", "if name:"),),
        ("test_transfer_attacks.py::test_a_folder_with_a_link_out_of_it_is_not_followed_on_the_way_in",),
    ),
    Guard(
        "texts that can be printed",
        (
            Removal(
                "hotdesk/errors.py",
                "c if c.isprintable() and c not in UNSEEN else",
                "c if c else",
            ),
        ),
        (
            *cases(LIE, "/error"),
            "test_transfer_attacks.py::test_what_the_command_line_prints_is_escaped",
            "test_transfer_attacks.py::test_ps_and_image_ls_escape_what_they_find",
            "test_transfer_attacks.py::test_a_traceback_asked_for_is_escaped_too",
        ),
    ),
)

CLEAN = (
    Guard(
        "no folder emptied for a fork",
        (Removal(SEED, "            if is_folder(root, path):\n", "            if not path:\n"),),
        ("test_again_attacks.py::test_no_tree_of_a_desk_is_cleared_away_by_the_keeper_that_forks_it",),
    ),
    Guard(
        "a copy of its own for a desk that verifies",
        (Removal(LAYERS, "self.shown.get(layer, layer)", "layer"),),
        (
            "test_sterile_attacks.py::test_a_desk_that_verifies_shares_no_superblock_with_one_that_works",
            "test_sterile_attacks.py::test_a_changed_image_is_not_what_a_verifying_desk_sees",
        ),
    ),
    Guard(
        "a pool that knows who verifies",
        (
            Removal("hotdesk/desk/owner/pool.py", "image, spec.sterile, proven", "image, False, proven"),
            Removal(
                "hotdesk/desk/keeper/operations.py",
                "if request.spec.sterile != held.spec.sterile:",
                "if request.port < 0:",
            ),
        ),
        ("test_sterile_attacks.py::test_a_working_desk_kept_ready_is_not_given_to_whoever_verifies",),
    ),
    Guard(
        "a look at a copy after an oops",
        (Removal("hotdesk/desk/image/sterile.py", "                verify(fd, file)\n", "                pass\n"),),
        ("test_sterile_attacks.py::test_after_an_oops_a_copy_that_was_written_to_is_not_stood_on",),
    ),
)

COMMANDS = (
    Guard(
        "Landlock for commands",
        (Removal(CONFINE, "    restrict([existing(path) for path in writable], tcp=BIND if dials else TCP)\n", ""),),
        cases(TURNED, "write elsewhere | write over | truncate | rename | link in | connect | bind | signal"),
    ),
    Guard(
        "Landlock and no capability for commands",
        (
            Removal(CONFINE, "    restrict([existing(path) for path in writable], tcp=BIND if dials else TCP)\n", ""),
            Removal(CONFINE, "drop_capabilities({CAP_DAC_OVERRIDE} if any_owner else ", "({1} if any_owner else "),
        ),
        cases(TURNED, "mount namespace | ptrace | setuid | child"),
    ),
    Guard(
        "a command that confines itself",
        (
            Removal(
                "hotdesk/cli/desks/run.py",
                "        confine_to([control_path(settings, 0).parent] if asks(scope) else [])\n",
                "",
            ),
        ),
        ("test_owner_attacks.py::test_a_running_command_has_given_up_its_privileges",),
    ),
)

GUARDS: tuple[Guard, ...] = (
    *CALLS,
    *PROCESSES,
    *NETWORK,
    *FILES,
    *LINK,
    *LIMITS,
    *ENDS,
    *COPIES,
    *CLEAN,
    *COMMANDS,
)

HARMLESS = "it must pass: that the rules are not wider than they need be"
FIRST_OF_HOST = "the kernel wants a capability over the host's own user namespace before it looks at anything"
NOT_BUILT = "this machine's kernel was built without it, and answers as the rule does"
RESOLVED = (
    "the runtime pivots into the desk's root, and the kernel resolves every name there: no text of ours to remove"
)
OTHER_DEVICE = "the kernel links nothing across mounts, and every one of these is a mount of its own"
OVERLAID = "overlayfs itself refuses it, or passes no such order on to the disk below"
BY_KERNEL = "the kernel never lets a process undo this, or wants a capability over the host's own user namespace"

NO_GUARD: dict[str, str] = {
    **dict.fromkeys(
        cases(
            CALL,
            """
            personality asked only | a pipe in the file system | ask the core limit | netlink of routes | socketpair
            of unix | TCP_NODELAY, which is fine | SO_KEEPALIVE, which is fine | SO_INCOMING_CPU, which is fine
            """,
        ),
        HARMLESS,
    ),
    **dict.fromkeys(
        cases(
            CALL,
            """
            clone into a mount namespace | syslog | acct | swapon | swapoff | vhangup | a character device | a block
            device
            """,
        ),
        FIRST_OF_HOST,
    ),
    **dict.fromkeys(
        (
            *cases(CALL, "SCTP | socket family 31 of type 1 | socket family 31 of type 3 | socket family 31 of type 5"),
            *cases(CALL, "socket family 38 of type 1 | socket family 38 of type 3 | socket family 38 of type 5"),
            *each(CALL, "netlink protocol {}", (20, 21)),
            *each(
                CALL,
                "socket family {} of type 2",
                (0, *range(3, 10), *range(11, 16), *range(18, 40), 41, 42, 43, 45, 46, 255),
            ),
            *each(CALL, "socketpair family {}", (0, 15, 30, 31, 38, 45)),
        ),
        NOT_BUILT,
    ),
    f"{CALL}[sync, which does nothing and says so]": "sync says 0 whether it does something or not",
    f"{CALL}[a number no kernel has]": "the kernel answers the same",
    **dict.fromkeys(
        cases(
            RISE,
            """
            leave no_new_privs | leave the filter | change one's memory map | real time | a better priority | never
            be killed for memory | map other users | raise a hard limit
            """,
        ),
        BY_KERNEL,
    ),
    f"{RISE}[lock memory without end]": "this machine's own hard limit is as low, and its root may not raise it",
    f"{RISE}[setuid programs of the image]": "taken off when an image is built: tests/unit/desk/test_unpack.py",
    f"{RISE}[su, sudo and newgrp]": "no such program of the image keeps a setuid bit: tests/unit/desk/test_unpack.py",
    **dict.fromkeys(
        cases(
            SPACE,
            """
            the parent of its user namespace | the parent of its pid namespace | another namespace by opening one to
            write
            """,
        ),
        "the kernel shows nobody a namespace above his own",
    ),
    **dict.fromkeys(
        cases(
            NAME,
            """
            a link to a file of the host | a link with many dots | a link through one's own root | a link through
            one's own folder | a folder moved while one stands in it | openat2 without limits | openat2 from an open
            folder
            """,
        ),
        RESOLVED,
    ),
    **dict.fromkeys(
        cases(
            NAME,
            """
            a hard link to a device | a hard link to the link's socket | a hard link to a kernel file | a hard link
            to nobody's file
            """,
        ),
        OTHER_DEVICE,
    ),
    **dict.fromkeys(
        cases(
            MARK,
            """
            a redirect of overlay's | an opaque mark of overlay's | a file nobody can remove | a file that only
            grows | a file system frozen
            """,
        ),
        FIRST_OF_HOST,
    ),
    **dict.fromkeys(
        cases(
            MARK,
            """
            a redirect of a user's overlay | a whiteout left by a rename | a subvolume | a snapshot removed | a
            quota lifted | a file system trimmed
            """,
        ),
        OVERLAID,
    ),
    **dict.fromkeys(
        cases(f"{NEIGHBOUR}::test_a_lock_is_a_desks_own", "image | disk"),
        "overlayfs gives every desk inodes of its own",
    ),
    f"{NEIGHBOUR}::test_a_watch_sees_nothing_of_another_desk": "overlayfs gives every desk inodes of its own",
    "test_bomb_attacks.py::test_descriptors_end_at_their_limit": (
        "this machine's own hard limit is the same number, and its root may not raise it"
    ),
    "test_bomb_attacks.py::test_memory_runs_out_before_the_hosts_table_of_open_files": (
        "the machine keeps the table that the first keeper made larger"
    ),
    "test_transfer_attacks.py::test_a_link_swapped_in_during_a_copy_leads_nowhere": (
        "links are read by the guest, in the desk: there is nothing of the host's to reach"
    ),
    f"{TURNED}[write below]": HARMLESS,
}
"""Attacks that no removal of ours lets through, each with the reason."""
