"""`hotdesk` as a child process with its own state directory. Output is bounded, and the process is always ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.errors import HostError, make_printable
from hotdesk.ipc.child import SOURCE

START = (
    "import sys;sys.path.insert(0,sys.argv.pop(1));import importlib;from hotdesk.linux import syscalls as s;"
    "s.prctl(s.PR_SET_PDEATHSIG,15);importlib.import_module(sys.argv.pop(1)).main()"
)
"""Python code that runs a module's `main`, with SIGTERM if the evaluation is killed."""
MAX_OUTPUT_BYTES = 1 << 20
_HOTDESK_FAILED = 125
"""Exit code of a command if hotdesk itself failed."""
_OWN_PREFIX = "hotdesk: "
_TAIL_BYTES = 1 << 14
_MAX_LINE_CHARS = 300
_STOP_INTERVAL_S, _STOP_TIMEOUT_S, _BURN_TIMEOUT_S = 0.5, 60.0, 30.0
"""Seconds to wait after each signal: `hotdesk work` pauses at the first, and burns its desks at the second."""
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command."""

    exit_code: int
    output: bytes
    complaint: str
    """The last line of its standard error: hotdesk's own if hotdesk failed, otherwise the program's."""


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """The state directory of one run, and the commands that run in it."""

    folder: Path
    environment: dict[str, str]

    async def run(
        self,
        *argv: str,
        stdin: bytes = b"",
        seconds: float | None = None,
        limit: int = MAX_OUTPUT_BYTES,
    ) -> CommandResult:
        """Run `hotdesk ARGV` to its end; raise `HostError` if it exceeds its time or its output limit."""
        with anyio.move_on_after(seconds):
            async with self.start(*argv) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                if stdin:
                    await process.stdin.send(stdin)
                await process.stdin.aclose()
                output = await read_all(process.stdout, limit, f"`hotdesk {argv[0]}`")
                code = await process.wait()
                return CommandResult(code, output, self.read_last_error(argv[0], is_own=code == _HOTDESK_FAILED))
        raise HostError(f"`hotdesk {argv[0]}` did not end within {seconds:g} s and was stopped.")

    @asynccontextmanager
    async def start(self, *argv: str, module: str = "hotdesk.cli", log_name: str = "") -> AsyncIterator[Process]:
        """Start a command for the length of a block; end it if it still runs then."""
        with self.get_log_path(log_name or argv[0]).open("wb") as log:
            process = await anyio.open_process(
                [sys.executable, "-P", "-c", START, str(SOURCE), module, *argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                await _end_process(process)

    def get_log_path(self, command: str) -> Path:
        return self.folder / f"{command}.log"

    def read_last_error(self, command: str, *, is_own: bool = True) -> str:
        with self.get_log_path(command).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode("utf-8", "replace")
        return get_last_line(text, is_own=is_own)

    async def wait_until_burnt(self) -> None:
        """Wait until no desk is left here; remove those that remain with `hotdesk gc`."""
        desks = self.folder / "run/desks"
        with anyio.move_on_after(_BURN_TIMEOUT_S):
            while desks.exists() and any(desks.iterdir()):  # noqa: ASYNC110 - another process removes them
                await anyio.sleep(0.1)
            return
        await self.run("gc", seconds=_BURN_TIMEOUT_S)


def make_state(folder: Path, settings: Config) -> StateDirectory:
    """Create an empty state directory that uses this machine's images, runtime and limits."""
    folder.mkdir(mode=0o711)  # desks' user ids must be able to traverse it
    folder.chmod(0o711)
    names = ("images", "runtime", "disk", "disk_floor", "memory_floor", "pids_floor")
    own = {f"HOTDESK_{name.upper()}": str(value) for name in names if (value := getattr(settings, name))}
    passed = {name: value for name, value in os.environ.items() if name not in ("HOTDESK_TENANT", "HOTDESK_REQUESTER")}
    return StateDirectory(folder, {**passed, **own, "HOTDESK_HOME": str(folder), "HOTDESK_HOLDER": "0"})


def get_last_line(text: str, *, is_own: bool) -> str:
    """Return the last line of a command's standard error: of hotdesk's lines if `is_own`, otherwise of the others."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    preferred = [line for line in lines if line.startswith(_OWN_PREFIX) == is_own]
    last = (preferred or lines or ["the command printed no error"])[-1]
    return make_printable(last.removeprefix(_OWN_PREFIX))[:_MAX_LINE_CHARS]


async def _end_process(process: Process) -> None:
    """End a process and wait for it. Its output is no longer read, and two signals make it burn its desks."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            await stream.aclose()
    for interval in (_STOP_INTERVAL_S, _STOP_TIMEOUT_S):
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            with anyio.move_on_after(interval):
                await process.wait()
    if process.returncode is None:
        process.kill()  # its keeper then burns its desks
        await process.wait()


async def read_all(stream: ByteReceiveStream, limit: int, program: str) -> bytes:
    """Read a stream to its end; raise `HostError` beyond the limit."""
    data = bytearray()
    with suppress(anyio.EndOfStream):
        while len(data) <= limit:
            data += await stream.receive(_CHUNK)
        raise HostError(f"{program} printed more than {limit >> 10} KiB and was stopped.")
    return bytes(data)


async def read_lines(stream: ByteReceiveStream, limit: int, program: str) -> AsyncIterator[bytes]:
    """Yield the lines of a stream; raise `HostError` for a line beyond the limit."""
    buffered = BufferedByteReceiveStream(stream)
    try:
        while True:
            yield await buffered.receive_until(b"\n", limit)
    except anyio.IncompleteRead:
        return
    except anyio.DelimiterNotFound as e:
        raise HostError(f"{program} printed a line of more than {limit >> 10} KiB and was stopped.") from e


def repeat_option(option: str, values: Sequence[str]) -> list[str]:
    return [part for value in values for part in (option, value)]
