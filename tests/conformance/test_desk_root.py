"""Tests of root inside a desk: by `user="root"` and by `sudo`, with every act recorded before it begins.

They do not run without a wall: `sudo` there would be this machine's.
"""

from __future__ import annotations

import signal
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

import anyio
import pytest
from tests.origins import BehindGvisor, BehindMicrovm, Origin

from hotdesk.config import MIB, Config
from hotdesk.desk.owner.runtime import KeeperRuntime, container_runtime
from hotdesk.desk.seam import Desk, Done, Process, Size, Spec
from hotdesk.errors import BriefError, DeskError, FileError, LinkError
from hotdesk.event import Event, RootAct, RootActEnded, get_chain

Open = Callable[[Spec], AbstractAsyncContextManager[Desk]]

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

HOG = "kept = []\nfor n in range(40): kept.append(b'x' * (8 << 20))\nprint('had it all')"
STATUS = "grep -E '^(Uid|Gid|Groups|CapEff|CapPrm|CapBnd|CapInh|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status"


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return []


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("container", id=pytest.HIDDEN_PARAM),
        pytest.param("gvisor", marks=pytest.mark.gvisor),
        pytest.param("microvm", marks=[pytest.mark.microvm, pytest.mark.timeout(300)]),
    ],
)
def wall(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
async def runtime(wall: str, settings: Config, events: list[Event], origin: Origin) -> AsyncIterator[KeeperRuntime]:
    async with container_runtime(replace(settings, microvm_emulate=True), note=events.append) as opened:
        yield {"gvisor": BehindGvisor, "microvm": BehindMicrovm}.get(wall, origin)(opened)


@pytest.fixture(scope="module")
async def rooted(runtime: KeeperRuntime) -> AsyncIterator[Desk]:
    opened = await runtime.open(Spec(root=True, env={"FROM_SPEC": "spec"}))
    await opened.run(["true"], user="root")  # started here, or its guest would later look like something left behind
    yield opened
    await runtime.burn(opened.id)


async def root(desk: Desk, script: str, *, timeout: float = 20, cwd: str | None = None) -> Done:
    return await desk.run(["sh", "-c", script], user="root", timeout=timeout, cwd=cwd)


async def sudo(desk: Desk, *words: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> Done:
    return await desk.run(["sudo", *words], stdin=stdin, env=env, timeout=30)


async def sh(desk: Desk, script: str) -> Done:
    return await desk.run(["sh", "-c", script], timeout=30)


async def until_gone(desk: Desk, pattern: str) -> None:
    """Wait until no process has such a command line."""
    done = await sh(desk, f"timeout 10 sh -c 'while pgrep -f \"{pattern}\"; do sleep 0.05; done'")
    assert done.ok, f"{pattern} still runs"


async def until_there(desk: Desk, pattern: str) -> None:
    """Wait until a process has such a command line."""
    done = await sh(desk, f"timeout 10 sh -c 'until pgrep -f \"{pattern}\"; do sleep 0.05; done'")
    assert done.ok, f"{pattern} does not run"


@asynccontextmanager
async def terminal(desk: Desk, *argv: str) -> AsyncIterator[Process]:
    """Start a program at a terminal; kill it at the end of the block."""
    env = {"PS1": "$ ", "TERM": "dumb", "HISTFILE": ""}
    process = await desk.start(list(argv), pty=Size(24, 80), timeout=40, env=env)
    try:
        yield process
    finally:
        await process.kill()


async def until(process: Process, text: bytes) -> bytes:
    said = b""
    with anyio.move_on_after(20):
        while text not in said:
            _, data = await anext(process.output())
            said += data
        return said
    pytest.fail(f"{text!r} did not come, only {said!r}")


# -- as root ------------------------------------------------------------------------------------------------------


async def test_root_is_root_and_the_user_is_not(rooted: Desk) -> None:
    assert (await rooted.run(["id", "-un"], user="root")).text == "root\n"
    assert (await rooted.run(["id", "-u"], user="0")).text == "0\n"
    for user in (None, "user", "1000"):
        assert (await rooted.run(["id", "-u"], user=user)).text == "1000\n"


async def test_root_has_seven_capabilities_and_no_way_to_more(rooted: Desk) -> None:
    facts = {line.split(":")[0]: line.split(":")[1].split() for line in (await root(rooted, STATUS)).text.splitlines()}
    assert facts == {
        "Uid": ["0"] * 4,
        "Gid": ["0"] * 4,
        "Groups": [],
        "CapInh": ["0" * 16],
        "CapPrm": [f"{0xFB:016x}"],
        "CapEff": [f"{0xFB:016x}"],
        "CapBnd": [f"{0xFB:016x}"],
        "CapAmb": ["0" * 16],
        "NoNewPrivs": ["1"],
        "Seccomp": ["2"],
    }
    assert (await sudo(rooted, "sh", "-c", STATUS)).text == (await root(rooted, STATUS)).text


async def test_root_has_its_own_home_and_path(rooted: Desk) -> None:
    done = await root(rooted, "pwd; echo $HOME $USER $LOGNAME $FROM_SPEC; echo $PATH")
    assert done.text.splitlines()[:2] == ["/root", "/root root root spec"]
    assert "/usr/sbin" in done.text


async def test_root_can_do_what_installing_packages_needs(rooted: Desk) -> None:
    script = """
        set -e
        mkdir -p /usr/lib/made /var/lib/made; echo x >/usr/lib/made/file; echo changed >>/etc/motd
        chown 33:33 /usr/lib/made/file; chmod 4755 /usr/lib/made/file; chmod 1777 /var/lib/made
        groupadd -r crew; useradd -r -g crew -M -s /bin/false worker
        install -o worker -g crew -m 640 /dev/null /var/lib/made/theirs
        ln -s /usr/lib/made/file /usr/bin/made; rm /usr/bin/made; mv /usr/lib/made /usr/lib/moved
        stat -c '%U %G %a' /var/lib/made/theirs /usr/lib/moved/file
    """
    done = await root(rooted, script)
    assert (done.text, done.stderr) == ("worker crew 640\nwww-data www-data 4755\n", b"")


async def test_users_that_root_adds_have_numbers_of_the_desk(rooted: Desk) -> None:
    script = """
        set -e
        useradd -m first; useradd -m second
        runuser -u second -- sh -c 'id -u; id -g; echo x >~/mine'
        stat -c '%U %u %G' /home/first /home/second/mine
    """
    done = await root(rooted, script)
    assert (done.text, done.stderr) == ("1002\n1002\nfirst 1001 first\nsecond 1002 second\n", b"")


async def test_root_becomes_any_user_the_desk_has(rooted: Desk) -> None:
    switch = "import os; os.setgroups([]); os.setresgid(33, 33, 33); os.setresuid(33, 33, 33); print(os.getresuid())"
    assert (await rooted.run(["python3", "-c", switch], user="root")).text == "(33, 33, 33)\n"
    capabilities = "setpriv --reuid=1000 --regid=1000 --clear-groups grep CapEff /proc/self/status"
    assert (await root(rooted, capabilities)).text.split() == ["CapEff:", "0" * 16]


async def test_root_reads_the_users_files_and_ends_its_programs(rooted: Desk) -> None:
    await rooted.write("private", b"mine", mode=0o600)
    assert (await root(rooted, "cat /home/user/private")).text == "mine"
    process = await rooted.start(["sleep", "3456"])
    assert (await root(rooted, f"kill {process.pid}")).ok
    assert (await process.wait()).signal == signal.SIGTERM


async def test_the_user_cannot_change_roots_files_or_programs(rooted: Desk) -> None:
    await root(rooted, "umask 077; echo x >/root/secret; echo x >/etc/roots")
    assert not (await sh(rooted, "cat /root/secret /etc/roots")).ok
    with pytest.raises(FileError) as raised:
        await rooted.read("/root/secret")
    assert raised.value.reason == "denied"
    process = await rooted.start(["sleep", "3457"], user="root")
    assert not (await sh(rooted, f"kill {process.pid}")).ok
    await process.kill()


@pytest.mark.parametrize(
    "script",
    [
        "mount -t tmpfs none /mnt",
        "mount --bind /etc /mnt",
        "mount -o remount,rw /sys",
        "umount /proc",
        "chroot / true",
        "mknod /tmp/null c 1 3",
        "hostname other",
        "date -s 2001-01-01",
        "swapoff -a && swapon /etc/passwd",
        "unshare -m true",
        "nsenter -t 1 -m true",
        "sysctl -w kernel.hostname=other && test $(hostname) = other",
        "setcap cap_sys_admin+ep /bin/true",
        "ip link add dummy0 type dummy",
        "nice -n -5 true 2>&1 | grep -q 'cannot set' && exit 1",
        "prlimit --pid $$ --nofile=1000000",
        "reboot -f",
    ],
)
async def test_root_of_a_desk_is_not_root_of_its_kernel(rooted: Desk, script: str) -> None:
    assert not (await root(rooted, script)).ok
    assert (await rooted.run(["true"])).ok


async def test_programs_as_root_behave_as_any_other(rooted: Desk) -> None:
    done = await rooted.run(["sh", "-c", "cat; echo err >&2; exit 9"], user="root", stdin=b"in")
    assert (done.exit_code, done.stdout, done.stderr) == (9, b"in", b"err\n")
    assert (await rooted.run(["no-such"], user="root")).exit_code == 127
    late = await rooted.run(["sh", "-c", "sleep 3458"], user="root", timeout=0.3)
    assert (late.timed_out, late.signal) == (True, signal.SIGKILL)
    await until_gone(rooted, "^sleep 3458")
    large = await root(rooted, "head -c 3000000 /dev/zero")
    assert len(large.stdout) == 3_000_000


async def test_root_has_a_terminal_too(rooted: Desk) -> None:
    process = await rooted.start(["bash", "--norc", "-i"], user="root", pty=Size(10, 20), env={"PS1": "# "}, timeout=30)
    await until(process, b"# ")
    await process.send(b"id -u; stty size; exit 3\r")
    await until(process, b"0\r\n10 20\r\n")
    assert (await process.wait()).exit_code == 3


@pytest.mark.parametrize("user", ["bob", "", "nobody", "65534", "-1", "root "])
async def test_programs_run_as_user_or_root_only(rooted: Desk, user: str) -> None:
    with pytest.raises(BriefError):
        await rooted.run(["true"], user=user)


async def test_a_desk_without_root_has_neither_it_nor_sudo(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        for _ in range(2):
            with pytest.raises(BriefError, match="root"):
                await desk.run(["true"], user="root")
        assert (await desk.run(["sudo", "true"])).exit_code == 127
        assert not (await sh(desk, "ls /run/hotdesk/*.sock | grep -v -e link.sock -e gate.sock")).ok
        assert (await desk.run(["true"])).ok


async def test_many_as_root_at_once(fresh: Open) -> None:
    async with fresh(Spec(root=True)) as desk:
        said: list[str] = []

        async def one(number: int) -> None:
            argv = ["sh", "-c", f"echo {number} $(id -u)"]
            done = await (desk.run(argv, user="root") if number % 2 else desk.run(["sudo", *argv]))
            said.append(done.text)

        async with anyio.create_task_group() as tasks:
            for number in range(40):
                tasks.start_soon(one, number)
        assert sorted(said) == sorted(f"{number} 0\n" for number in range(40))


async def test_a_call_as_root_that_is_cancelled_leaves_root_usable(fresh: Open) -> None:
    for moment in (0.0, 0.01, 0.03, 0.06):
        async with fresh(Spec(root=True)) as desk:
            with anyio.move_on_after(moment):
                await desk.run(["true"], user="root")
            with anyio.fail_after(15):
                assert (await desk.run(["id", "-u"], user="root")).text == "0\n"


async def test_root_waits_while_its_desk_is_paused(fresh: Open) -> None:
    for started in (False, True):
        async with fresh(Spec(root=True)) as desk:
            if started:
                await desk.run(["true"], user="root")
            await desk.pause()
            said: list[str] = []

            async def ask(desk: Desk = desk, said: list[str] = said) -> None:
                said.append((await desk.run(["id", "-u"], user="root")).text)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await anyio.sleep(0.3)
                assert said == []
                await desk.resume()
            assert said == ["0\n"]


# -- sudo ---------------------------------------------------------------------------------------------------------


async def test_sudo_runs_as_root_with_the_callers_streams(rooted: Desk) -> None:
    done = await sudo(rooted, "sh", "-c", "cat; id -u; echo err >&2; exit 7", stdin=b"in\n")
    assert (done.exit_code, done.stdout, done.stderr) == (7, b"in\n0\n", b"err\n")


async def test_sudo_in_a_pipe(rooted: Desk) -> None:
    done = await sh(
        rooted, "echo words | sudo tee /etc/by-root | sudo tr a-z A-Z; cat /etc/by-root; sudo rm /etc/by-root"
    )
    assert done.text == "WORDS\nwords\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["true"], 0),
        (["false"], 1),
        (["sh", "-c", "exit 255"], 255),
        (["sh", "-c", "kill -9 $$"], 137),
        (["sh", "-c", "kill -TERM $$"], 143),
        (["no-such-program"], 127),
        (["/etc/passwd"], 126),
        (["/"], 126),
    ],
)
async def test_sudo_ends_like_its_program(rooted: Desk, words: list[str], code: int) -> None:
    done = await sudo(rooted, *words)
    assert done.exit_code == code
    if code in (126, 127):
        assert words[0].encode() in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-u", "bob", "id"], b"bob"),
        (["--user=bob", "id"], b"bob"),
        (["-u"], b"not as an empty name"),
        (["-g", "crew", "id"], b"crew"),
        (["-l"], b"-l"),
        (["--chroot=/", "id"], b"--chroot"),
        ([], b"no command given"),
        (["-E"], b"no command given"),
    ],
)
async def test_unsupported_options_of_sudo_are_reported(rooted: Desk, words: list[str], said: bytes) -> None:
    done = await sudo(rooted, *words)
    assert (done.exit_code, done.stdout) == (1, b"")
    assert said in done.stderr
    assert b"usage: sudo" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["-n", "id", "-u"],
        ["-u", "root", "id", "-u"],
        ["--user=#0", "id", "-u"],
        ["-nHE", "id", "-u"],
        ["--", "id", "-u"],
        ["-s", "id", "-u"],
        ["-i", "id", "-u"],
        ["A=1", "id", "-u"],
    ],
)
async def test_common_options_of_sudo_are_understood(rooted: Desk, words: list[str]) -> None:
    done = await sudo(rooted, *words)
    assert (done.exit_code, done.text, done.stderr) == (0, "0\n", b"")


async def test_the_environment_is_roots_plus_passed_variables(rooted: Desk) -> None:
    env = {
        "SECRET": "s",
        "LD_PRELOAD": "/x.so",
        "TERM": "vt100",
        "PATH": "/tmp:/usr/local/bin:/usr/bin",
        "HOME": "/tmp",
    }
    kept = dict(line.split("=", 1) for line in (await sudo(rooted, "A=1", "env", env=env)).text.splitlines())
    assert (kept["HOME"], kept["USER"], kept["TERM"], kept["A"]) == ("/root", "root", "vt100", "1")
    assert (kept["SUDO_USER"], kept["SUDO_UID"], kept["SUDO_GID"]) == ("user", "1000", "1000")
    assert "/tmp" not in kept["PATH"]
    assert not {"SECRET", "LD_PRELOAD"} & set(kept)
    env.pop("LD_PRELOAD")
    everything = (await sudo(rooted, "-E", "env", env=env)).text.splitlines()
    assert {"SECRET=s", "HOME=/root"} <= set(everything)


async def test_sudo_runs_where_it_is_called(rooted: Desk) -> None:
    await rooted.mkdir("somewhere")
    done = await rooted.run(["sudo", "pwd"], cwd="somewhere")
    assert done.text == f"{rooted.home}/somewhere\n"
    assert (await sudo(rooted, "-i", "pwd")).text == "/root\n"
    gone = await sh(rooted, "mkdir leaving; cd leaving; rmdir ../leaving; sudo true")
    assert (gone.exit_code, b"sudo:" in gone.stderr) == (1, True)


async def test_too_long_arguments_of_sudo_are_reported(rooted: Desk) -> None:
    done = await sudo(rooted, "echo", "x" * 30000)
    assert done.exit_code == 1
    assert b"too long" in done.stderr
    assert len((await sudo(rooted, "echo", "x" * 20000)).stdout) == 20001


async def test_names_that_are_not_text_pass_through_sudo(rooted: Desk) -> None:
    odd = b"a\xff\nb".decode("utf-8", "surrogateescape")
    assert (await sudo(rooted, "printf", "%s", odd)).stdout == b"a\xff\nb"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT])
async def test_signals_to_sudo_reach_its_program(rooted: Desk, number: signal.Signals) -> None:
    name = number.name[3:]
    script = f"trap 'echo caught; exit 5' {name}; echo ready; while :; do sleep 0.05; done"
    process = await rooted.start(["sudo", "sh", "-c", script], timeout=30)
    await until(process, b"ready")
    await process.signal(number)
    assert b"caught" in await until(process, b"caught")
    assert (await process.wait()).exit_code == 5


async def test_ctrl_c_at_a_terminal_ends_sudos_program(rooted: Desk) -> None:
    async with terminal(rooted, "bash", "--norc", "-i") as process:
        await until(process, b"$ ")
        await process.send(b"sudo sh -c 'echo re\"\"ady; exec sleep 3459'\r")
        await until(process, b"ready\r\n")
        await process.send(b"\x03")
        await until(process, b"$ ")
        await process.send(b"echo code $?; exit\r")
        await until(process, b"code 130\r\n")
    await until_gone(rooted, "^sleep 3459")


async def test_ctrl_c_before_root_is_up_is_not_lost(fresh: Open) -> None:
    async with fresh(Spec(root=True)) as desk:
        for wait in (0.05, 0.1, 0.15):
            process = await desk.start(["sudo", "sleep", "3460"], timeout=30)
            await anyio.sleep(wait)
            await process.signal(signal.SIGINT)
            with anyio.fail_after(10):
                output = b"".join([data async for _, data in process.output()])
                code = (await process.wait()).exit_code
            if code != 130:  # Python itself was starting, and ends so before a program can tell it otherwise
                assert (code, b"KeyboardInterrupt" in output) == (1, True), output
        await until_gone(desk, "^sleep 3460")


async def test_a_signal_that_comes_with_the_request_is_not_lost(rooted: Desk, wall: str) -> None:
    listener = "/run/hotdesk/sudo.sock" if wall == "container" else "/run/sudo.sock"
    script = """
        import array, socket, sys
        sys.path.insert(0, "/run/hotdesk/lib")
        from hotdesk_guest import wire
        value = wire.encode({"argv": ["sleep", "3467"], "cwd": "/", "env": {}})
        s = socket.socket(socket.AF_UNIX)
        s.connect(sys.argv[1])
        streams = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
        s.sendmsg([len(value).to_bytes(4, "big") + value + bytes([2])], streams)
        print(wire.decode(s.recv(4096)))
    """
    done = await rooted.run(["python3", "-c", textwrap.dedent(script), listener], timeout=20)
    assert done.text == "{'code': 130}\n", done


async def test_a_program_run_by_sudo_sees_its_callers_terminal(rooted: Desk) -> None:
    async with terminal(rooted, "sudo", "sh", "-c", "test -t 0 && stty size; read w; echo got $w") as process:
        await until(process, b"24 80\r\n")
        await process.resize(Size(30, 100))
        await process.send(b"word\r")
        await until(process, b"got word\r\n")
        assert (await process.wait()).exit_code == 0


async def test_a_killed_sudo_takes_its_act_along(rooted: Desk) -> None:
    process = await rooted.start(["sudo", "sh", "-c", "trap '' TERM HUP; sleep 3461 & sleep 3461; true"], timeout=30)
    await until_there(rooted, "^sleep 3461")
    await process.signal(signal.SIGKILL)
    await until_gone(rooted, "^sleep 3461")


async def test_sudo_whose_time_is_up_leaves_nothing_running(rooted: Desk) -> None:
    done = await rooted.run(["sudo", "sh", "-c", "sleep 3462 & exec sleep 3462"], timeout=1)
    assert done.timed_out
    await until_gone(rooted, "^sleep 3462")
    assert (await sh(rooted, "timeout 0.5 sudo sleep 3463")).exit_code == 124
    assert (await sh(rooted, "timeout -s KILL 0.5 sudo sleep 3463")).exit_code == 137
    await until_gone(rooted, "^sleep 3463")


async def test_two_acts_keep_apart(rooted: Desk) -> None:
    long = await rooted.start(["sudo", "sleep", "3464"])
    await until_there(rooted, "^sleep 3464")
    assert (await sudo(rooted, "echo", "quick")).text == "quick\n"
    await long.signal(signal.SIGTERM)
    assert (await long.wait()).exit_code == 143


async def test_an_act_keeps_no_streams_of_others(rooted: Desk) -> None:
    script = """
        import os, subprocess, sys
        act = subprocess.Popen(["sudo", "sleep", "3465"])
        out = subprocess.run("sudo echo word | cat", shell=True, capture_output=True, timeout=20)
        held = [subprocess.run(["sudo", "ls", "-l", "/proc/self/fd"], capture_output=True, text=True).stdout
                for _ in range(5)]
        act.kill()
        print(out.stdout, max(len(one.splitlines()) for one in held))
    """
    done = await rooted.run(["python3", "-c", textwrap.dedent(script)], timeout=40)
    assert done.text == "b'word\\n' 5\n", done


async def test_sudo_inside_sudo(rooted: Desk) -> None:
    assert (await sudo(rooted, "sudo", "sudo", "id", "-u")).text == "0\n"
    assert (await rooted.run(["sudo", "id", "-u"], user="root")).text == "0\n"


async def test_out_of_memory_in_an_act_is_reported(fresh: Open) -> None:
    async with fresh(Spec(root=True, memory=128 * MIB)) as desk:
        for argv, user in ((["sudo", "python3", "-c", HOG], None), (["python3", "-c", HOG], "root")):
            done = await desk.run(argv, user=user, timeout=40)
            assert (done.exit_code, done.out_of_memory, done.stdout) == (137, True, b"")
        assert (await desk.run(["id", "-u"], user="root")).text == "0\n"


# -- root's guest -------------------------------------------------------------------------------------------------


async def test_root_starts_again_after_its_guest_was_killed(fresh: Open) -> None:
    async with fresh(Spec(root=True)) as desk:
        for _ in range(3):
            assert (await sudo(desk, "sh", "-c", "kill -9 $PPID")).exit_code == 1
            with anyio.fail_after(30):
                assert (await desk.run(["id", "-u"], user="root")).text == "0\n"
        assert (await sudo(desk, "sh", "-c", "kill -9 $PPID")).exit_code == 1
        with anyio.fail_after(10):
            assert (await sudo(desk, "id", "-u")).text == "0\n"


async def test_waiting_for_a_killed_root_reports_that_the_desk_continues(fresh: Open) -> None:
    async with fresh(Spec(root=True)) as desk:
        await desk.run(["true"], user="root")
        with anyio.fail_after(30), pytest.raises(LinkError, match=r"the process for root in desk .* ended"):
            await desk.run(["sh", "-c", "kill -9 $PPID; sleep 100"], user="root")
        assert (await desk.run(["true"])).ok


async def test_root_ends_with_its_desk(runtime: KeeperRuntime) -> None:
    desk = await runtime.open(Spec(root=True))
    ended: list[str] = []

    async def wait() -> None:
        try:
            await desk.run(["sleep", "100"], user="root")
        except DeskError as e:
            ended.append(e.code)

    await desk.run(["true"], user="root")
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.sleep(0.1)
            await runtime.burn(desk.id)
    assert ended == ["desk.gone"]


# -- the journal ---------------------------------------------------------------------------------------------------


async def test_every_act_is_recorded_in_order_before_it_begins(fresh: Open, events: list[Event]) -> None:
    async with fresh(Spec(root=True)) as desk:
        start = len(events)
        await desk.run(["sh", "-c", "exit 3"], user="root", cwd="/etc")
        await sudo(desk, "A=1", "sh", "-c", "exit 4")
        process = await desk.start(["sleep", "3466"], user="root")
        await desk.run(["true"])
        await process.kill()
        await sudo(desk, "no-such-program")
    noted = [event for event in events[start:] if get_chain(event) == desk.id]
    assert noted == [
        RootAct(desk.id, "owner", ("sh", "-c", "exit 3"), "/etc"),
        RootAct(desk.id, "sudo", ("sh", "-c", "exit 4"), "/home/user", 1),
        RootActEnded(desk.id, 1, 4),
        RootAct(desk.id, "owner", ("sleep", "3466"), ""),
        RootAct(desk.id, "sudo", ("no-such-program",), "/home/user", 2),
    ]
