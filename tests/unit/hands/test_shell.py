"""Tests of the shell tools, at a desk without a wall."""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncIterator

import anyio
import pytest

from hotdesk.desk.seam import Desk
from hotdesk.hands.output import SHOWN
from hotdesk.hands.shell import SESSIONS, Shell
from hotdesk.hands.shell_session import Hearing, new_word
from hotdesk.tool import Observation, ToolArgumentError

pytestmark = pytest.mark.slow


@pytest.fixture
async def shell(desk: Desk) -> AsyncIterator[Shell]:
    made = Shell(desk, {"DISPLAY": ":0"})
    yield made
    await made.close()


async def use(shell: Shell, name: str, **arguments: object) -> Observation:
    tool = next(tool for tool in shell.tools if tool.name == name)
    return await shell.use(name, tool.check(arguments))


async def said(shell: Shell, command: str, timeout: float = 10, session: str = "main") -> str:
    """Run a line in a session; return what came of it."""
    return (await use(shell, "shell", command=command, timeout=timeout, session=session)).text


async def test_a_session_keeps_its_folder_variables_functions_and_jobs(shell: Shell, desk: Desk) -> None:
    await said(shell, "mkdir -p deep/er; cd deep; x=5; export Y=6; f() { echo f$1; }")
    assert await said(shell, "cd er; echo $x; f 7; sh -c 'echo $Y $DISPLAY'") == (
        f"5\nf7\n6 :0\n[exit code 0, in {desk.home}/deep/er]"
    )
    await said(shell, "sleep 60 & job=$!")
    assert "exit code 0" in await said(shell, "kill -0 $job")


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("command", "text", "code"),
    [
        ("printf no-newline", "no-newline\n", 0),
        ("echo out; echo err >&2; echo out", "out\nerr\nout\n", 0),
        ("(exit 7)", "", 7),
        ("no-such-program", "bash: no-such-program: command not found\n", 127),
        ("if then", "bash: syntax error near unexpected token `then'\n", 2),
        ("cat; head -c 1; read x; wc -c", "0\n", 0),
        ("python3 -c 'import sys; print(repr(sys.stdin.read()))'", "''\n", 0),
        ("cat <<EOF\none 'two'\nEOF\necho \"three\\nfour\" # five", "one 'two'\nthree\\nfour\n", 0),
        ("printf '\\x00\\xff\\x1b[31mred\\x1b[0m\\x07'", "\\x00\ufffdred\\x07\n", 0),
        ("printf '10%%\\r20%%\\r100%%\\r\\nend'", "100%\nend\n", 0),
        ("break; return; shift 5", "", 1),
        ("echo hi!! $PS1", "hi!!\n", 0),
        ("set -x; true; set +x", "++ true\n++ set +x\n", 0),
        ("PS1='(venv) '; PS2='> '; echo a\necho b", "a\nb\n", 0),
        ("printf '\\036%032d 0 /\\036' 1", "\\x1e00000000000000000000000000000001 0 /\\x1e\n", 0),
        ("echo ${#x}", "0\n", 0),
    ],
)
async def test_the_end_of_any_output_is_found(shell: Shell, command: str, text: str, code: int) -> None:
    seen = await use(shell, "shell", command=command, timeout=10)
    body, _, last = seen.text.rpartition("[")
    assert last.startswith(f"exit code {code}, in ")
    assert seen.ok is (code == 0)
    assert text in body if "break" in command else body == text
    assert (await said(shell, "echo still there")).startswith("still there\n[exit code 0")


async def test_output_turned_elsewhere_for_good_hides_no_end(shell: Shell) -> None:
    assert (await said(shell, "exec >/dev/null 2>&1; echo lost")).startswith("[exit code 0")
    assert (await said(shell, "echo lost; (exit 4)")).startswith("[exit code 4")


async def test_a_command_whose_time_is_up_is_interrupted_and_the_session_lives_on(shell: Shell) -> None:
    await said(shell, "x=5; sleep 60 & job=$!")
    began = time.monotonic()
    seen = await use(shell, "shell", command="echo before; sleep 50; echo after", timeout=0.3)
    assert time.monotonic() - began < 20
    assert not seen.ok
    assert "before\n" in seen.text
    assert "after\n" not in seen.text
    assert "timed out after 0.3 seconds and was interrupted; its session continues] [exit code 130" in seen.text
    assert (await said(shell, "echo $x; kill -0 $job")).startswith("5\n[exit code 0")
    assert "its session continues" in await said(shell, "while :; do :; done", 0.3)
    assert (await said(shell, "echo $x")).startswith("5\n")


async def test_a_command_that_takes_no_interrupt_ends_with_its_session(shell: Shell) -> None:
    seen = await said(shell, "x=5; trap '' INT; echo so far; sleep 50", 1)
    assert seen.startswith("so far\n[the command timed out after 1 seconds, ignored the interrupt and was killed")
    assert (await said(shell, "echo $x-")).startswith("-\n[exit code 0")


@pytest.mark.parametrize("command", ["exit 3", "set -e; sleep 60 & sh -c 'exit 3'", "exec sh -c 'exit 3'"])
async def test_a_shell_that_ends_is_reported_and_started_again(shell: Shell, command: str) -> None:
    code = "" if "exec" in command else " with exit code 3"
    assert f"[the shell itself ended{code}; the next command" in await said(shell, command)
    assert (await said(shell, "echo back")).startswith("back\n[exit code 0")


async def test_a_session_that_died_unseen_is_started_again_and_the_command_runs_once(shell: Shell, desk: Desk) -> None:
    await said(shell, "rm -f once")
    await shell.sessions["main"].process.signal(9)
    seen = await use(shell, "shell", command="echo x >>once; cat once")
    assert seen.text.startswith("x\n[exit code 0")
    assert seen.note == "session main had ended and was restarted: its directory, variables and jobs are gone"
    assert (await use(shell, "shell", command="true")).note == ""


async def test_output_of_a_background_job_is_reported_with_the_next_command(shell: Shell) -> None:
    await said(shell, "(sleep 0.2; echo from the job) &")
    await anyio.sleep(0.5)
    assert (await said(shell, "echo now")).startswith("from the job\nnow\n")


async def test_unprintable_output_is_bounded_too(shell: Shell) -> None:
    text = await said(shell, "head -c 15000 /dev/zero; echo end")
    assert len(text) < 2 * SHOWN + 300
    assert "end\n[exit code 0" in text
    assert "the complete output is in ~/.hotdesk/output/1.txt" in text


def test_end_markers_are_new_for_every_command() -> None:
    assert len({new_word() for _ in range(100)}) == 100
    assert {len(new_word()) for _ in range(10)} == {32}


async def test_sessions_are_apart_and_their_number_is_bounded(shell: Shell) -> None:
    await use(shell, "shell", command="x=1", session="a")
    assert (await use(shell, "shell", command="echo ${x-none}", session="b")).text.startswith("none\n")
    shell.sessions.update({f"s{number}": shell.sessions["a"] for number in range(SESSIONS)})
    with pytest.raises(ToolArgumentError, match="sessions already"):
        await use(shell, "shell", command="true", session="c")
    with pytest.raises(ToolArgumentError, match="session may only contain"):
        await use(shell, "shell", command="true", session="a b")


async def test_commands_of_one_session_wait_for_each_other(shell: Shell) -> None:
    texts: list[str] = []

    async def one(number: int) -> None:
        texts.append(await said(shell, f"sleep 0.0{9 - number}; echo {number}"))

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(one, number)
    assert [text[0] for text in texts] == list("01234")


async def test_a_restarted_session_knows_nothing_and_its_jobs_are_gone(shell: Shell) -> None:
    await said(shell, "x=5; (sleep 60; :) & echo $! >job")
    assert "killed with all its processes" in (await use(shell, "shell_restart")).text
    gone = "for n in {1..50}; do kill -0 $(cat job) 2>/dev/null || break; sleep 0.1; done; echo $((n < 50))"
    assert (await said(shell, "echo ${x-none}; " + gone)).startswith("none\n1\n")
    assert "was not running" in (await use(shell, "shell_restart", session="other")).text


async def test_a_session_can_be_restarted_while_a_command_hangs(shell: Shell) -> None:
    await said(shell, "rm -f begun")
    texts: list[str] = []

    async def hang() -> None:
        texts.append(await said(shell, "echo begun | tee begun; sleep 60", 30))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hang)
        await said(shell, "until [ -s begun ]; do sleep 0.05; done", session="other")
        await use(shell, "shell_restart")
    assert texts[0].startswith("begun\n[the shell itself ended; the next command")
    assert (await said(shell, "echo back")).startswith("back\n")


async def test_of_a_long_output_the_ends_are_shown_and_the_whole_is_kept(shell: Shell, desk: Desk) -> None:
    text = await said(shell, "seq 100000")
    assert text.startswith("1\n2\n3\n")
    assert "\n99999\n100000\n[exit code 0" in text
    assert "… 572,895 characters left out; the complete output is in ~/.hotdesk/output/1.txt: read" in text
    assert len(text) < 2 * SHOWN + 300
    assert await desk.read(".hotdesk/output/1.txt") == b"".join(b"%d\n" % number for number in range(1, 100_001))


async def test_an_output_beyond_every_limit_is_read_to_its_end(shell: Shell, desk: Desk) -> None:
    text = await said(shell, "head -c 20000000 /dev/zero | tr '\\0' x; echo; echo end", 30)
    assert "the first 16 MiB of the output's 20,000,005 bytes are in ~/.hotdesk/output/1.txt" in text
    assert "xxx\nend\n[exit code 0" in text
    assert (await desk.stat(".hotdesk/output/1.txt")).size == 16 << 20


async def test_a_program_whose_output_was_cut_does_not_claim_that_all_of_it_is_kept(shell: Shell, desk: Desk) -> None:
    seen = await use(shell, "run", command="head -c 20000000 /dev/zero | tr '\\0' x", timeout=30)
    assert "the complete output" not in seen.text
    assert "the first 16,777,216 bytes of the output are in ~/.hotdesk/output/1.txt" in seen.text
    assert "its output exceeded 16 MiB and the rest was dropped" in seen.text


async def test_a_call_that_is_broken_off_ends_its_command_and_not_its_session(shell: Shell) -> None:
    await said(shell, "rm -f late; x=5; sleep 60 & job=$!")
    with anyio.move_on_after(0.2):
        await said(shell, "echo lost; sleep 1; touch late")
    seen = await use(shell, "shell", command="sleep 1; echo $x; kill -0 $job; ls late")
    assert seen.text.startswith("5\nls: cannot access")
    assert seen.note == "the previous command was interrupted and its output is lost"
    assert (await use(shell, "shell", command="true")).note == ""


async def test_a_line_is_not_lost_to_the_interrupt_of_the_one_before(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    await said(shell, "x=5")
    with anyio.move_on_after(0.2):
        await said(shell, "sleep 60")
    process = shell.sessions["main"].process
    tell, told = process.send, list[bytes]()

    async def lose_the_first(data: bytes) -> None:  # as bash does when it reads while an interrupt is on its way
        told.append(data)
        if len(told) > 1:
            await tell(data)

    monkeypatch.setattr(process, "send", lose_the_first)
    assert (await said(shell, "echo $x", timeout=5)).startswith("5\n[exit code 0")


async def test_cancelling_a_call_while_it_is_sent_ends_the_session(shell: Shell) -> None:
    await said(shell, "x=5")
    session = shell.sessions["main"]
    await session.process.signal(signal.SIGSTOP)
    with anyio.move_on_after(0.2):
        await shell.run_in("main", f": {'x' * 5_000_000}", 10)
    assert session.killed
    assert (await said(shell, "echo ${x-none}")).startswith("none\n")


@pytest.mark.parametrize(
    ("arguments", "text", "ok"),
    [
        ({"argv": ["echo", "a b", "$HOME"]}, "a b $HOME\n[exit code 0]", True),
        ({"command": "echo $DISPLAY; exit 3"}, ":0\n[exit code 3]", False),
        ({"command": "echo bad >&2"}, "standard error:\nbad\n[exit code 0]", True),
        ({"argv": ["cat"], "stdin": "grüß"}, "grüß\n[exit code 0]", True),
        ({"argv": ["cat"]}, "[exit code 0]", True),
        ({"argv": ["pwd"], "cwd": "/"}, "/\n[exit code 0]", True),
        ({"argv": ["sleep", "50"], "timeout": 0.2}, "[killed: timed out after 0.2 seconds]", False),
        ({"argv": ["no-such-program"]}, "[exit code 127: ", False),
    ],
)
async def test_a_program_runs_once(shell: Shell, arguments: dict[str, object], text: str, ok: bool) -> None:
    seen = await use(shell, "run", **arguments)
    assert seen.text.startswith(text)
    assert seen.ok is ok


@pytest.mark.parametrize("arguments", [{}, {"argv": ["true"], "command": "true"}])
async def test_a_program_is_either_arguments_or_a_line(shell: Shell, arguments: dict[str, object]) -> None:
    with pytest.raises(ToolArgumentError, match="either argv or command"):
        await use(shell, "run", **arguments)


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_end_markers_are_found_in_any_pieces(size: int, keeps: bool) -> None:
    hearing = Hearing("b" * 32, "e" * 32, "g" * 32, keeps=keeps)
    stream = b"noise\x1e" + b"b" * 32 + b"\x1eout \x1e" + b"e" * 31 + b" put\x1e" + b"e" * 32 + b" 3 /a b\n\x1eafter"
    for start in range(0, len(stream), size):
        if hearing.ending is None:
            hearing.feed(stream[start : start + size])
    hearing.finish()
    assert (hearing.ending, hearing.lives) == ((3, "/a b\n"), True)
    assert bytes(hearing.output.data) == (b"noise" if keeps else b"") + b"out \x1e" + b"e" * 31 + b" put"


def test_a_shell_that_says_no_sane_ending_has_ended() -> None:
    hearing = Hearing("b" * 32, "e" * 32, "g" * 32)
    hearing.feed(b"\x1e" + b"b" * 32 + b"\x1eout\x1e" + b"e" * 32 + b" 999999" + b"/" * 10_000)
    assert (hearing.ending, hearing.lives) == ((255, "?"), False)
