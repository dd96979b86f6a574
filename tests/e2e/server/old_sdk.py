"""A program for E2B's SDK of spring 2026, run by an interpreter that has that SDK."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from e2b import (
    AsyncSandbox,
    CommandExitException,
    NotFoundException,
    PtySize,
    Sandbox,
    SandboxState,
    TimeoutException,
)


@contextmanager
def raises(kind: type[Exception], words: str = "") -> Iterator[None]:
    try:
        yield
    except kind as e:
        if words not in str(e):
            raise AssertionError(f"{words!r} is not in {e}") from e
        return
    raise AssertionError(f"there was no {kind.__name__}")


def runs_commands(sandbox: Sandbox) -> None:
    done = sandbox.commands.run("echo out; echo err >&2; echo $A", envs={"A": "b"})
    assert (done.stdout, done.stderr) == ("out\nb\n", "err\n")
    with raises(CommandExitException, "code 3"):
        sandbox.commands.run("exit 3")
    fed = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.send_stdin(fed.pid, "told")
    sandbox.commands.close_stdin(fed.pid)
    assert fed.wait().stdout == "told"
    sleeping = sandbox.commands.run("sleep 60", background=True)
    assert sleeping.pid in {one.pid for one in sandbox.commands.list()}
    assert sleeping.kill()
    assert not sandbox.commands.kill(999_999)


def refuses_in_time(sandbox: Sandbox) -> None:
    with raises(TimeoutException):
        sandbox.commands.run("sleep 60", timeout=1)


def handles_files(sandbox: Sandbox) -> None:
    sandbox.files.write("notes/a.txt", "text")
    sandbox.files.write_files([{"path": "notes/b.bin", "data": b"\0\xff"}, {"path": "notes/c.txt", "data": "c"}])
    assert sandbox.files.read("notes/a.txt") == "text"
    assert bytes(sandbox.files.read("notes/b.bin", format="bytes")) == b"\0\xff"
    assert b"".join(sandbox.files.read("notes/c.txt", format="stream")) == b"c"
    assert [one.name for one in sandbox.files.list("notes")] == ["a.txt", "b.bin", "c.txt"]
    assert sandbox.files.get_info("notes/a.txt").size == 4
    assert sandbox.files.rename("notes/a.txt", "notes/d.txt").path == "/home/user/notes/d.txt"
    sandbox.files.remove("notes/d.txt")
    assert not sandbox.files.exists("notes/d.txt")
    assert sandbox.files.make_dir("made")
    assert not sandbox.files.make_dir("made")
    with raises(NotFoundException):
        sandbox.files.read("nowhere")


def watches_folders(sandbox: Sandbox) -> None:
    sandbox.files.make_dir("watched")
    handle = sandbox.files.watch_dir("watched")
    sandbox.files.write("watched/new.txt", "x")
    assert [one.type.value for one in handle.get_new_events()] == ["create", "chmod", "write"]
    handle.stop()


def uses_a_terminal(sandbox: Sandbox) -> None:
    seen: list[bytes] = []
    handle = sandbox.pty.create(PtySize(rows=30, cols=100))
    sandbox.pty.resize(handle.pid, PtySize(rows=40, cols=120))
    sandbox.pty.send_stdin(handle.pid, b"stty size; exit\n")
    handle.wait(on_pty=seen.append)
    assert b"40 120" in b"".join(seen)


def pauses_and_connects(sandbox: Sandbox, options: dict[str, Any]) -> None:
    sandbox.files.write("kept.txt", "kept")
    sandbox.pause()
    again = Sandbox.connect(sandbox.sandbox_id, **options)
    assert again.files.read("kept.txt") == "kept"
    assert again.is_running()


def pauses_at_its_timeout(options: dict[str, Any]) -> None:
    """Require that a sandbox is paused, within two seconds of its timeout, and not resumed by a request to it."""
    sandbox = Sandbox.create(timeout=1, lifecycle={"on_timeout": "pause", "auto_resume": False}, **options)
    sandbox.files.write("kept.txt", "kept")
    late = time.time() + 3
    while (state := sandbox.get_info().state) == SandboxState.RUNNING:
        assert time.time() < late, f"it runs {time.time() - sandbox.get_info().end_at.timestamp():.1f} s after its end"
        time.sleep(0.05)
    assert state == SandboxState.PAUSED
    assert not sandbox.is_running()
    assert sandbox.get_info().state == SandboxState.PAUSED
    again = Sandbox.connect(sandbox.sandbox_id, timeout=60, **options)
    assert again.files.read("kept.txt") == "kept"
    assert again.kill()


def hears_of_its_end(options: dict[str, Any]) -> None:
    sandbox = Sandbox.create(**options)
    handle = sandbox.commands.run("echo begun; sleep 60", background=True)
    threading.Timer(1, sandbox.kill).start()
    with raises(TimeoutException, "killed"):
        handle.wait()
    assert not sandbox.is_running()


async def works_asynchronously(options: dict[str, Any]) -> None:
    """Do the same with the asynchronous SDK."""
    sandbox = await AsyncSandbox.create(**options)
    events: list[str] = []
    await sandbox.files.make_dir("watched")
    watch = await sandbox.files.watch_dir("watched", on_event=lambda event: events.append(event.type.value))
    await sandbox.files.write("watched/a", "a")
    assert (await sandbox.commands.run("cat watched/a")).stdout == "a"
    for _ in range(100):
        if len(events) == 3:
            break
        await asyncio.sleep(0.1)
    assert events == ["create", "chmod", "write"]
    await watch.stop()  # type: ignore[no-untyped-call]
    handle = await sandbox.commands.run("sleep 60", background=True)
    killing = asyncio.get_running_loop().create_task(killed_soon(sandbox))
    with raises(TimeoutException, "killed"):
        await handle.wait()
    await killing


async def killed_soon(sandbox: AsyncSandbox) -> None:
    await asyncio.sleep(1)
    await sandbox.kill()


def main(key: str, url: str) -> None:
    """Use every part of the SDK; print what was used, and the SDK's version."""
    options: dict[str, Any] = {"api_key": key, "api_url": url, "sandbox_url": url}
    sandbox = Sandbox.create(metadata={"by": "an older program"}, **options)
    steps: list[Callable[[Sandbox], None]] = [
        runs_commands, refuses_in_time, handles_files, watches_folders, uses_a_terminal,
        lambda one: pauses_and_connects(one, options),
    ]  # fmt: skip
    for step in steps:
        step(sandbox)
    assert sandbox.kill()
    assert not sandbox.kill()
    pauses_at_its_timeout(options)
    hears_of_its_end(options)
    asyncio.run(works_asynchronously(options))
    print(f"all of it, with {version('e2b')}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
