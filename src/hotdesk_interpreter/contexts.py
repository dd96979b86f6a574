"""Contexts: each is a kernel of one language with its own state, which runs one piece of code at a time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hotdesk_interpreter.kernel import Event, InterpreterKernel, KernelDiedError
from hotdesk_interpreter.languages import PYTHON, Language, get_language
from hotdesk_interpreter.web import HttpError

KEEPALIVE_INTERVAL_S = 5.0
"""Seconds of silence after which a client gets a `keepalive` event."""
INTERRUPT_TIMEOUT_S = 10.0
"""Seconds for an interrupted kernel to stop before it is killed. A first traceback takes 2 on a busy machine."""
MAX_CONTEXTS = 64
"""Maximum concurrent contexts."""
DEFAULTS = ("python", "javascript")
"""Languages whose default context is always listed."""
AT_START = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "PATH", "HOME", "MALLOC_")
"""Prefixes of variables that only take effect when a process starts."""


@dataclass(slots=True)
class Context:
    id: str
    language: Language
    cwd: str
    kernel: InterpreterKernel | None = None
    count: int = 0
    """Pieces of code that its kernel has run."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def describe(self) -> dict[str, str]:
        return {"id": self.id, "language": self.language.name, "cwd": self.cwd}


class Contexts:
    """All contexts of a sandbox."""

    def __init__(self, env: Mapping[str, str], home: str) -> None:
        self.env, self.home = dict(env), home
        self.by_id: dict[str, Context] = {}
        self.spare: InterpreterKernel | None = None
        for name in DEFAULTS:
            self.get_default(name)

    def get_default(self, name: object) -> Context:
        language = get_language(name)
        return self.by_id.setdefault(language.name, Context(language.name, language, self.home))

    def get(self, name: object) -> Context:
        if not isinstance(name, str) or name not in self.by_id:
            raise HttpError(404, f"Context {str(name)[:64]} not found")
        return self.by_id[name]

    def make(self, language: Language, cwd: object) -> Context:
        folder = self.home if cwd is None else cwd
        if not isinstance(folder, str) or "\0" in folder or not (Path(self.home) / folder).is_dir():
            raise HttpError(400, f"cwd {str(folder)[:100]!r} is not a folder")
        if len(self.by_id) >= MAX_CONTEXTS:
            raise HttpError(429, f"the limit of {MAX_CONTEXTS} contexts is reached; remove a context first")
        context = Context(str(uuid.uuid4()), language, str(Path(self.home) / folder))
        self.by_id[context.id] = context
        return context

    async def remove(self, context: Context) -> None:
        self.by_id.pop(context.id, None)
        await self.stop(context)

    async def stop(self, context: Context) -> None:
        """End a context's kernel; the next code gets a new one."""
        kernel, context.kernel, context.count = context.kernel, None, 0
        if kernel is not None:
            kernel.kill()
            async with context.turn:
                await kernel.close()

    async def adopt(self, env: Mapping[str, str]) -> None:
        before, self.env = self.env, dict(env)
        changed = {key for key in {*before, *env} if before.get(key) != env.get(key)}
        if self.spare is not None and any(key.startswith(AT_START) for key in changed):
            await self.spare.close()
            self.spare = None

    def prepare(self) -> None:
        if self.spare is None or not self.spare.lives:
            with contextlib.suppress(OSError):  # the next code reports why no kernel can be started
                self.spare = InterpreterKernel(PYTHON.argv, self.env, self.home)

    async def wait_until_ready(self) -> None:
        if self.spare is None:
            return
        try:
            await self.spare.wait_until_ready()
        except KernelDiedError:
            raise HttpError(500, "the first kernel ended before it was ready") from None

    def get_kernel(self, context: Context) -> InterpreterKernel:
        if context.kernel is None or not context.kernel.lives:
            context.count = 0
            if context.language is PYTHON and self.spare is not None and self.spare.lives:
                context.kernel, self.spare = self.spare, None
                context.kernel.first = _encode_settle_request(self.env, context.cwd)
            else:
                context.kernel = self.start(context)
        return context.kernel

    def start(self, context: Context) -> InterpreterKernel:
        try:
            return InterpreterKernel(context.language.argv, self.env, context.cwd)
        except OSError as e:
            raise HttpError(500, f"{context.language.name} could not be started: {e}") from e

    def execute(self, context: Context, code: str, env: Mapping[str, str]) -> AsyncIterator[Event]:
        """Run code when its turn comes; return its events. Closing the iterator interrupts the code.

        Raises `HttpError` at once for code that its language cannot be given.
        """
        return self._execute(context, context.language.order(code, env))

    async def _execute(self, context: Context, order: bytes) -> AsyncIterator[Event]:
        async with context.turn:
            try:
                kernel = self.get_kernel(context)
            except HttpError as e:  # too late for a status: the response has begun
                yield {"type": "error", "name": "KernelNotStarted", "value": str(e), "traceback": str(e)}
            else:
                context.count += 1
                yield {"type": "number_of_executions", "execution_count": context.count}
                async with contextlib.aclosing(self._run(context, kernel, order)) as events:
                    async for event in events:
                        yield event
            yield {"type": "end_of_execution"}

    async def _run(self, context: Context, kernel: InterpreterKernel, order: bytes) -> AsyncGenerator[Event, None]:
        finished = False
        try:
            await kernel.begin(order)
            async for event in kernel.iterate_events(KEEPALIVE_INTERVAL_S):
                if event.get("type") != "end":
                    yield event
                    continue
                finished = True
                if failed := _make_exit_error(event):
                    yield failed
        except KernelDiedError:
            finished = True
            await self.drop(context, kernel)
            yield _describe_death(kernel)
        finally:
            if not finished:
                await self.interrupt(context, kernel)

    async def interrupt(self, context: Context, kernel: InterpreterKernel) -> None:
        """Interrupt the running code, unless it has ended; kill the kernel if it does not stop."""
        try:
            async with asyncio.timeout(INTERRUPT_TIMEOUT_S):
                if not kernel.has_reported_end():
                    kernel.interrupt(context.language.interruption)
                async for _ in kernel.iterate_events(INTERRUPT_TIMEOUT_S):
                    pass
        except (TimeoutError, KernelDiedError):
            await self.drop(context, kernel)

    async def drop(self, context: Context, kernel: InterpreterKernel) -> None:
        """End an unusable kernel; the next code gets a new one."""
        if context.kernel is kernel:
            context.kernel = None
        await kernel.close()


def _make_exit_error(event: Event) -> Event | None:
    status = event.get("status", 0)
    if not status:
        return None
    text = f"exit status {status}"
    return {"type": "error", "name": "ExitStatus", "value": str(status), "traceback": text}


def _encode_settle_request(env: Mapping[str, str], cwd: str) -> bytes:
    return b"0 " + json.dumps({"settle": dict(env), "cwd": cwd}).encode() + b"\n"


def _describe_death(kernel: InterpreterKernel) -> Event:
    code = kernel.process.returncode
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    text = f"The kernel ended {how}; its state is lost, and the next code starts a new kernel."
    return {"type": "error", "name": "KernelDied", "value": text, "traceback": text}
