"""Steps of a build, carried out in a desk. The desk is hostile: its output and its time are limited."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path

import anyio

from hotdesk.api.e2b.builds.build_log import BuildLog, LineSplitter, clean_line
from hotdesk.api.e2b.builds.plan import NumberedStep, get_home, join_path
from hotdesk.api.e2b.builds.records import BuildContext
from hotdesk.config import GIB
from hotdesk.dataclass import dataclass
from hotdesk.desk.owner.runtime import READY
from hotdesk.desk.seam import Desk, Done, Process

_PROGRAMS = files("hotdesk.api.e2b.builds")
_UNPACK = _PROGRAMS.joinpath("unpack_program.py").read_bytes()
_START = _PROGRAMS.joinpath("start_program.py").read_text()
START_DIGEST = hashlib.sha256(_START.encode()).hexdigest()
"""Changes with the version of the start program."""
_BEGIN = "import sys; exec(sys.stdin.buffer.read(int(sys.stdin.buffer.read(8))))"
_BECOME = """
import os, pwd, sys
name, folder, command = sys.argv[1:]
user = pwd.getpwnam(name)
os.initgroups(name, user.pw_gid); os.setgid(user.pw_gid); os.setuid(user.pw_uid)
os.environ.update(HOME=user.pw_dir, USER=name, LOGNAME=name)
os.chdir(folder or user.pw_dir)
os.execv('/bin/bash', ['/bin/bash', '-l', '-c', command])
"""
_FIND_USER = "import pwd, sys; print(pwd.getpwnam(sys.argv[1]).pw_uid)"
_MAKE_FOLDER = """
import os, pwd, sys
path, name = sys.argv[1:]
missing = []
while not os.path.isdir(path):
    missing.append(path); path = os.path.dirname(path)
user = pwd.getpwnam(name)
for each in reversed(missing):
    os.mkdir(each, 0o755); os.lchown(each, user.pw_uid, user.pw_gid)
"""
_USER_SHAPE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
MAX_COPY_ENTRIES = 200_000
MAX_COPY_BYTES = 16 * GIB
"""Bytes to which one archive may unpack; the disk of the desk is a limit as well."""
READY_TIMEOUT_S = 50
"""Seconds until a template's start command must be ready, whenever a sandbox begins."""
_CHUNK = 256 << 10
_ACT_TIMEOUT_S = 60.0


class StepError(Exception):
    """A step failed; the message is for the template's author."""

    def __init__(self, step: str, message: str) -> None:
        super().__init__(clean_line(message))
        self.step = step
        """`base`, `finalize`, or the number of the step."""


@dataclass(frozen=True, slots=True)
class BuildDesk:
    """A desk in which steps run."""

    desk: Desk
    python: str
    log: BuildLog

    async def carry_out(self, numbered: NumberedStep, archive: Path | None) -> None:
        """Carry out a step; `archive` has the files of a COPY step."""
        step, context = numbered.step, numbered.context
        number = str(numbered.number)
        match step.type:
            case "RUN":
                user = step.get_argument(1) or context.user
                await self.run(number, step.args[0], user, context)
            case "COPY" if archive is not None:
                await self.copy(number, numbered, archive)
            case "USER":
                await self.add_user(number, step.args[0])
            case "WORKDIR":
                await self.require_user(number, context.user, f"mkdir -p {context.workdir}")
                await self.make_folder(number, context.workdir, context.user)

    async def run(self, number: str, command: str, user: str, context: BuildContext) -> None:
        """Run a command as a user, in a login shell; its output goes to the log as it comes."""
        await self.require_user(number, user, command)
        if user in ("user", "root"):
            argv = ["/bin/bash", "-l", "-c", command]
            folder: str | None = context.workdir or get_home(user)
        else:
            argv = [self.python, "-I", "-S", "-c", _BECOME, user, context.workdir, command]
            folder = "/"
        runs_as = "user" if user == "user" else "root"
        process = await self.desk.start(argv, env=dict(context.env), cwd=folder, user=runs_as, stdin=False)
        done = await self.follow(process, number)
        if done.exit_code:
            raise StepError(number, f"failed to run command '{command[:500]}': {describe(done)}")

    async def require_user(self, number: str, user: str, command: str) -> None:
        """Refuse a user that the image does not have, with the message that E2B's programs know."""
        if user in ("user", "root"):
            return
        message = (
            f"failed to run command '{command[:200]}': command failed: unauthenticated: invalid username: '{user}'"
        )
        if not _USER_SHAPE.fullmatch(user):
            raise StepError(number, message)
        if not await self.has_user(user):
            raise StepError(number, message)

    async def has_user(self, user: str) -> bool:
        argv = [self.python, "-I", "-S", "-c", _FIND_USER, user]
        return (await self.desk.run(argv, timeout=_ACT_TIMEOUT_S, output_limit=1000)).ok

    async def add_user(self, number: str, user: str) -> None:
        """Add a user if it is missing, with a user id below 1000: above, a desk has only twelve."""
        if user in ("user", "root"):
            return
        if not _USER_SHAPE.fullmatch(user):
            raise StepError(
                number,
                f"'{user[:100]}' is not a valid user name; use up to 32 letters, digits and . _ -, with a letter "
                "or _ first",
            )
        if await self.has_user(user):
            return
        argv = ["useradd", "--system", "--user-group", "--create-home", "--shell", "/bin/bash", "--", user]
        done = await self.desk.run(argv, user="root", timeout=_ACT_TIMEOUT_S, output_limit=4000)
        if not done.ok:
            raise StepError(number, f"user '{user}' could not be added: {extract_last_line(done)}")

    async def make_folder(self, number: str, path: str, user: str) -> None:
        argv = [self.python, "-I", "-S", "-c", _MAKE_FOLDER, path, user]
        done = await self.desk.run(argv, user="root", timeout=_ACT_TIMEOUT_S, output_limit=4000)
        if not done.ok:
            raise StepError(number, f"the folder '{path[:200]}' could not be created: {extract_last_line(done)}")

    async def copy(self, number: str, numbered: NumberedStep, archive: Path) -> None:
        step, context = numbered.step, numbered.context
        owner = step.get_argument(2) or context.user
        order = {
            "source": step.args[0],
            "target": resolve_target(context, step.args[1]),
            "owner": owner,
            "mode": _check_mode(number, step.get_argument(3)),
            "entries": MAX_COPY_ENTRIES,
            "size": MAX_COPY_BYTES,
        }
        argv = [self.python, "-I", "-S", "-c", _BEGIN]
        process = await self.desk.start(argv, cwd="/", user="root")
        try:
            await process.send(f"{len(_UNPACK):8d}".encode() + _UNPACK + json.dumps(order).encode() + b"\n")
            async for chunk in read_chunks(archive):
                await process.send(chunk)
            await process.close_stdin()
            lines = [line async for line in self.iterate_lines(process)]
            done = await process.wait()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await process.kill()
            raise
        if done.exit_code:
            why = lines[-1] if lines else describe(done)
            raise StepError(number, f"failed to copy '{step.args[0][:200]}' to '{step.args[1][:200]}': {why}")

    async def install_start(self, context: BuildContext) -> None:
        order = json.dumps({
            "start": context.start, "ready": context.ready, "user": context.user, "workdir": context.workdir,
            "env": dict(context.env), "seconds": READY_TIMEOUT_S,
        })  # fmt: skip
        source = f"#!{self.python} -I\n" + _START.replace('json.loads("{}")', f"json.loads({order!r})", 1)
        script = f"mkdir -p {READY.rpartition('/')[0]} && rm -f {READY} && cat > {READY} && chmod 755 {READY}"
        done = await self.desk.run(["/bin/sh", "-c", script], stdin=source, user="root", timeout=_ACT_TIMEOUT_S)
        if not done.ok:
            raise StepError("finalize", f"the start command could not be installed: {extract_last_line(done)}")

    async def try_start(self) -> None:
        """Run the template's start command, as a sandbox will, and wait until it is ready."""
        process = await self.desk.start([READY, "build"], stdin=False, timeout=READY_TIMEOUT_S + 30.0)
        done = await self.follow(process, "finalize")
        if done.exit_code:
            lines = self.log.get_tail("finalize")
            reason = str(lines[-1]["message"]).rpartition("]: ")[2] if lines else describe(done)
            raise StepError("finalize", f"the template did not start: {reason}")

    async def follow(self, process: Process, number: str) -> Done:
        """Write a program's output to the log until it ends."""
        try:
            if process.pid:
                splitters = {"stdout": LineSplitter(), "stderr": LineSplitter()}
                async for stream, data in process.output():
                    for line in splitters[stream].feed(data):
                        self.log.write(f"[{number}] [{stream}]: {line}", step=number)
                for name, splitter in splitters.items():
                    for line in splitter.finish():
                        self.log.write(f"[{number}] [{name}]: {line}", step=number)
            return await process.wait()
        except BaseException:
            with anyio.move_on_after(5, shield=True):
                await process.kill()
            raise

    async def iterate_lines(self, process: Process) -> AsyncIterator[str]:
        splitter = LineSplitter()
        async for _, data in process.output():
            for line in splitter.feed(data):
                yield line
        for line in splitter.finish():
            yield line


def resolve_target(context: BuildContext, target: str) -> str:
    """Return the absolute path where files go; a slash at its end marks a folder."""
    path = join_path(context.workdir or get_home(context.user), target)
    return path + "/" if target.endswith("/") and path != "/" else path


def _check_mode(number: str, mode: str) -> str:
    """Return the mode of copied files; empty: their own modes."""
    if mode and not re.fullmatch(r"0{0,2}[0-7]{3,4}", mode):
        raise StepError(number, f"'{mode[:20]}' is not a file mode; use octal digits, such as 0644")
    return mode


async def read_chunks(path: Path) -> AsyncIterator[bytes]:
    async with await anyio.open_file(path, "rb") as file:
        while data := await file.read(_CHUNK):
            yield data


def describe(done: Done) -> str:
    if done.reason:
        return done.reason
    if done.out_of_memory:
        return f"exit status {done.exit_code}; the desk ran out of memory"
    if done.timed_out:
        return "time limit exceeded"
    return f"signal {done.signal}" if done.signal else f"exit status {done.exit_code}"


def extract_last_line(done: Done) -> str:
    lines = [line for line in (done.stderr + b"\n" + done.stdout).decode("utf-8", "replace").splitlines() if line]
    return lines[-1][:300] if lines else describe(done)
