"""The shell as tools: sessions that persist between commands, and programs that run once."""

from __future__ import annotations

import re
from collections.abc import Mapping

import anyio

from hotdesk.desk.seam import Desk, Done
from hotdesk.errors import DeskError, make_printable
from hotdesk.hands.output import MAX_OUTPUT_BYTES, BoundedOutput, Outputs
from hotdesk.hands.paths import make_absolute
from hotdesk.hands.shell_session import BashSession, CommandOutcome
from hotdesk.tool import Arguments, Observation, Parameter, Tool, get_number, get_text, get_texts

MAIN = "main"
SESSIONS = 16
_SESSION_SHAPE = re.compile(r"[A-Za-z0-9._-]{1,32}")
DEFAULT_TIMEOUT_S = 120.0
BROKEN_OFF = "the previous command was interrupted and its output is lost"
MAX_TIMEOUT_S = 3600.0
TIMEOUT = Parameter(
    "timeout",
    "number",
    "time limit in seconds",
    default=DEFAULT_TIMEOUT_S,
    least=0.1,
    most=MAX_TIMEOUT_S,
)
SESSION = Parameter("session", "text", "name of the session; a new name starts a new session", default=MAIN, longest=32)

SHELL = Tool(
    "shell",
    "Run a bash command in a persistent session. The working directory, variables, functions and background jobs are "
    "kept for the next call. Standard input is empty: pass input with a pipe, `<<EOF`, or the tool `run`. Start "
    "servers with `&`. A command that exceeds its timeout is interrupted (Ctrl+C). Long output is cut in the middle; "
    "the result names the file with the complete output.",
    (Parameter("command", "text", "one or more lines of bash", required=True), SESSION, TIMEOUT),
    {"command": "cd work && ls -l"},
)
RUN = Tool(
    "run",
    "Run one program and wait until it exits, outside any session. Give either argv (exact arguments, no shell) or "
    "command (a line of bash). A program that exceeds its timeout is killed with all its children.",
    (
        Parameter("argv", "texts", "the program and its arguments"),
        Parameter("command", "text", "a line of bash, instead of argv"),
        Parameter("cwd", "text", "working directory; default: the home folder", longest=4096),
        Parameter("stdin", "text", "text for its standard input"),
        TIMEOUT,
    ),
    {"argv": ["python3", "-c", "print(6 * 7)"], "timeout": 30},
)
_RESTART = Tool(
    "shell_restart",
    "Kill a shell session with all its processes, background jobs included. The next command starts it again in the "
    "home folder.",
    (SESSION,),
    {"session": MAIN},
)


class Shell:
    tools = (SHELL, RUN, _RESTART)

    def __init__(self, desk: Desk, env: Mapping[str, str] | None = None) -> None:
        self.desk = desk
        self.env = dict(env or {})
        self.outputs = Outputs(desk)
        self.sessions: dict[str, BashSession] = {}
        self.locks: dict[str, anyio.Lock] = {}

    async def use(self, tool: str, arguments: Arguments) -> Observation:
        match tool:
            case "shell":
                return await self.run_line(arguments)
            case "run":
                return await self.run(arguments)
        return await self.restart(arguments)

    async def close(self) -> None:
        for name in list(self.sessions):
            await self.sessions.pop(name).kill()

    # -- sessions ---------------------------------------------------------------------------------------------

    async def run_line(self, arguments: Arguments) -> Observation:
        name = self.parse_session(SHELL, arguments)
        timeout = get_number(arguments, "timeout", DEFAULT_TIMEOUT_S)
        async with self.locks.setdefault(name, anyio.Lock()):
            ended, note = await self.run_in(name, get_text(arguments, "command"), timeout)
        text = (await self.outputs.shorten(ended.output)).rstrip("\n")
        ending = _tell_ended(ended, timeout)
        ok = ended.exit_code == 0 and not ended.timed_out
        return Observation(f"{text}\n{ending}" if text else ending, ok, note=note)

    async def run_in(self, name: str, command: str, timeout: float) -> tuple[CommandOutcome, str]:
        """Run a command in a session; a session that ended is started again, which is reported."""
        session = self.sessions.get(name)
        note = BROKEN_OFF if session is not None and session.unsettled else ""
        for _ in range(2):
            ended = await self.try_in(name, command, timeout)
            if ended is not None and ended.began:
                return ended, note
            note = f"session {name} had ended and was restarted: its directory, variables and jobs are gone"
        raise DeskError(f"session {name} does not start: bash ends or hangs before it runs the command")

    async def try_in(self, name: str, command: str, timeout: float) -> CommandOutcome | None:
        """Run a command in a session; return `None` if its shell had ended with the other programs of the desk."""
        existed = name in self.sessions
        if not existed:
            self.sessions[name] = await BashSession.start(self.desk, self.env)
        session = self.sessions[name]
        try:
            return await session.run(command, timeout)
        except DeskError:
            if not existed:
                raise
            return None
        finally:
            if session.killed:
                self.sessions.pop(name, None)

    async def restart(self, arguments: Arguments) -> Observation:
        name = self.parse_session(_RESTART, arguments)
        session = self.sessions.pop(name, None)
        if session is None:
            return Observation(f"Session {name} was not running; the next command starts it.")
        await session.kill()
        return Observation(f"Session {name} was killed with all its processes; the next command starts it again.")

    def parse_session(self, tool: Tool, arguments: Arguments) -> str:
        name = get_text(arguments, "session") or MAIN
        if not _SESSION_SHAPE.fullmatch(name):
            raise tool.refuse("session may only contain letters, digits, `.`, `_` and `-`")
        if name not in self.sessions and len(self.sessions) >= SESSIONS:
            raise tool.refuse(f"there are {SESSIONS} sessions already: {', '.join(self.sessions)}; use one of them")
        return name

    # -- programs that run once -------------------------------------------------------------------------------

    async def run(self, arguments: Arguments) -> Observation:
        argv, command = get_texts(arguments, "argv"), get_text(arguments, "command")
        if bool(argv) == bool(command):
            raise RUN.refuse("give either argv or command")
        timeout = get_number(arguments, "timeout", DEFAULT_TIMEOUT_S)
        cwd = get_text(arguments, "cwd")
        done = await self.desk.run(
            argv or ["bash", "-c", command],
            stdin=get_text(arguments, "stdin").encode(),
            env=self.env,
            cwd=make_absolute(self.desk, cwd) if cwd else None,
            timeout=timeout,
            output_limit=MAX_OUTPUT_BYTES,
        )
        output, errors = (
            BoundedOutput(data=bytearray(each), cut=done.truncated) for each in (done.stdout, done.stderr)
        )
        parts = [await self.outputs.shorten(output)]
        if errors.data:
            parts.append("standard error:\n" + await self.outputs.shorten(errors))
        parts.append(_tell_done(done, timeout))
        return Observation("\n".join(part.rstrip("\n") for part in parts if part), done.ok)


def _tell_ended(ended: CommandOutcome, timeout: float) -> str:
    if ended.lives:
        where = f"[exit code {ended.exit_code}, in {make_printable(ended.cwd)}]"
        if not ended.timed_out:
            return where
        return f"[the command timed out after {timeout:g} seconds and was interrupted; its session continues] {where}"
    if not ended.timed_out:
        code = "" if ended.exit_code is None else f" with exit code {ended.exit_code}"
        return f"[the shell itself ended{code}; the next command starts a new session in the home folder]"
    return (
        f"[the command timed out after {timeout:g} seconds, ignored the interrupt and was killed with its session; the "
        "next command starts a new session in the home folder]"
    )


def _tell_done(done: Done, timeout: float) -> str:
    how = f"exit code {done.exit_code}"
    if done.timed_out:
        how = f"killed: timed out after {timeout:g} seconds"
    elif done.reason:
        how += f": {make_printable(done.reason)}"
    if done.out_of_memory:
        how += "; the desk ran out of memory"
    if done.truncated:
        how += f"; its output exceeded {MAX_OUTPUT_BYTES >> 20} MiB and the rest was dropped"
    return f"[{how}]"
