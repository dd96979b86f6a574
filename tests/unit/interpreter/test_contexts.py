"""Tests of contexts with real kernels of Python, JavaScript and bash: results stay with the code that caused them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from hotdesk_interpreter.contexts import Context, Contexts
from hotdesk_interpreter.kernel import Event, InterpreterKernel
from hotdesk_interpreter.languages import get_language

KERNELS = ("python", "javascript", "bash")
PRINT = {"python": "print('{}')", "javascript": "console.log('{}')", "bash": "echo '{}'"}
SLEEP = {
    "python": "import time; time.sleep(60)",
    "javascript": "await new Promise((done) => setTimeout(done, 60000))",
    "bash": "sleep 60",
}
SET = {"python": "kept = 'state'", "javascript": "var kept = 'state'", "bash": "kept=state"}
SHOW = {"python": "print(kept)", "javascript": "console.log(kept)", "bash": 'echo "$kept"'}


@pytest.fixture(autouse=True)
def _no_descriptor_is_left() -> Iterator[None]:
    before = os.listdir("/proc/self/fd")
    yield
    assert len(os.listdir("/proc/self/fd")) <= len(before)


def run(home: Path, body: Callable[[Contexts], Awaitable[None]]) -> None:
    async def work() -> None:
        contexts = Contexts(os.environ, str(home))
        try:
            await asyncio.wait_for(body(contexts), 50)
        finally:
            for context in list(contexts.by_id.values()):
                await contexts.stop(context)

    asyncio.run(work())


async def collect(contexts: Contexts, context: Context, code: str) -> list[Event]:
    return [event async for event in contexts.execute(context, code, {})]


async def output(contexts: Contexts, context: Context, code: str) -> str:
    return "".join(each["text"] for each in await collect(contexts, context, code) if each["type"] == "stdout")


async def leave_at(events: AsyncIterator[Event], kind: str, pause: float = 0.0) -> None:
    """Read up to the first event of a kind, wait, and disconnect."""
    async for event in events:
        if event["type"] == kind:
            break
    await asyncio.sleep(pause)
    await events.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", KERNELS)
def test_a_client_that_leaves_when_its_code_has_ended_shifts_no_result(tmp_path: Path, name: str) -> None:
    async def body(contexts: Contexts) -> None:
        context = contexts.get_default(name)
        await collect(contexts, context, SET[name])
        await leave_at(contexts.execute(context, PRINT[name].format("first"), {}), "stdout", 0.5)
        for word in ("second", "third"):
            assert await output(contexts, context, PRINT[name].format(word)) == f"{word}\n"
        assert await output(contexts, context, SHOW[name]) == "state\n"

    run(tmp_path, body)


@pytest.mark.parametrize("name", KERNELS)
def test_code_whose_client_left_is_interrupted_and_its_state_stays(tmp_path: Path, name: str) -> None:
    async def body(contexts: Contexts) -> None:
        context = contexts.get_default(name)
        await collect(contexts, context, SET[name])
        process = context.kernel
        begun = time.monotonic()
        await leave_at(contexts.execute(context, f"{PRINT[name].format('x')}\n{SLEEP[name]}", {}), "stdout", 0.3)
        assert await output(contexts, context, SHOW[name]) == "state\n"
        assert context.kernel is process
        assert time.monotonic() - begun < 25

    run(tmp_path, body)


@pytest.mark.parametrize("name", KERNELS)
def test_an_end_of_other_code_ends_nothing(tmp_path: Path, name: str) -> None:
    async def body(contexts: Contexts) -> None:
        context, language = contexts.get_default(name), get_language(name)
        await collect(contexts, context, SET[name])
        assert context.kernel is not None
        os.write(context.kernel.orders, b"10000 " + language.order(PRINT[name].format("stale"), {}))
        assert await output(contexts, context, SHOW[name]) in {"state\n", "stale\nstate\n"}
        assert await output(contexts, context, PRINT[name].format("next")) == "next\n"

    run(tmp_path, body)


@pytest.mark.parametrize("name", KERNELS)
def test_signals_between_two_pieces_of_code_lose_nothing(tmp_path: Path, name: str) -> None:
    async def body(contexts: Contexts) -> None:
        context = contexts.get_default(name)
        await collect(contexts, context, SET[name])
        assert context.kernel is not None
        for n in range(20):
            context.kernel.interrupt(context.language.interruption)
            await asyncio.sleep(0.01)
            assert await output(contexts, context, PRINT[name].format(n)) == f"{n}\n"
        assert await output(contexts, context, SHOW[name]) == "state\n"

    run(tmp_path, body)


def test_a_signal_at_the_end_of_code_does_not_end_the_python_kernel(tmp_path: Path) -> None:
    async def body(contexts: Contexts) -> None:
        context = contexts.get_default("python")
        await collect(contexts, context, SET["python"])
        assert context.kernel is not None
        for n in range(150):
            # The signal arrives during the last output of the code, when it is reported, or afterwards.
            events = contexts.execute(
                context, f"import os; os.write(1, b'x'); x = range({n % 15} * 1000); len([*x])", {}
            )
            await leave_at(events, "stdout", n * 0.0001)
        assert await output(contexts, context, SHOW["python"]) == "state\n"

    run(tmp_path, body)


@pytest.mark.parametrize("code", ["sleep 60 & exit 3", "(while :; do echo x; sleep 0.05; done) & exit 3"])
def test_a_program_that_goes_on_does_not_delay_the_end_of_its_shell(tmp_path: Path, code: str) -> None:
    async def body(contexts: Contexts) -> None:
        context = contexts.get_default("bash")
        begun = time.monotonic()
        events = await collect(contexts, context, code)
        assert [each["name"] for each in events if each["type"] == "error"] == ["KernelDied"]
        assert "exit code 3" in next(each["value"] for each in events if each["type"] == "error")
        assert time.monotonic() - begun < 30
        assert await output(contexts, context, "echo next") == "next\n"

    run(tmp_path, body)


def test_a_shell_keeps_its_descriptors_and_gives_none_to_programs(tmp_path: Path) -> None:
    async def body(contexts: Contexts) -> None:
        context = contexts.get_default("bash")
        counts = [await output(contexts, context, "echo /proc/$$/fd/*") for _ in range(4)]
        assert len({len(each.split()) for each in counts[1:]}) == 1
        assert context.kernel is not None
        pipes = [os.readlink(f"/proc/self/fd/{fd}") for fd in (context.kernel.orders, context.kernel.events)]
        listing = await output(contexts, context, "exec 5>/dev/null; ls -l /proc/self/fd; echo done")
        assert "done" in listing
        assert not [each for each in pipes if each in listing]
        assert await output(contexts, context, "echo seen >&5; echo still") == "still\n"

    run(tmp_path, body)


def test_a_folder_that_was_deleted_is_an_error_event_and_leaks_nothing(tmp_path: Path) -> None:
    async def body(contexts: Contexts) -> None:
        folder = tmp_path / "gone"
        folder.mkdir()
        context = contexts.make(get_language("bash"), "gone")
        folder.rmdir()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            events = await collect(contexts, context, "echo x")
            assert [each["type"] for each in events] == ["error", "end_of_execution"]
            assert "gone" in events[0]["value"]
        assert len(os.listdir("/proc/self/fd")) == before
        folder.mkdir()
        assert await output(contexts, context, "echo x") == "x\n"

    run(tmp_path, body)


def test_a_kernel_that_cannot_be_started_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with contextlib.suppress(OSError):
            InterpreterKernel(("/nonexistent",), {}, str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before
