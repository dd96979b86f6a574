"""Tests of programs at any desk: output, input, variables, signals, timeouts and followers."""

from __future__ import annotations

import signal
import textwrap
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

import anyio
import pytest

from hotdesk.config import MIB
from hotdesk.desk.seam import Desk, Done, Process, Spec
from hotdesk.errors import BriefError, FileError

Open = Callable[[Spec], AbstractAsyncContextManager[Desk]]

pytestmark = pytest.mark.timeout(60)


async def sh(desk: Desk, script: str, *, timeout: float | None = 20) -> Done:
    return await desk.run(["sh", "-c", script], timeout=timeout)


async def python(desk: Desk, script: str, *, timeout: float | None = 20) -> Done:
    return await desk.run(["python3", "-c", textwrap.dedent(script)], timeout=timeout)


async def everything(process: Process) -> dict[str, bytes]:
    said = {"stdout": b"", "stderr": b""}
    async for stream, data in process.output():
        said[stream] += data
    return said


async def first_line(output: AsyncIterator[tuple[str, bytes]]) -> bytes:
    said = b""
    async for _, data in output:
        said += data
        if b"\n" in said:
            break
    return said


async def until_still(desk: Desk, path: str) -> None:
    """Wait until a heartbeat file exists and has stopped changing."""
    with anyio.fail_after(10):
        before, after = b"", await desk.read(path)
        while before != after:
            await anyio.sleep(0.3)
            before, after = after, await desk.read(path)
        assert after


async def until_there(desk: Desk, path: str) -> bytes:
    with anyio.fail_after(10):
        while True:
            try:
                if data := await desk.read(path):
                    return data
            except FileError:
                pass
            await anyio.sleep(0.02)


# -- output --------------------------------------------------------------------------------------------------------


async def test_stdout_and_stderr_are_apart(desk: Desk) -> None:
    done = await sh(desk, "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")
    assert done.ok
    assert (done.truncated, done.timed_out, done.out_of_memory, done.reason) == (False, False, False, "")


@pytest.mark.parametrize("code", [0, 1, 2, 126, 127, 255])
async def test_an_exit_code_is_a_result(desk: Desk, code: int) -> None:
    done = await sh(desk, f"exit {code}")
    assert (done.exit_code, done.signal, done.ok) == (code, None, code == 0)


async def test_text_beyond_ascii_passes(desk: Desk) -> None:
    text = "Grüße, 世界, 🌍"
    assert (await desk.run(["echo", text])).text == text + "\n"


async def test_invalid_utf8_and_zero_bytes_pass(desk: Desk) -> None:
    done = await sh(desk, r"printf '\377\376\000\001\200'; printf '\000\303' >&2")
    assert (done.stdout, done.stderr) == (b"\xff\xfe\0\1\x80", b"\0\xc3")
    assert "�" in done.text


async def test_output_keeps_its_order(desk: Desk) -> None:
    done = await python(desk, "for n in range(20000): print(n, flush=n % 7 == 0)")
    assert done.stdout == b"".join(b"%d\n" % n for n in range(20000))


async def test_output_beyond_its_limit_is_cut_and_the_program_still_ends(desk: Desk) -> None:
    done = await desk.run(["sh", "-c", "head -c 50000000 /dev/zero; exit 7"], output_limit=1000, timeout=30)
    assert (len(done.stdout), done.truncated, done.exit_code) == (1000, True, 7)


async def test_output_at_its_limit_is_not_cut(desk: Desk) -> None:
    done = await desk.run(["sh", "-c", "head -c 1000 /dev/zero"], output_limit=1000)
    assert (len(done.stdout), done.truncated) == (1000, False)


async def test_huge_output_takes_little_memory_here(desk: Desk) -> None:
    tracemalloc.start()
    try:
        done = await desk.run(["head", "-c", "67108864", "/dev/zero"], output_limit=MIB, timeout=30)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert done.truncated
    assert done.ok
    assert peak < 8 * MIB


async def test_a_slow_reader_loses_nothing(desk: Desk) -> None:
    program = await desk.start(
        ["python3", "-c", "import sys\nfor n in range(1 << 19): sys.stdout.write('%07d\\n' % n)"]
    )
    said, reads = bytearray(), 0
    async for _, data in program.output():
        said += data
        reads += 1
        if reads % 4 == 0:
            await anyio.sleep(0.005)
    assert len(said) == 4 * MIB
    assert said == b"".join(b"%07d\n" % n for n in range(1 << 19))
    assert (await program.wait()).ok


async def test_reading_slowly_slows_the_program_down(desk: Desk) -> None:
    script = """
    import os
    for n in range(64):
        os.write(1, bytes(65536))
        with open("slow-count", "w") as file:
            file.write(str(n + 1))
    """
    program = await desk.start(["python3", "-c", textwrap.dedent(script)])
    await until_there(desk, "slow-count")
    await anyio.sleep(0.5)
    assert int(await desk.read("slow-count")) < 16
    assert len((await everything(program))["stdout"]) == 64 * 65536


async def test_the_first_follower_misses_no_byte(desk: Desk) -> None:
    for number in range(50):
        program = await desk.start(["echo", str(number)])
        assert await everything(program) == {"stdout": b"%d\n" % number, "stderr": b""}


async def test_many_programs_at_once_do_not_mix(desk: Desk) -> None:
    results: dict[int, Done] = {}

    async def one(number: int) -> None:
        script = f"cat; echo {number} >&2; exit {number}"
        results[number] = await desk.run(["sh", "-c", script], stdin=b"%d" % number * 1000, timeout=30)

    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(one, number)
    for number in range(30):
        done = results[number]
        assert (done.exit_code, done.stdout, done.stderr) == (number, b"%d" % number * 1000, b"%d\n" % number)


# -- input, arguments, environment ---------------------------------------------------------------------------------


async def test_binary_input_passes_through(desk: Desk) -> None:
    data = bytes(range(256)) * 100
    assert (await desk.run(["cat"], stdin=data)).stdout == data


async def test_big_input_makes_the_round_trip(desk: Desk) -> None:
    data = b"".join(b"%07d\n" % n for n in range(MIB))
    done = await desk.run(["cat"], stdin=data, timeout=30)
    assert len(done.stdout) == 8 * MIB
    assert done.stdout == data
    assert not done.truncated


async def test_input_ends_when_it_is_closed(desk: Desk) -> None:
    program = await desk.start(["sh", "-c", "cat; echo end"])
    await program.send(b"one ")
    await program.send(b"two ")
    await program.close_stdin()
    await program.close_stdin()
    assert (await everything(program))["stdout"] == b"one two end\n"


async def test_without_input_a_program_reads_its_end_at_once(desk: Desk) -> None:
    done = await desk.run(["cat"], timeout=5)
    assert (done.exit_code, done.stdout, done.timed_out) == (0, b"", False)
    program = await desk.start(["cat"], stdin=False)
    with anyio.fail_after(30):
        assert (await program.wait()).ok


async def test_a_program_that_never_reads_its_input_ends_all_the_same(desk: Desk) -> None:
    done = await desk.run(["sh", "-c", "echo done; exit 3"], stdin=bytes(4 * MIB), timeout=10)
    assert (done.exit_code, done.stdout, done.timed_out) == (3, b"done\n", False)


async def test_input_for_a_program_that_closed_it_is_dropped(desk: Desk) -> None:
    program = await desk.start(["sh", "-c", "exec <&-; echo closed; sleep 0.5; exit 4"])
    with anyio.fail_after(10):
        await program.send(bytes(2 * MIB))
        assert (await program.wait()).exit_code == 4
        await program.send(b"more")


async def test_odd_arguments_arrive_as_given(desk: Desk) -> None:
    odd = ["", " ", "a b", "\n", "*", "$HOME", '"', "'", "\\", "-", "--", "é世", "\udcff", "\x01", "x" * 65536]
    done = await desk.run(["printf", "%s\\0", *odd])
    assert done.stdout.split(b"\0") == [*(text.encode("utf-8", "surrogateescape") for text in odd), b""]


async def test_an_argument_the_kernel_refuses_is_a_result(desk: Desk) -> None:
    done = await desk.run(["echo", "x" * 200_000], timeout=10)
    assert done.exit_code == 126
    assert "too long" in done.reason.lower()


@pytest.mark.parametrize("argv", [[], "ls", ["a\0b"], ["echo", "\ud800"]])
async def test_invalid_arguments_are_the_callers_error(desk: Desk, argv: list[str]) -> None:
    with pytest.raises(BriefError):
        await desk.run(argv)


async def test_variables_come_from_the_spec_and_from_the_call(desk: Desk) -> None:
    done = await desk.run(["sh", "-c", "echo $FROM_SPEC $BOTH $ONLY"], env={"BOTH": "call", "ONLY": "ünly"})
    assert done.text == "spec call ünly\n"
    assert (await sh(desk, "echo $BOTH $ONLY")).text == "spec\n"


async def test_a_large_environment_arrives(desk: Desk) -> None:
    env = {f"VARIABLE_{n}": f"{n} " + "x" * 50_000 for n in range(4)}
    done = await desk.run(
        ["sh", "-c", "echo $((${#VARIABLE_0} + ${#VARIABLE_1} + ${#VARIABLE_2} + ${#VARIABLE_3}))"], env=env
    )
    assert done.text == "200008\n"


@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"A": "x\0y"}, {"A\0": "x"}])
async def test_a_malformed_variable_is_refused_and_the_desk_continues(fresh: Open, env: dict[str, str]) -> None:
    async with fresh(Spec()) as desk:
        try:
            assert (await desk.run(["true"], env=env)).exit_code == 126
        except BriefError:
            pass
        assert (await desk.run(["true"])).ok


async def test_path_is_searched_as_the_call_says(desk: Desk) -> None:
    await desk.write("own-bin/greet", b"#!/bin/sh\necho own\n", mode=0o755)
    assert (await desk.run(["greet"])).exit_code == 127
    done = await desk.run(["greet"], env={"PATH": f"/nowhere:{desk.home}/own-bin:/usr/bin:/bin"})
    assert done.stdout == b"own\n"


async def test_home_is_where_programs_start(desk: Desk) -> None:
    assert (await desk.run(["pwd"])).text == desk.home + "\n"
    assert (await sh(desk, "echo $HOME")).text == desk.home + "\n"


async def test_a_relative_working_folder_lies_in_home(desk: Desk) -> None:
    await desk.mkdir("tasks/deep")
    assert (await desk.run(["pwd"], cwd="tasks/deep")).text == f"{desk.home}/tasks/deep\n"
    assert (await desk.run(["pwd"], cwd="/")).text == "/\n"


async def test_a_missing_working_folder_is_a_result(desk: Desk) -> None:
    done = await desk.run(["pwd"], cwd="no/such/folder")
    assert done.exit_code == 127
    assert "no/such/folder" in done.reason


async def test_a_file_as_working_folder_is_a_result(desk: Desk) -> None:
    await desk.write("plain", b"")
    done = await desk.run(["pwd"], cwd="plain")
    assert done.exit_code in (126, 127)
    assert "plain" in done.reason


async def test_a_working_folder_with_a_zero_byte_does_not_hurt_the_desk(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        try:
            assert (await desk.run(["pwd"], cwd="a\0b")).exit_code in (126, 127)
        except BriefError:
            pass
        assert (await desk.run(["true"])).ok


# -- programs that cannot start ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["no-such-program", "/no/such/program", "./no-such-program"])
async def test_a_missing_program_is_a_result(desk: Desk, name: str) -> None:
    done = await desk.run([name])
    assert done.exit_code == 127
    assert done.reason
    program = await desk.start([name])
    assert (program.pid, (await program.wait()).exit_code) == (0, 127)


async def test_an_empty_name_is_no_program(desk: Desk) -> None:
    try:
        assert (await desk.run([""])).exit_code in (126, 127)
    except BriefError:
        pass


async def test_a_file_that_is_not_executable_is_a_result(desk: Desk) -> None:
    await desk.write("not-executable", b"#!/bin/sh\n")
    done = await desk.run(["./not-executable"])
    assert done.exit_code == 126
    assert "denied" in done.reason.lower()


async def test_a_folder_as_program_is_a_result(desk: Desk) -> None:
    await desk.mkdir("a-folder")
    assert (await desk.run(["./a-folder"])).exit_code == 126


async def test_a_file_that_is_not_a_program_is_a_result(desk: Desk) -> None:
    await desk.write("garbage", b"\x7fELF garbage", mode=0o755)
    done = await desk.run(["./garbage"])
    assert done.exit_code == 126
    assert done.reason


async def test_an_unknown_user_is_the_callers_error(desk: Desk) -> None:
    with pytest.raises(BriefError, match="nobody-here"):
        await desk.run(["id"], user="nobody-here")


async def test_the_user_is_1000_named_user(desk: Desk) -> None:
    assert (await sh(desk, "id -u; id -un; echo $HOME")).text == "1000\nuser\n/home/user\n"
    assert (await desk.run(["id", "-u"], user="user")).text == "1000\n"


# -- how a program ends --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGINT])
async def test_an_end_by_signal_is_a_result(desk: Desk, number: int) -> None:
    done = await sh(desk, f"kill -{int(number)} $$; sleep 5")
    assert (done.exit_code, done.signal) == (128 + number, number)
    assert not done.timed_out
    assert not done.out_of_memory


async def test_a_timeout_is_reported_with_the_output_so_far(desk: Desk) -> None:
    done = await sh(desk, "echo before; sleep 60", timeout=0.5)
    assert (done.timed_out, done.signal, done.exit_code, done.stdout) == (True, 9, 137, b"before\n")


async def test_a_program_in_time_did_not_time_out(desk: Desk) -> None:
    done = await sh(desk, "sleep 0.1", timeout=10)
    assert (done.timed_out, done.exit_code) == (False, 0)


@pytest.mark.parametrize("seconds", [0.0, -1.0, 1e-9])
async def test_a_timeout_of_zero_is_a_timeout(desk: Desk, seconds: float) -> None:
    assert (await sh(desk, "sleep 60", timeout=seconds)).timed_out


@pytest.mark.parametrize("seconds", [1e30, float("inf")])
async def test_an_infinite_timeout_is_no_error(fresh: Open, seconds: float) -> None:
    async with fresh(Spec()) as desk:
        try:
            assert (await desk.run(["true"], timeout=seconds)).ok
        except BriefError:
            pass
        assert (await desk.run(["true"])).ok


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "flight",
    ["sh -c '{}; true' & wait", "setsid sh -c '{}; true' & wait", "(setsid sh -c '{}; true' &) ; sleep 60"],
    ids=["a child", "a session of its own", "a double fork"],
)
async def test_a_timeout_kills_all_descendants(desk: Desk, flight: str) -> None:
    beat = f"beat-{len(flight)}"
    loop = f"while true; do date +%N >>{beat}; sleep 0.02; done"
    done = await sh(desk, flight.format(loop), timeout=2)
    assert done.timed_out
    await until_still(desk, beat)
    assert (await sh(desk, f"pgrep -f 'd[a]te.*{beat}'")).stdout == b""


async def test_a_timeout_ends_a_program_whose_child_holds_the_output(desk: Desk) -> None:
    done = await sh(desk, "echo left; setsid sleep 60 & exit 0", timeout=2)
    assert done.timed_out
    assert done.stdout == b"left\n"


async def test_cancelling_a_run_kills_the_tree(desk: Desk) -> None:
    loop = "while true; do date +%N >>cancel-beat; sleep 0.02; done"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(sh, desk, f"(setsid sh -c '{loop}; true' &); {loop}", timeout=None))
        await until_there(desk, "cancel-beat")
        tasks.cancel_scope.cancel()
    await until_still(desk, "cancel-beat")
    assert (await sh(desk, "pgrep -f 'd[a]te.*cancel-beat'")).stdout == b""


async def test_a_run_cancelled_at_once_leaves_nothing_running(desk: Desk) -> None:
    for step in range(20):
        with anyio.move_on_after(step / 4000):
            await desk.run(["sleep", "4711"])
    await anyio.sleep(0.3)
    left = await desk.run(["pgrep", "-f", "sleep 471[1]"])
    await desk.run(["pkill", "-f", "sleep 471[1]"])
    assert left.stdout == b""


async def test_others_continue_while_one_is_cancelled(desk: Desk) -> None:
    results: list[Done] = []

    async def other() -> None:
        results.append(await sh(desk, "sleep 0.5; echo still here"))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(other)
        with anyio.move_on_after(0.2):
            await desk.run(["sh", "-c", "cat >/dev/null; sleep 60"], stdin=bytes(MIB))
        assert (await desk.run(["echo", "and me"])).stdout == b"and me\n"
    assert [done.stdout for done in results] == [b"still here\n"] * 3


async def test_a_signal_reaches_one_pid_and_no_child(desk: Desk) -> None:
    program = await desk.start(["sh", "-c", "sleep 4712 & echo $!; wait"])
    child = int(await first_line(program.output()))
    with anyio.fail_after(30):  # until then its process is still the forked shell
        while (await desk.run(["cat", f"/proc/{child}/comm"])).stdout != b"sleep\n":
            await anyio.sleep(0.02)
    await program.signal(signal.SIGTERM)
    with anyio.fail_after(30):
        while (await desk.run(["test", "-d", f"/proc/{program.pid}"])).ok:
            await anyio.sleep(0.02)
    assert (await desk.run(["cat", f"/proc/{child}/comm"])).stdout == b"sleep\n"
    assert (await desk.run(["kill", str(child)])).ok
    done = await program.wait()
    assert (done.exit_code, done.signal) == (143, 15)


async def test_a_signal_can_be_caught(desk: Desk) -> None:
    program = await desk.start(
        ["sh", "-c", "trap 'echo caught; exit 5' USR1; echo ready; while :; do sleep 0.02; done"]
    )
    output = program.output()
    assert await first_line(output) == b"ready\n"
    await program.signal(signal.SIGUSR1)
    assert (await everything(program))["stdout"] == b"caught\n"
    assert (await program.wait()).exit_code == 5


async def test_a_signal_to_an_ended_program_is_no_error(desk: Desk) -> None:
    program = await desk.start(["true"])
    await program.wait()
    await program.signal(signal.SIGTERM)
    late = await desk.attach(program.pid)
    await late.signal(signal.SIGKILL)
    assert (await late.wait()).ok


@pytest.mark.parametrize("number", [-1, 65, 1000])
async def test_an_invalid_signal_is_the_callers_error(desk: Desk, number: int) -> None:
    program = await desk.start(["cat"])
    with pytest.raises(BriefError):
        await program.signal(number)
    await program.close_stdin()
    assert (await program.wait()).ok


# -- following ----------------------------------------------------------------------------------------------------


async def test_a_program_outlives_its_follower(desk: Desk) -> None:
    program = await desk.start(["sh", "-c", "echo one; read line; echo $line; exit 6"])
    assert await first_line(program.output()) == b"one\n"
    await program.detach()
    await program.detach()
    again = await desk.attach(program.pid)
    await again.send(b"two\n")
    assert (await everything(again))["stdout"] == b"one\ntwo\n"
    assert (await again.wait()).exit_code == 6


async def test_a_program_without_a_follower_does_not_block(desk: Desk) -> None:
    program = await desk.start(["sh", "-c", "head -c 3000000 /dev/zero; echo over >nobody-follows"])
    await program.detach()
    assert await until_there(desk, "nobody-follows") == b"over\n"


async def test_attaching_replays_recent_output_and_continues(desk: Desk) -> None:
    program = await desk.start(["sh", "-c", "seq 1 100000; echo mark; read line; echo end"])
    said = b""
    async for _, data in program.output():
        said += data
        if b"mark\n" in said:
            break
    late = await desk.attach(program.pid)
    await program.send(b"\n")
    replayed = (await everything(late))["stdout"]
    whole = said + b"end\n"
    assert whole.endswith(replayed)
    assert len(replayed) > 100_000
    assert (await everything(program))["stdout"] == b"end\n"


async def test_a_late_follower_gets_the_exit(desk: Desk) -> None:
    program = await desk.start(["sh", "-c", "echo said; exit 9"])
    await program.wait()
    late = await desk.attach(program.pid)
    assert (await everything(late))["stdout"] == b"said\n"
    assert (await late.wait()).exit_code == 9


@pytest.mark.parametrize("pid", [0, 1, -1, 4_000_000, 10**15])
async def test_following_an_unknown_pid_is_missing(desk: Desk, pid: int) -> None:
    with pytest.raises(FileError) as caught:
        await desk.attach(pid)
    assert caught.value.reason == "missing"


async def test_every_follower_gets_everything(desk: Desk) -> None:
    program = await desk.start(["sh", "-c", "read line; seq 1 200000; echo err >&2"])
    followers = [program, *[await desk.attach(program.pid) for _ in range(3)]]
    said: list[dict[str, bytes]] = []

    async def follow(follower: Process) -> None:
        said.append(await everything(follower))
        assert (await follower.wait()).ok

    async with anyio.create_task_group() as tasks:
        for follower in followers:
            tasks.start_soon(follow, follower)
        await program.send(b"\n")
    expected = b"".join(b"%d\n" % n for n in range(1, 200001))
    assert said == [{"stdout": expected, "stderr": b"err\n"}] * 4


async def test_programs_are_listed_while_they_run_and_a_while_after(desk: Desk) -> None:
    program = await desk.start(["cat", "-"])
    running = {one.pid: one for one in await desk.processes()}
    assert running[program.pid].argv == ("cat", "-")
    assert running[program.pid].exit_code is None
    await program.close_stdin()
    await program.wait()
    kept = {one.pid: one for one in await desk.processes()}
    assert kept[program.pid].exit_code == 0


async def test_many_ended_programs_do_not_pile_up(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        for _ in range(300):
            await desk.run(["true"])
        assert len(await desk.processes()) <= 130


# -- orphans ------------------------------------------------------------------------------------------------------

ZOMBIES = """
for file in /proc/[0-9]*/stat; do
    read -r pid name state rest <$file && case "$name $state" in "(hotzombie) Z") echo $pid;; esac
done 2>/dev/null
true
"""


async def test_zombies_are_reaped(desk: Desk) -> None:
    await desk.write("hotzombie", b"#!/bin/sh\nsleep 0.05\n", mode=0o755)
    done = await sh(desk, "for n in 1 2 3 4 5 6 7 8; do (./hotzombie >/dev/null 2>&1 &); done")
    assert done.ok
    await anyio.sleep(0.5)
    assert (await sh(desk, ZOMBIES)).stdout == b""
    assert (await sh(desk, "pgrep -f hot[z]ombie")).stdout == b""


async def test_orphans_are_adopted(desk: Desk) -> None:
    guest, orphan = (await sh(desk, "echo $PPID; (sleep 4713 >/dev/null 2>&1 & echo $!)")).text.split()
    parent = (await sh(desk, f"cut -d' ' -f4 /proc/{orphan}/stat; kill {orphan}")).text.strip()
    assert parent == guest
