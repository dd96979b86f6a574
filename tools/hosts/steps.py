"""The steps of every machine, in order: a newcomer's commands, tests of the wall, and failures."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tools.hosts.disk import KIT
from tools.hosts.emulator import BOOT_TIMEOUT_S, CommandResult, Session
from tools.hosts.kit import Kit
from tools.hosts.machines import Machine

OFFLINE_SDK = f"PYTHONPATH={KIT}/library PYTHONDONTWRITEBYTECODE=1"
SERVER = "http://127.0.0.1:3700"
SETTLING_S = 120.0
"""Seconds until a killed process and its desks must be gone."""
SAMPLES = {
    "conformance": (
        "test_desk.py::test_a_desk_can_be_burnt_by_its_object_which_describes_its_state",
        "test_desk.py::test_two_desks_do_not_see_each_others_processes",
        "test_desk.py::test_there_is_no_network_but_loopback",
        "test_desk.py::test_out_of_memory_in_a_child_is_reported",
        "test_desk.py::test_the_number_of_processes_is_limited",
        "test_desk.py::test_a_deadline_burns_the_desk",
        "test_desk.py::test_a_killed_first_process_ends_the_desk",
        "test_desk_root.py::test_root_has_seven_capabilities_and_no_way_to_more",
        "test_desk_snapshots.py::test_a_fork_has_the_very_files_of_its_origin[container]",
    ),
    "security": (
        "test_device_attacks.py::test_only_the_desks_own_devices_are_allowed",
        "test_device_attacks.py::test_device_nodes_are_another_inode_in_every_desk",
        "test_host_fact_attacks.py::test_mounts_and_cgroups_show_no_path_of_the_host",
        "test_host_fact_attacks.py::test_proc_tells_nothing_of_the_host",
        "test_kernel_attacks.py::test_a_system_call_is_answered_as_the_rules_say",
        "test_lifetime_attacks.py::test_a_keeper_removes_the_desk_of_a_killed_owner_and_keeper",
        "test_process_attacks.py::test_a_process_has_no_privilege",
        "test_process_attacks.py::test_a_process_cannot_gain_privileges",
        "test_process_attacks.py::test_no_namespace_handle_leads_out",
    ),
    "e2e": (
        "test_door.py::test_every_request_is_refused_with_a_reason",
        "test_door.py::test_a_step_has_its_own_rules_and_cuts_earlier_connections",
    ),
}
"""A few tests that depend on the host: in emulation, each takes seconds to minutes."""


class StepError(Exception):
    """A step that failed."""


@dataclass(slots=True)
class Visit:
    """A machine while its steps run."""

    session: Session
    machine: Machine
    kit: Kit
    facts: dict[str, str] = field(default_factory=dict)
    """Facts about the machine."""
    key: str = ""
    """The API key of its server."""

    def root(self, line: str, timeout: float = 300.0) -> CommandResult:
        """Run a shell command as root; it must succeed."""
        return require(self.session.run("sh", "-c", line, timeout=timeout), line)

    def person(self, line: str, timeout: float = 300.0) -> CommandResult:
        """Run a shell command as the person who installs hotdesk; it must succeed."""
        return require(self.session.run_as_person(line, timeout=timeout), line)

    def poll(self, line: str, expected: str, seconds: float) -> None:
        """Wait until a command prints the expected text."""
        end = time.monotonic() + seconds * self.session.patience
        while (result := self.session.run("sh", "-c", line, timeout=60.0)).output.strip() != expected:
            if time.monotonic() > end:
                raise StepError(f"`{line}` printed {result.last_lines!r}, not {expected!r}")
            time.sleep(1.0)

    def await_nothing_left(self) -> None:
        """Wait until nothing of any desk is left on the machine."""
        self.poll(f"python3 {KIT}/inside/leftovers.py", "[]", SETTLING_S)

    def make_key(self) -> None:
        """Create an API key."""
        if not self.key:
            self.key = self.person("sudo hotdesk key new --name lab --power sandboxes 2>/dev/null").output.strip()

    def use_sandbox(self, *options: str) -> None:
        """Use a sandbox with E2B's SDK; before it, check that the one that was left is gone, if there is one."""
        self.make_key()
        env = f"E2B_API_KEY={self.key} E2B_API_URL={SERVER} E2B_SANDBOX_URL={SERVER} {OFFLINE_SDK}"
        gone = ("--gone", self.facts["sandbox"]) if "sandbox" in self.facts else ()
        output = self.person(f"{env} python3 {KIT}/inside/sandbox.py {' '.join((*gone, *options))}").output
        self.facts["sandbox"] = output.strip().splitlines()[-1]


def require(result: CommandResult, line: str) -> CommandResult:
    """Return a result; fail unless it is a success."""
    if not result.is_ok:
        how = "took too long" if result.exit_code is None else f"ended with {result.exit_code}"
        raise StepError(f"`{line[:80]}` {how}: {result.last_lines}")
    return result


# -- a newcomer's commands ---------------------------------------------------------------------------------------------


def look(visit: Visit) -> str:
    """Record the machine's facts."""
    lines = {
        "kernel": "uname -r",
        "arch": "uname -m",
        "cgroup": "stat -fc %T /sys/fs/cgroup",
        "filesystem": "stat -fc %T /var/lib",
        "systemd": "systemctl --version | head -n 1 | cut -d' ' -f2",
        "lsm": "cat /sys/kernel/security/lsm",
        "memory": "awk '/MemTotal/ {print int($2 / 1024)}' /proc/meminfo",
        "python": "python3 -c 'import platform; print(platform.python_version())'",
    }
    for name, line in lines.items():
        visit.facts[name] = visit.root(line).output.strip()
    for name, value in visit.machine.sysctls:
        seen = visit.session.run("sysctl", "--values", name).output.strip()
        if seen != value:
            raise StepError(f"{name} is {seen!r}, not {value!r}: this kernel does not have it")
    return f"{visit.facts['arch']}, kernel {visit.facts['kernel']}, {visit.facts['cgroup']}"


def get_install_command(machine: Machine) -> str:
    """Return the command with which docs/guide/install.md installs hotdesk."""
    return f"{'' if machine.release == 'bookworm' else 'sudo '}pipx install {_get_scope(machine)}'hotdesk[serve]'"


def get_setup_command(machine: Machine, signer: str) -> str:
    """Return the command that sets a machine up with an image from a file."""
    program = "~/.local/bin/hotdesk" if machine.release == "bookworm" else "sudo hotdesk"
    return f"{program} setup --from {KIT}/base.image --signer {signer}"


def _get_scope(machine: Machine) -> str:
    """Return pipx's option for all users, which Debian 12's pipx does not have."""
    return "" if machine.release == "bookworm" else "--global "


def install(visit: Visit) -> str:
    """Install the wheel."""
    command = get_install_command(visit.machine)
    visit.person(command, timeout=600)
    return command


def set_up(visit: Visit) -> str:
    """Set the machine up with an image from a file."""
    output = visit.person(get_setup_command(visit.machine, visit.kit.signer), timeout=600).output
    visit.facts["crun"] = visit.root("crun --version | head -n 1 | cut -d' ' -f3").output.strip()
    return output.strip().splitlines()[-1]


def run_first(visit: Visit) -> str:
    """Run the guide's first command, twice in one session."""
    line = "sudo hotdesk run -- python3 -c 'print(6*7)'"
    clock = "date +%s%3N"
    output = visit.person(f"for n in 1 2; do a=$({clock}); {line}; b=$({clock}); echo $((b - a)); done").output.split()
    if output[::2] != ["42", "42"]:
        raise StepError(f"`{line}` printed {' '.join(output)[-600:]!r}")
    return f"{output[1]} ms, then {output[3]} ms"


# -- the wall ----------------------------------------------------------------------------------------------------------


def examine(visit: Visit) -> str:
    """Run every measure of `hotdesk doctor`."""
    result = visit.session.run_as_person("sudo hotdesk doctor --json", timeout=400)
    start = result.output.find("{")
    try:
        report = json.loads(result.output[start:])
    except ValueError:
        raise StepError(f"doctor ended with {result.exit_code}: {result.last_lines}") from None
    measures = report["measures"]
    failed = [f"{each['name']} ({each['seen']})" for each in measures if each["state"] == "failed"]
    untested = [each["name"] for each in measures if each["state"] == "untested"]
    if failed or report["unopened"] or not result.is_ok:
        raise StepError(f"not held: {'; '.join(failed) or report['unopened']}")
    return f"{len(measures) - len(untested)} held, not tested: {', '.join(untested) or 'none'}"


def test(visit: Visit) -> str:
    """Run conformance tests, attacks on the wall, and tests of the door."""
    program = visit.root('readlink -f "$(command -v hotdesk)"').output.strip()
    names = [f"tests/{folder}/{name}" for folder, each in SAMPLES.items() for name in each]
    python = f"{program.rpartition('/')[0]}/python"
    line = f"mount --bind /var/tmp /tmp && exec {python} -B {KIT}/inside/run_tests.py {' '.join(names)}"
    apart = ("unshare", "--mount", "--propagation", "slave")  # tests make disks in /tmp, which may be in memory
    result = visit.session.run(*apart, "sh", "-c", line, timeout=700)
    try:
        tally = json.loads(result.output.strip().splitlines()[-1])
    except (IndexError, ValueError):
        raise StepError(f"the tests ended with {result.exit_code}: {result.last_lines}") from None
    if tally["failed"] or not result.is_ok:
        failed = "; ".join(f"{name}: {why}" for name, why in tally["failed"].items())
        raise StepError(f"{len(tally['failed'])} failed: {failed[:3000]}" if failed else f"exit code {tally['code']}")
    return ", ".join(f"{name} {count}" for name, count in sorted(tally["passed"].items()))


# -- failures ----------------------------------------------------------------------------------------------------------


def kill_keeper(visit: Visit) -> str:
    """Kill a desk's owner and keeper; the next command cleans up."""
    visit.person("sudo hotdesk open --idle 600")
    visit.root("pkill -9 -f 'keeper.main\\(\\)|holder import proces[s]' && sleep 1")
    visit.person("sudo hotdesk gc")
    visit.await_nothing_left()
    visit.person("sudo HOTDESK_LINGER=1 hotdesk run -- true")
    visit.await_nothing_left()
    return "nothing left"


def serve(visit: Visit) -> str:
    """Run the server under systemd, as docs/guide/server.md says, and use it with E2B's SDK."""
    visit.root(
        'share=$(dirname "$(dirname "$(readlink -f "$(command -v hotdesk)")")")/share/hotdesk; '
        "install -m 644 $share/hotdesk.service /etc/systemd/system/"
    )
    visit.make_key()
    began = time.monotonic()
    start = "systemctl daemon-reload && systemctl enable --now hotdesk"
    visit.root(f"{start} || {{ journalctl --unit hotdesk --lines 20 --no-pager --output cat; exit 1; }}", timeout=900)
    seconds = time.monotonic() - began
    visit.use_sandbox("--keep")
    return f"started in {seconds:.0f} s; a sandbox was used"


def kill_server(visit: Visit) -> str:
    """Kill the server while a sandbox runs: systemd starts it again, the sandbox is gone, and a new one works."""
    first = visit.root("systemctl show --property MainPID --value hotdesk").output.strip()
    visit.root(f"kill -9 {first}")
    visit.poll("systemctl show --property NRestarts,SubState --value hotdesk | xargs", "1 running", 180.0)
    visit.use_sandbox("--keep")
    return "restarted; a new sandbox was used"


def reboot(visit: Visit) -> str:
    """Restart the machine while a desk and a sandbox are open: the server comes back, they do not."""
    visit.person("sudo hotdesk open --idle 600")
    began = time.monotonic()
    visit.root("(sleep 2; systemctl reboot) >/dev/null 2>&1 &")
    visit.session.await_boot(2 * BOOT_TIMEOUT_S * visit.session.patience)
    seconds = time.monotonic() - began
    visit.poll("systemctl show --property SubState --value hotdesk", "running", 180.0)
    visit.use_sandbox()
    visit.person("sudo hotdesk journal verify")
    return f"back in {seconds:.0f} s; desks gone, the journal verifies"


def undo(visit: Visit) -> str:
    """Remove hotdesk, as docs/guide/install.md says, and check that nothing is left."""
    visit.root("systemctl disable --now hotdesk && rm -r /etc/systemd/system/hotdesk.service")
    visit.await_nothing_left()
    visit.person("sudo hotdesk setup --undo --yes --all --packages")
    again = visit.person("sudo hotdesk setup --undo --yes --all --packages --json").output
    if changed := [step["name"] for step in json.loads(again[again.index("[") :]) if step["changed"]]:
        raise StepError(f"a second `setup --undo` still changed {', '.join(changed)}")
    visit.person(
        "pipx uninstall hotdesk" if visit.machine.release == "bookworm" else "sudo pipx uninstall --global hotdesk"
    )
    traces = (
        "ls -d /var/lib/hotdesk /run/hotdesk /run/hotdesk-uids /usr/local/bin/hotdesk /sys/fs/cgroup/hotdesk "
        "/sys/fs/cgroup/*/hotdesk 2>/dev/null; grep -H hotdesk /etc/passwd /etc/group /etc/subuid /etc/subgid; true"
    )
    if found := visit.root(traces).output.split("\n")[:-1]:
        raise StepError(f"left behind: {', '.join(found)}")
    return "nothing left"


@dataclass(frozen=True, slots=True)
class Step:
    """A step of every machine."""

    name: str
    act: Callable[[Visit], str]
    is_needed: bool = False
    """Whether all later steps need it."""


STEPS = (
    Step("look", look),
    Step("install", install, is_needed=True),
    Step("setup", set_up, is_needed=True),
    Step("first", run_first, is_needed=True),
    Step("doctor", examine),
    Step("kill-keeper", kill_keeper),
    Step("tests", test),
    Step("serve", serve),
    Step("kill-server", kill_server),
    Step("reboot", reboot),
    Step("undo", undo),
)
