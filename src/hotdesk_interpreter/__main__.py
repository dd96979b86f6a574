"""The server of the code interpreter."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from hotdesk_interpreter.contexts import Contexts
from hotdesk_interpreter.kernel import Event
from hotdesk_interpreter.languages import check_variables, get_language
from hotdesk_interpreter.web import MAX_HEAD_BYTES, HttpError, InterpreterRequest, InterpreterResponse, serve

PORT = 49999


class InterpreterServer:
    """Answers HTTP requests."""

    def __init__(self, contexts: Contexts) -> None:
        self.contexts = contexts

    async def respond(self, request: InterpreterRequest) -> InterpreterResponse:
        match request.method, request.path.strip("/").split("/"):
            case "GET", ["health"]:
                return InterpreterResponse("OK")
            case "GET", ["ready"]:
                await self.contexts.wait_until_ready()
                return InterpreterResponse("OK")
            case "POST", ["init"]:
                await self.contexts.adopt(_select_variables(request.parse_body().get("env")))
                self.contexts.prepare()
                return InterpreterResponse(None, 204)
            case "POST", ["execute"]:
                return InterpreterResponse(lines=_as_lines(self.execute(request.parse_body())))
            case "GET", ["contexts"]:
                return InterpreterResponse([each.describe() for each in self.contexts.by_id.values()])
            case "POST", ["contexts"]:
                body = request.parse_body()
                context = self.contexts.make(get_language(body.get("language") or "python"), body.get("cwd"))
                return InterpreterResponse(context.describe())
            case "DELETE", ["contexts", name]:
                await self.contexts.remove(self.contexts.get(name))
                return InterpreterResponse(None, 204)
            case "POST", ["contexts", name, "restart"]:
                await self.contexts.stop(self.contexts.get(name))
                return InterpreterResponse(None, 204)
        raise HttpError(404, "this path does not exist")

    def execute(self, body: dict[str, object]) -> AsyncIterator[Event]:
        code, name, language = body.get("code"), body.get("context_id"), body.get("language")
        if not isinstance(code, str):
            raise HttpError(400, "code must be a text")
        if name and language:
            raise HttpError(400, "Only one of context_id or language can be provided")
        context = self.contexts.get(name) if name else self.contexts.get_default(language or "python")
        return self.contexts.execute(context, code, check_variables(body.get("env_vars")))


def _select_variables(env: object) -> dict[str, str]:
    found = env.items() if isinstance(env, dict) else ()
    return {key: value for key, value in found if isinstance(value, str) and key and "\0" not in key + value}


async def _as_lines(events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
    try:
        async for event in events:
            yield json.dumps(event).encode() + b"\n"
    finally:
        await events.aclose()  # type: ignore[attr-defined]


async def main() -> None:
    home = os.environ.get("HOME", "/")
    contexts = Contexts(os.environ, home if Path(home).is_dir() else "/")
    server = InterpreterServer(contexts)
    listening = await asyncio.start_server(
        lambda reader, writer: serve(reader, writer, server.respond), "127.0.0.1", PORT, limit=MAX_HEAD_BYTES
    )
    print("ready", flush=True)
    quiet = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(quiet, fd)
    contexts.prepare()
    async with listening:
        await listening.serve_forever()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
