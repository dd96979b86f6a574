"""Attacks behind walls other than `container`: those that do not apply there, and those answered differently."""

from __future__ import annotations

REFUSALS: frozenset[object] = frozenset(
    "EPERM EACCES ENOSYS EINVAL EOPNOTSUPP ENOTSUP EAFNOSUPPORT EPROTONOSUPPORT ESOCKTNOSUPPORT ENOPROTOOPT ENOTTY "
    "ENODEV".split()
)
"""Refusals count as equal: a sentry has no filter that would choose between them."""
UNREACHABLE: frozenset[object] = frozenset({"ENETUNREACH", "EHOSTUNREACH"})
"""The errors where there is no route: of the host's kernel and of a sentry."""
_OWN = "a namespace of the sentry's own, which gives nothing that is the host's"
_NOTHING = "the sentry takes it, and has nothing behind it"
_MEMORY = "the sentry's memory, which the desk's limit covers"
_SHOWN = "the sentry does not heed that the guest hides; it is the desk's own user, and has nothing programs lack"
GVISOR_ANSWERS: dict[str, tuple[object, str]] = {
    "unshare a user namespace": (0, _OWN),
    "unshare nothing": (0, _OWN),
    "join a namespace": ("EBADF", "no descriptor of a namespace leads anywhere but to the sentry's"),
    "join the namespaces of a pidfd": ("EBADF", "it has no pidfds"),
    "clone into a user namespace": (int, _OWN),
    "clone into a mount namespace": (int, _OWN),
    "clone into a user and a pid namespace": (int, _OWN),
    "clone into a user and a network namespace": (int, _OWN),
    "process_vm_readv": (0, "memory of the desk's own programs"),
    "process_vm_writev": (0, "memory of the desk's own programs"),
    "syslog": (131072, "the size of a log that the sentry made up"),
    "io_setup": (0, _MEMORY),
    "io_submit": (0, _MEMORY),
    "splice": (1, "pipes of the sentry; no page of the host's cache goes through them"),
    "tee": ("EBADF", "pipes of the sentry"),
    "personality asked only": ("EINVAL", "it has none"),
    "a whiteout": (0, "a node in a tmpfs of the sentry's"),
    "lower the core limit": (0, "a sentry dumps no core"),
    "lower the core limit by setrlimit": (0, "a sentry dumps no core"),
    "lower the core limit with high bits": (0, "a sentry dumps no core"),
    "lower the core limit by setrlimit with high bits": (0, "a sentry dumps no core"),
    "ptrace pid 1": ("ESRCH", "it is not traced"),
    "ptrace pid 1 with high bits": ("ESRCH", "it is not traced"),
    **dict.fromkeys(
        ("TCP_ULP", "TCP_ULP with high bits", "UDP_ENCAP", "UDP_ENCAP with high bits", "SO_ATTACH_FILTER",
         "SO_ATTACH_FILTER with high bits", "SO_ATTACH_BPF", "SO_ATTACH_REUSEPORT_CBPF", "SO_ATTACH_REUSEPORT_EBPF"),
        (0, _NOTHING),
    ),
    "openat2 without limits": ("ENOSYS", "there is no such call"),
    "openat2 from an open folder": ("ENOSYS", "there is no such call"),
    "ICMP without root": (int, "a socket of the sentry's network, which has loopback alone"),
    "netlink protocol 15": (int, "the sentry's own, which tells nothing"),
    "rise: become root for files": (-1, "there is no such call"),
    "rise: a better priority": ("done", "a number of the sentry's; the cgroup's share is the desk's"),
    "rise: never be killed for memory": (5, "a number of the sentry's; the limit is the cgroup's"),
    "host: a pidfd of it": ("ENOSYS", "it has no pidfds"),
    "first: environment": ("done", _SHOWN),
    "first: mapped files": ("ENOENT", "its /proc has none"),
    "first: map": ("done", _SHOWN),
    "first: namespaces": ("mnt:[4]", _SHOWN),
    "TCP with data in its first packet": ("EPIPE", "it sends nothing before it is connected"),
    "a transparent proxy": ("done", _NOTHING),
    "a mark on packets": ("done", _NOTHING),
}  # fmt: skip
"""Rows that a sentry answers other than by refusing, and why that exposes nothing of the host; `int`: any number."""
_ENDS = "a program may end the guest by SIGKILL or SIGSTOP, and with it its own desk"
FIRST_PROCESS: dict[str, str] = {
    "descriptors": _SHOWN,
    "the socket at a descriptor": _SHOWN,
    "a namespace by its pidfd": "it has no pidfds",
    "its end by its pidfd": "it has no pidfds",
    "its stop": _ENDS,
    "its end": _ENDS,
}
"""Attacks on the first process of a container, and why they do not apply behind gVisor."""
GVISOR_ENDS = frozenset(f"first: {row}" for row in FIRST_PROCESS)
"""Rows that are skipped."""
_SANDBOX = "what the host sees of a sandbox is attacked in test_gvisor_attacks.py, and measured by doctor"
_OWN_FILES = "its /proc, /sys and /dev are the sentry's, which has no file of the host's behind them"
_EXHAUSTS = "what exhausts a desk ends it, and is told: test_gvisor_attacks.py"
_SENTRY_KEEPS = "what programs hold is the sentry's memory, which the desk's limit covers: test_gvisor_attacks.py"
NOT_BEHIND: dict[tuple[str, str], str] = {
    ("gvisor", f"test_the_first_process_cannot_be_read_traced_or_stopped[{row}]"): reason
    for row, reason in FIRST_PROCESS.items()
} | {
    ("gvisor", name): reason
    for reason, names in {
        _SANDBOX: """
            test_a_process_has_no_privilege
            test_a_desk_has_only_its_own_user_ids_and_shares_none
            test_no_descriptor_in_a_desk_is_a_file_of_the_host
            test_no_environment_variable_of_the_host_is_in_a_desk
            test_changing_devices_or_descriptors_does_not_reach_the_hosts
            test_only_dev_may_hold_devices_and_no_mount_honours_setuid
            test_the_covers_of_proc_are_read_only_without_devices_or_setuid
            test_a_desk_has_loopback_and_nothing_else
            test_every_wait_for_a_stalled_guest_has_a_timeout
            test_the_folders_made_by_the_keeper_are_read_only
            test_the_link_cannot_be_dialled_a_second_time
            test_no_core_file_is_ever_written
            test_a_desk_behind_an_incomplete_wall_is_not_handed_over
            test_roots_programs_are_unprivileged_on_the_host
            test_the_runtime_cannot_be_attacked_while_it_starts_root
            test_garbage_at_the_sudo_socket_leaks_no_resources
            test_a_caller_cannot_make_root_hold_many_file_descriptors
            test_the_journal_entries_of_one_desk_are_limited
        """,
        _OWN_FILES: """
            test_no_kernel_file_can_be_written
            test_proc_sys_is_read_only_for_every_user
            test_there_is_no_cgroup_to_set_a_release_agent_in
            test_proc_tells_nothing_of_the_host
            test_folders_of_proc_that_describe_the_host_are_empty
            test_files_with_kernel_secrets_cannot_be_read
            test_root_can_neither_write_kernel_files_nor_inspect_the_first_process
            test_root_reaches_no_cgroup
            test_sys_is_a_desks_own_and_lists_only_loopback
            test_memory_and_cpu_time_of_the_host_are_hidden
            test_a_lock_on_a_device_does_not_affect_other_desks
            test_a_lock_does_not_affect_other_desks[device]
            test_shared_memory_and_queues_of_the_host_are_not_visible
            test_shared_memory_and_queues_of_another_desk_are_not_visible
        """,
        _SENTRY_KEEPS: """
            test_inotify_instances_are_counted_for_each_desk
            test_queued_signals_are_limited_and_not_charged_to_the_hosts_root
            test_a_desk_cannot_use_up_the_hosts_terminals_or_aio_slots
            test_silent_callers_of_sudo_hold_nothing_once_they_exit
            test_unread_data_of_many_sockets_stays_within_a_desks_memory
            test_unread_socket_buffers_stay_within_a_limit
            test_unread_data_of_one_connection_stays_within_a_mebibyte
        """,
        _ENDS: "test_an_interrupt_does_not_end_the_first_process",
        "priorities and scores are numbers of the sentry's; namespaces that root makes are": """
            test_files_root_creates_give_no_user_more_rights
            test_no_call_changes_a_wall_or_the_kernel
        """,
        "the sentry has every id; files on the host have none but the desk's: test_gvisor_attacks.py": """
            test_ids_beyond_the_desks_own_do_not_exist
        """,
        "every program of a desk may read environment and map of another, whoever's it is": """
            test_programs_cannot_read_or_trace_roots_guest
        """,
        _EXHAUSTS: """
            test_a_desk_that_resists_burns_within_a_bound[a race of forks-frozen]
            test_a_desk_that_resists_burns_within_a_bound[a race of forks-running]
            test_a_memory_bomb_is_killed_and_its_desk_survives
        """,
        "no filter of the host's stands before its programs; the sentry runs no 32-bit ones": """
            test_no_program_of_32_bits_gets_past_the_filter test_no_call_of_x32_gets_past_the_filter
        """,
        "all of a desk calls through one gofer: who calls first is its guest, and the image's interpreter is": """
            test_an_impostor_that_connects_first_is_not_taken_for_the_guest
        """,
        "who calls at a socket of the host's whose queue is full waits, and no descriptor can be passed there": """
            test_a_sudo_call_that_stays_open_does_not_survive_a_rollback
        """,
        "a person's takeover is refused there, as the host sees no single programs: tests/e2e/test_gvisor.py": """
            test_programs_are_stopped_and_tools_refused_while_a_person_drives
            test_a_window_without_a_title_does_not_prevent_driving
        """,
        "the gate is a unix socket there, in the folder of the guest's code": """
            test_no_socket_of_the_keeper_or_an_owner_is_found_inside
        """,
    }.items()
    for name in filter(None, map(str.strip, names.splitlines()))
}
"""Attacks that are skipped, by wall and test (or test with its case in brackets)."""
