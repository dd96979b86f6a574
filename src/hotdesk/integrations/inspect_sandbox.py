"""Desks as sandboxes of `inspect_ai`: `sandbox="hotdesk"` in a task, or `--sandbox hotdesk`.

Each sample gets a desk of its own, which burns with it. Desks are opened in this process, so it runs as root.
"""

from __future__ import annotations

import posixpath
from typing import Any, Literal, overload

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from pydantic import BaseModel, ConfigDict

from hotdesk.desk.seam import Desk, Done, Spec
from hotdesk.door.policy.scope import scope_of
from hotdesk.errors import DeskGone
from hotdesk.host import Host

HOME = "/home/user"
_WRITE = """
[ -p "$1" ] && exit 29
mkdir -p -- "$(dirname -- "$1")" && cat > "$1"
"""
_READ = """
[ -d "$1" ] && exit 21
[ -e "$1" ] || exit 2
[ -f "$1" ] || exit 29
[ -r "$1" ] || exit 13
[ "$(stat -Lc %s -- "$1")" -le "$2" ] || exit 27
exec cat -- "$1"
"""
_DIRECTORY, _MISSING, _FORBIDDEN, _LARGE, _SPECIAL = 21, 2, 13, 27, 29
_FILE_TIMEOUT_S = 300.0
"""Seconds that reading or writing a file may take: a program can replace a file by a pipe at any moment."""
_CANNOT_EXECUTE = 126
_MARGIN = 1 << 20
_USERS = ("user", "root")


class HotdeskConfig(BaseModel):
    """The settings of a task's desks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str = "base"
    user: Literal["user", "root"] = "user"
    """As whom programs run unless the task says otherwise."""
    allow: tuple[str, ...] = ()
    """Hosts and presets that a desk may reach, as with `hotdesk run --allow`."""
    cpus: float = 2.0
    memory: int = 2 << 30
    wall: str = "container"
    lifetime: float = 6 * 3600.0
    """Seconds until a desk burns, whatever it is doing."""


@sandboxenv(name="hotdesk")
class HotdeskSandboxEnvironment(SandboxEnvironment):  # type: ignore[misc]
    """One desk."""

    host: Host | None = None
    """This process's machine, while a task runs."""
    tasks = 0

    def __init__(self, desk: Desk, config: HotdeskConfig) -> None:
        super().__init__()
        self.desk = desk
        self.config = config

    @classmethod
    async def task_init(cls, task_name: str, config: SandboxEnvironmentConfigType | None) -> None:
        if cls.host is None:
            cls.host = await Host(control=False).start()
        cls.tasks += 1

    @classmethod
    async def task_cleanup(cls, task_name: str, config: SandboxEnvironmentConfigType | None, cleanup: bool) -> None:
        """End the machine with the last task; what is left of its desks burns."""
        cls.tasks -= 1
        if cls.tasks <= 0 and cls.host is not None:
            host, cls.host = cls.host, None
            await host.close()

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        chosen = config if isinstance(config, HotdeskConfig) else HotdeskConfig()
        assert cls.host is not None, "sample_init was called before task_init"
        spec = Spec(
            image=chosen.image, cpus=chosen.cpus, memory=chosen.memory, root=True, wall=chosen.wall,
            deadline=chosen.lifetime, idle=chosen.lifetime, by="inspect_ai",
        )  # fmt: skip
        desk = await cls.host.open(spec, scope_of(chosen.allow, may_ask=False)) if chosen.allow else None
        return {"default": cls(desk or await cls.host.open(spec), chosen)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for each in environments.values():
            if isinstance(each, cls) and cls.host is not None:
                await cls.host.burn(each.desk.id)

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return HotdeskConfig.model_validate(config)

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a program; one that took too long was killed with everything it started, and is not tried again."""
        argv, who = self.become(cmd, user)
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        try:
            done = await self.desk.run(
                argv, stdin=input or b"", env=env or {}, cwd=posixpath.join(HOME, cwd or ""), user=who, timeout=timeout,
                output_limit=limit,
            )  # fmt: skip
        except DeskGone as e:
            raise ConnectionError(str(e)) from e
        if done.timed_out:
            raise TimeoutError(f"the command did not end within {timeout} s")
        if done.exit_code == _CANNOT_EXECUTE and done.reason:
            raise PermissionError(f"{cmd[0]}: {done.reason}")
        stdout, stderr = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
        if done.truncated:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, stdout or stderr)
        return ExecResult(done.exit_code == 0, done.exit_code, stdout, stderr or done.reason)

    def become(self, cmd: list[str], user: str | None) -> tuple[list[str], str]:
        """Return what runs a program as a user, and who starts it: root becomes others."""
        name = {"0": "root", "1000": "user"}.get(user or "", user or self.config.user)
        if name in _USERS:
            return cmd, name
        if name.startswith("-"):
            raise SandboxUserUnsupportedError(f"the user name {name!r} must not begin with `-`")
        return ["/usr/sbin/runuser", "-u", name, "--", *cmd], "root"

    async def write_file(self, file: str, contents: str | bytes) -> None:
        path = posixpath.join(HOME, file)
        data = contents.encode() if isinstance(contents, str) else contents
        done = await self.run_script(_WRITE, path, data=data)
        if done.exit_code == _SPECIAL:
            raise OSError(f"{file} is a pipe; only files can be written")
        if done.exit_code:
            self.fail(file, done.stderr.decode("utf-8", "replace"))

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        done = await self.run_script(_READ, posixpath.join(HOME, file), str(limit), limit=limit + _MARGIN)
        if done.truncated or len(done.stdout) > limit:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        match done.exit_code:
            case 0:
                return done.stdout.decode() if text else done.stdout
            case code if code == _DIRECTORY:
                raise IsADirectoryError(f"{file} is a directory")
            case code if code == _MISSING:
                raise FileNotFoundError(f"{file} does not exist")
            case code if code == _FORBIDDEN:
                raise PermissionError(f"{file} cannot be read: permission denied")
            case code if code == _LARGE:
                raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
            case code if code == _SPECIAL:
                raise OSError(f"{file} is not a regular file; only files can be read")
        raise OSError(f"{file} cannot be read: {done.stderr.decode('utf-8', 'replace')[:300]}")

    async def run_script(self, script: str, *arguments: str, data: bytes = b"", limit: int = _MARGIN) -> Done:
        argv = ["/bin/sh", "-c", script, "sh", *arguments]
        env = {"LC_ALL": "C"}
        try:
            done = await self.desk.run(
                argv, stdin=data, env=env, user=self.config.user, timeout=_FILE_TIMEOUT_S, output_limit=limit
            )
        except DeskGone as e:
            raise ConnectionError(str(e)) from e
        if done.timed_out:
            raise TimeoutError(f"{arguments[0]} was not read or written within {_FILE_TIMEOUT_S:.0f} s")
        return done

    def fail(self, file: str, stderr: str) -> None:
        if "Is a directory" in stderr:
            raise IsADirectoryError(f"{file} is a directory")
        if "Permission denied" in stderr:
            raise PermissionError(f"{file} cannot be written: permission denied")
        raise OSError(f"{file} cannot be written: {stderr[:300]}")
