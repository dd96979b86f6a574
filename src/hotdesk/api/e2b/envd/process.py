"""`process.Process`: starts, follows and signals programs, and writes to their input."""

from __future__ import annotations

import base64
import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from starlette.responses import Response

from hotdesk.api.e2b.envd.connect import (
    Message,
    RpcError,
    Say,
    iterate_messages,
    parse_deadline,
    parse_keepalive,
    read_single_message,
    unary,
)
from hotdesk.api.e2b.envd.fields import (
    get_bytes,
    get_field,
    get_number,
    get_table,
    get_text,
    get_texts,
    read_text_map,
    resolve,
)
from hotdesk.api.e2b.envd.programs import Piece, ProgramRequest, SandboxProgram, describe_end
from hotdesk.api.e2b.envd.users import User, as_user, find_caller
from hotdesk.api.e2b.responses import answer
from hotdesk.desk.seam import Process, Size

if TYPE_CHECKING:
    from hotdesk.api.e2b.envd.envd import EnvdCall

SIGNALS = {"SIGNAL_SIGKILL": signal.SIGKILL, "SIGNAL_SIGTERM": signal.SIGTERM}
NUMBERS = {9: signal.SIGKILL, 15: signal.SIGTERM}
KILL_TIMEOUT_S, KILL_INTERVAL_S = 5.0, 0.05
"""Seconds to wait for a killed program to end before answering anyway, and between two checks."""
_NO_FOLDER = "working folder "
"""The beginning of the guest's message when a program's folder does not exist."""


async def start(call: EnvdCall) -> Response:
    user, message = await find_caller(call), await read_single_message(call.request)

    async def tell(say: Say) -> None:
        program = await start_program(call, user, message)
        with program.follow() as pieces:
            call.tasks.start_soon(program.hear)
            await _tell_pieces(call, program, pieces, say)
        if program.done is not None and program.done.timed_out:
            raise RpcError("deadline_exceeded", "the program exceeded its time limit and was killed")
        await _tell_end(call, program, say)

    return call.stream(tell)


async def start_program(call: EnvdCall, user: User, message: Message) -> SandboxProgram:
    """Start a program; it runs until its time limit, whether or not it is followed."""
    request = parse_request(message)
    cwd = resolve(request.cwd or call.sandbox.workdir, user.home)
    runs_as, argv = as_user(user, [request.cmd, *request.args])
    process = await call.sandbox.desk.start(
        argv,
        env={**call.sandbox.env, **request.envs},
        cwd=cwd,
        user=runs_as,
        timeout=parse_deadline(call.request),
        stdin=request.stdin,
        pty=as_size(message) if request.terminal else None,
    )
    if not process.pid:
        raise RpcError("invalid_argument", await _explain_start_failure(process, request.cmd, cwd))
    program = SandboxProgram(process, request)
    call.room.programs.add(program)
    return program


async def _explain_start_failure(process: Process, cmd: str, cwd: str) -> str:
    reason = (await process.wait()).reason
    return f"cwd '{cwd}' does not exist" if reason.startswith(_NO_FOLDER) else f"error starting process {cmd}: {reason}"


async def connect(call: EnvdCall) -> Response:
    message, seconds = await read_single_message(call.request), parse_deadline(call.request)

    async def tell(say: Say) -> None:
        program = find_program(call, message, ended=True)
        with program.follow() as pieces, anyio.move_on_after(seconds) as scope:
            await _tell_pieces(call, program, pieces, say)
        if scope.cancelled_caught:
            raise RpcError("deadline_exceeded", "the timeout that the client set for this call has passed")
        await _tell_end(call, program, say)

    return call.stream(tell)


async def _tell_pieces(
    call: EnvdCall, program: SandboxProgram, pieces: MemoryObjectReceiveStream[Piece], say: Say
) -> None:
    """Send a program's output until it ends, and keepalives during silence."""
    interval = parse_keepalive(call.request)
    await say({"event": {"start": {"pid": program.pid}}})
    while True:
        piece = None
        with anyio.move_on_after(interval) as silence:
            piece = await anext(pieces, None)
        if silence.cancelled_caught:
            await say({"event": {"keepalive": {}}})
        elif piece is None:
            return
        else:
            kind = "pty" if program.request.terminal else piece[0]
            await say({"event": {"data": {kind: base64.b64encode(piece[1]).decode()}}})


async def _tell_end(call: EnvdCall, program: SandboxProgram, say: Say) -> None:
    """Report how a program ended; if that is unknown, cut the connection."""
    if program.done is None:
        call.reset()
        raise RpcError("unavailable", f"the connection to the program was lost: {program.lost}")
    await say({"event": {"end": describe_end(program.done)}})


async def stream_input(call: EnvdCall) -> Response:
    program: SandboxProgram | None = None
    async for message in iterate_messages(call.request):
        if (begin := get_field(message, "start", dict)) is not None:
            program = find_program(call, begin)
        elif (data := get_field(message, "data", dict)) is not None:
            if program is None:
                raise RpcError("invalid_argument", "the first message must have `start`, which selects the process")
            await feed(program, get_table(data, "input"))

    async def tell(say: Say) -> None:
        await say({})

    return call.stream(tell)


async def _send_input(call: EnvdCall) -> Response:
    message = await unary(call.request)
    await feed(find_program(call, message), get_table(message, "input"))
    return answer({})


async def feed(program: SandboxProgram, data: Message) -> None:
    stdin, pty = get_bytes(data, "stdin"), get_bytes(data, "pty")
    if program.request.terminal and stdin is not None:
        raise RpcError("internal", "error writing to stdin: this program has a terminal; send the input as `pty`")
    if not program.request.terminal and pty is not None:
        raise RpcError("internal", "error writing to tty: this program has no terminal; send the input as `stdin`")
    if not program.request.stdin or program.input_closed:
        raise RpcError("internal", "error writing to stdin: stdin not enabled or closed")
    await program.process.send(stdin or pty or b"")


async def close_stdin(call: EnvdCall) -> Response:
    program = find_program(call, await unary(call.request))
    if program.request.terminal:
        raise RpcError("unknown", "cannot close stdin for PTY process; send Ctrl+D (0x04) instead")
    program.input_closed = True
    await program.process.close_stdin()
    return answer({})


async def send_signal(call: EnvdCall) -> Response:
    """Signal a single process. After SIGKILL, wait until the program has ended."""
    message = await unary(call.request)
    program = find_program(call, message)
    value = message.get("signal")
    meant = SIGNALS.get(value) if isinstance(value, str) else NUMBERS.get(value) if isinstance(value, int) else None
    if meant is None:
        raise RpcError("unimplemented", "only SIGKILL and SIGTERM are supported")
    await program.process.signal(meant)
    if meant == signal.SIGKILL:
        await _wait_until_gone(program)
    return answer({})


async def _wait_until_gone(program: SandboxProgram) -> None:
    with anyio.move_on_after(KILL_TIMEOUT_S):
        while not program.over:
            with anyio.move_on_after(KILL_INTERVAL_S):
                await program.gone.wait()
            if program.stalled:
                return


async def update(call: EnvdCall) -> Response:
    message = await unary(call.request)
    program = find_program(call, message)
    if message.get("pty") is not None:
        if not program.request.terminal:
            raise RpcError("internal", "tty not assigned to process")
        await program.process.resize(as_size(message))
    return answer({})


async def _list_programs(call: EnvdCall) -> Response:
    await unary(call.request)
    return answer({"processes": [_describe_program(one) for one in call.room.programs.list_running()]})


def _describe_program(program: SandboxProgram) -> Message:
    request = program.request
    config: Message = {"cmd": request.cmd, "args": request.args, "envs": request.envs}
    if request.cwd is not None:
        config["cwd"] = request.cwd
    entry: Message = {"config": config, "pid": program.pid}
    return {**entry, "tag": request.tag} if request.tag else entry


def find_program(call: EnvdCall, message: Message, *, ended: bool = False) -> SandboxProgram:
    """Return the program that a message selects; one that has ended only if `ended` is set."""
    selector = get_table(message, "process")
    pid, tag = get_number(selector, "pid"), get_text(selector, "tag")
    found = call.room.programs.find(pid, tag)
    if found is None or (found.over and not ended):
        meant = f"tag {tag[:100]}" if tag else f"pid {pid}"
        raise RpcError("not_found", f"process with {meant} not found")
    return found


def parse_request(message: Message) -> ProgramRequest:
    config = get_table(message, "process")
    if not (cmd := get_text(config, "cmd")):
        raise RpcError("invalid_argument", "process.cmd is missing; set it to the program to start")
    stdin = get_field(message, "stdin", bool)
    return ProgramRequest(
        cmd,
        tuple(get_texts(config, "args")),
        read_text_map(config, "envs"),
        get_text(config, "cwd") if config.get("cwd") is not None else None,
        get_text(message, "tag") or None,
        stdin is not False or message.get("pty") is not None,
        message.get("pty") is not None,
    )


def as_size(message: Message) -> Size:
    size = get_table(get_table(message, "pty"), "size")
    return Size(get_number(size, "rows") or 24, get_number(size, "cols") or 80)


METHODS: dict[str, Callable[[EnvdCall], Awaitable[Response]]] = {
    "Start": start, "Connect": connect, "StreamInput": stream_input, "SendInput": _send_input,
    "CloseStdin": close_stdin, "SendSignal": send_signal, "Update": update, "List": _list_programs,
}  # fmt: skip
