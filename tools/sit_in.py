"""Sit in for a model: a provider on loopback whose replies a person writes by hand.

    python tools/sit_in.py serve --room ROOM [--port 8099]    answer requests of models from a folder, ROOM
    python tools/sit_in.py next --room ROOM [--wait 300]      print the next request without a reply, and its number
    python tools/sit_in.py say --room ROOM N reply.json       reply to request N; without a file, from standard input

It speaks Anthropic Messages, OpenAI Responses and OpenAI-compatible Chat Completions, all streamed, by the rules of
tests/providers: what a provider would refuse is refused with 400. `next` prints what a model would see and nothing
else: instructions and tools once, then what is new. Pictures are written to files.

A reply is one JSON object; every key but one of `text` and `calls` may be left out:

    {"think": "…", "text": "…", "calls": [{"name": "shell", "input": {"command": "ls"}}]}

Native computer tools, where the request declares one:

    Anthropic: {"calls": [{"name": "left_click", "toolset_name": "computer", "input": {"coordinate": [10, 20]}}]}
    OpenAI:    {"calls": [{"name": "computer", "input": {"actions": [{"type": "click", "x": 10, "y": 20}]}}]}
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from tests.providers import anthropic, chat, openai
from tests.providers.server import Provider, Refused
from tools.request_view import OWN, Picture, RequestView, ViewMessage, count_common, view_request

from hotdesk.errors import make_printable
from hotdesk.strict import StrictError, parse_json, read

Body: TypeAlias = dict[str, Any]
PATHS = {"/v1/messages": "anthropic", "/v1/responses": "openai", "/v1/chat/completions": "chat"}
POLL_INTERVAL_S = 0.1
KEEP_ALIVE_INTERVAL_S = 5.0
"""Clients give up on a stream without data after some minutes; a comment counts as data."""
MAX_OWN_CHARS = 300
"""Characters that `next` prints of each part of the model's own messages."""


class SitInError(Exception):
    """A command that cannot be carried out; the message says what, why, and what to do."""


@dataclass(frozen=True, slots=True)
class HandCall:
    """A tool call."""

    name: str
    input: dict[str, Any] = field(default_factory=dict)
    toolset_name: str = ""
    """`computer` for a member of Anthropic's native toolset."""


@dataclass(frozen=True, slots=True)
class HandReply:
    """A reply written by hand."""

    text: str = ""
    think: str = ""
    """The thought; sent only if the request asks for thinking."""
    calls: tuple[HandCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Room:
    """A folder of requests and replies: `0001.request.json`, `0001.reply.json`, `0001.abandoned` if its client left."""

    folder: Path

    def file(self, number: int, kind: str) -> Path:
        return self.folder / f"{number:04}.{kind}"

    def numbers(self) -> list[int]:
        return sorted(int(path.name.partition(".")[0]) for path in self.folder.glob("[0-9]*.request.json"))

    def add(self, protocol: str, body: Body) -> int:
        """Store a request; return its number."""
        number = max(self.numbers(), default=0) + 1
        write_whole(self.file(number, "request.json"), json.dumps({"protocol": protocol, "body": body}))
        return number

    def read(self, number: int) -> Body:
        """Read a request: its `protocol` and `body`."""
        request: Body = json.loads(self.file(number, "request.json").read_text())
        return request

    def view(self, number: int) -> RequestView:
        """Return the content of a request as a model sees it."""
        return view_request(**self.read(number))

    def find_waiting(self) -> int | None:
        """Return the first request whose client still waits for a reply."""
        return next((number for number in self.numbers() if self.is_waiting(number)), None)

    def is_waiting(self, number: int) -> bool:
        """Return whether a request has no reply, and a client that still waits for one."""
        return not self.file(number, "reply.json").exists() and not self.file(number, "abandoned").exists()

    def reply(self, number: int, data: bytes) -> None:
        """Reply to a request; raise `SitInError` if the reply is malformed or no client waits for it."""
        if number not in self.numbers():
            raise SitInError(f"There is no request {number}. `next` prints the one to reply to.")
        if not self.is_waiting(number):
            raise SitInError(f"Nobody waits for a reply to request {number}. `next` prints the one to reply to.")
        request = self.read(number)
        check_native(request["protocol"], request["body"], parse_reply(data))
        write_whole(self.file(number, "reply.json"), data.decode())

    def find_reply(self, number: int) -> HandReply | None:
        """Return the reply to a request, or None."""
        file = self.file(number, "reply.json")
        return parse_reply(file.read_bytes()) if file.exists() else None


def parse_reply(data: bytes) -> HandReply:
    """Parse a reply strictly."""
    try:
        reply = read(HandReply, parse_json(data))
    except StrictError as e:
        raise SitInError(f"The reply is malformed: {e}. `--help` shows what a reply looks like.") from None
    if not reply.text.strip() and not reply.calls:
        raise SitInError("The reply is empty. Write `text`, `calls` or both.")
    return reply


def check_native(protocol: str, body: Body, reply: HandReply) -> None:
    """Refuse calls of a native computer tool that this request's model could not make."""
    types = {str(tool.get("type")) for tool in body.get("tools", ())}
    for call in reply.calls:
        if call.toolset_name and (
            protocol != "anthropic" or not any(each.startswith("computer_toolset") for each in types)
        ):
            raise SitInError(f"{call.name}: this request declares no native toolset. Leave `toolset_name` out.")
        if call.toolset_name and call.name not in anthropic.MEMBERS:
            raise SitInError(f"{call.name} is no member of the toolset. Members: {', '.join(anthropic.MEMBERS)}.")
        if is_native_computer(types, call) and not isinstance(call.input.get("actions"), list):
            raise SitInError("computer: `input` needs `actions`, a list of objects with a `type` each.")


def is_native_computer(types: set[str], call: HandCall) -> bool:
    """Return whether a call is of OpenAI's native computer tool."""
    return "computer" in types and call.name == "computer"


def write_whole(file: Path, text: str) -> None:
    """Write a file atomically."""
    part = file.with_suffix(".part")
    part.write_text(text)
    part.rename(file)


# -- serve ------------------------------------------------------------------------------------------------------------


class ClientGone(Exception):  # noqa: N818 - a state, not an error of ours
    """The client disconnected before a reply was written."""


class ReplyHandler(BaseHTTPRequestHandler):
    """Stores a request, waits for its reply, and streams that as its provider would."""

    protocol_version = "HTTP/1.1"
    room: Room
    providers: dict[str, Provider]
    lock: threading.Lock
    current: threading.local
    """`handler`: the handler of the request that the thread answers."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        protocol = PATHS.get(self.path)
        if protocol is None:
            self.refuse(self.providers["chat"], 404, f"There is no {self.path}. Paths: {', '.join(PATHS)}.")
            return
        provider = self.providers[protocol]
        self.current.handler = self
        try:
            if body.get("stream") is not True:
                raise Refused("stream: must be true: replies are streamed here")
            headers = {name.lower(): value for name, value in self.headers.items()}
            for name, data in provider.answer(self.path, headers, body):
                text = data if isinstance(data, str) else json.dumps(data)
                self.send_chunk((f"event: {name}\n" if name else "") + f"data: {text}\n\n")
            self.wfile.write(b"0\r\n\r\n")
        except Refused as e:
            self.refuse(provider, 400, str(e))
        except (ClientGone, OSError):
            self.close_connection = True

    def wait_for_reply(self, protocol: str, body: Body) -> HandReply:
        """Store a request, begin the stream, and wait for the reply."""
        with self.lock:
            number = self.room.add(protocol, body)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        comment_at = time.monotonic()
        while (reply := self.room.find_reply(number)) is None:
            try:
                if is_closed(self.connection, POLL_INTERVAL_S):
                    raise ClientGone
                if time.monotonic() > comment_at:
                    self.send_chunk(": waiting for a reply\n\n")
                    comment_at = time.monotonic() + KEEP_ALIVE_INTERVAL_S
            except (ClientGone, OSError):
                self.room.file(number, "abandoned").touch()
                raise
        return reply

    def send_chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def refuse(self, provider: Provider, status: int, why: str) -> None:
        """Answer with an error, in the provider's form."""
        print(f"{self.path}: {status}: {make_printable(why)}", file=sys.stderr, flush=True)
        data = json.dumps(provider.error(status, why)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


class ReplyServer(ThreadingHTTPServer):
    """Answers each client on a separate thread."""

    daemon_threads = True


def is_closed(connection: socket.socket, seconds: float) -> bool:
    """Wait for a moment; return whether the other side disconnected meanwhile."""
    readable, _, _ = select.select([connection], [], [], seconds)
    return bool(readable) and connection.recv(1, socket.MSG_PEEK) == b""


@contextmanager
def open_server(room: Room, port: int = 0) -> Iterator[ReplyServer]:
    """Open a server that answers from a room; on a free port unless one is given."""
    room.folder.mkdir(parents=True, exist_ok=True)
    current = threading.local()

    def ask(protocol: str, body: Body) -> list[Body]:
        reply = current.handler.wait_for_reply(protocol, body)
        return WRITERS[protocol](body, reply)

    providers: dict[str, Provider] = {
        "anthropic": anthropic.Anthropic(lambda body: ask("anthropic", body), ""),
        "openai": openai.OpenAI(lambda body: ask("openai", body), "/v1"),
        "chat": chat.Chat(lambda body: ask("chat", body), "/v1"),
    }
    for provider in providers.values():
        provider.counts_output = True
    shared = {"room": room, "providers": providers, "lock": threading.Lock(), "current": current}
    with ReplyServer(("127.0.0.1", port), type("RoomHandler", (ReplyHandler,), shared)) as server:
        yield server


def write_anthropic(body: Body, reply: HandReply) -> list[Body]:
    """Return a reply as blocks."""
    is_thinking = (body.get("thinking") or {}).get("type") in ("adaptive", "enabled")
    blocks = [anthropic.thinking(reply.think)] if reply.think and is_thinking else []
    blocks += [anthropic.text(reply.text)] if reply.text else []
    for call in reply.calls:
        member = {"toolset_name": call.toolset_name} if call.toolset_name else {}
        blocks.append({"type": "tool_use", "name": call.name, "input": call.input, **member})
    return blocks


def write_responses(body: Body, reply: HandReply) -> list[Body]:
    """Return a reply as items."""
    items = [openai.thinking(reply.think)] if reply.think and body.get("reasoning") else []
    items += [openai.text(reply.text)] if reply.text else []
    types = {str(tool.get("type")) for tool in body.get("tools", ())}
    for call in reply.calls:
        is_native = is_native_computer(types, call)
        use = {"type": "function_call", "name": call.name, "arguments": json.dumps(call.input)}
        items.append(openai.computer(*call.input["actions"]) if is_native else use)
    return items


def write_chat(body: Body, reply: HandReply) -> list[Body]:
    """Return a reply as chunks of a message."""
    pieces = [chat.thinking(reply.think)] if reply.think else []
    pieces += [chat.text(reply.text)] if reply.text else []
    return [*pieces, *({"name": call.name, "arguments": json.dumps(call.input)} for call in reply.calls)]


WRITERS = {"anthropic": write_anthropic, "openai": write_responses, "chat": write_chat}


def serve(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    with open_server(Room(arguments.room), arguments.port) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        print(f"Anthropic Messages: ANTHROPIC_BASE_URL={address} ANTHROPIC_API_KEY=any --model anthropic:MODEL")
        print(f"OpenAI Responses: OPENAI_BASE_URL={address}/v1 OPENAI_API_KEY=any --model openai:MODEL")
        print(f"Chat Completions: --model chat:MODEL@{address}/v1", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


# -- next, say --------------------------------------------------------------------------------------------------------


def print_next(arguments: argparse.Namespace) -> int:
    """Print the next request without a reply; return 1 where none comes in time."""
    room = Room(arguments.room)
    end = time.monotonic() + arguments.wait
    while (number := room.find_waiting()) is None:
        if time.monotonic() >= end:
            print(f"No request came within {arguments.wait:g} s.")
            return 1
        time.sleep(POLL_INTERVAL_S)
    print(*describe(room, number, whole=arguments.whole), sep="\n")
    return 0


def describe(room: Room, number: int, whole: bool = False) -> Iterator[str]:
    """Describe a request as a model sees it, without the parts that an earlier request of the same conversation has."""
    view = room.view(number)
    earlier = {other: room.view(other) for other in room.numbers() if other < number}
    common, last = max(((count_common(view, other), n) for n, other in earlier.items()), default=(0, 0))
    yield f"=== request {number} for {view.model}: {len(view.messages)} messages, {common} of them seen before"
    yield f"=== a reply may have {view.max_tokens} tokens"
    if common and common < len(earlier[last].messages):
        yield f"=== note: message {common + 1} is not what it was in request {last}"
    if not common:
        yield "=== instructions"
        yield escape(view.system)
    if not common or view.tools != earlier[last].tools:
        yield "=== tools"
        yield from map(escape, view.tools)
    for message in view.messages[common:]:
        yield f"=== {message.role}"
        yield from describe_message(message, room, whole)


def describe_message(message: ViewMessage, room: Room, whole: bool) -> Iterator[str]:
    """Describe a message; a picture by its file, the model's own text in short."""
    for part in message.parts:
        if isinstance(part, Picture):
            yield f"[picture: {save_picture(part, room)}]"
        elif message.role == OWN and not whole and len(part) > MAX_OWN_CHARS:
            yield f"{escape(part[:MAX_OWN_CHARS])}… ({len(part):,} characters; --whole prints them)"
        else:
            yield escape(part)


def save_picture(picture: Picture, room: Room) -> Path:
    """Write a picture to a file named by its content."""
    suffix = picture.suffix if picture.suffix.isalnum() else "bin"
    file = room.folder / f"picture-{sha256(picture.data).hexdigest()[:12]}.{suffix}"
    file.write_bytes(picture.data)
    return file


def escape(text: str) -> str:
    """Escape control characters in a text for a terminal, except newlines and tabs."""
    return "\n".join("\t".join(map(make_printable, line.split("\t"))) for line in text.split("\n"))


def say(arguments: argparse.Namespace) -> int:
    """Reply to a request with a file, or with what standard input holds."""
    data = arguments.file.read_bytes() if arguments.file else sys.stdin.buffer.read()
    Room(arguments.room).reply(arguments.number, data)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, command in (("serve", serve), ("next", print_next), ("say", say)):
        each = commands.add_parser(name, help=command.__doc__)
        each.add_argument("--room", type=Path, required=True, help="the folder of requests and replies")
        each.set_defaults(command=command)
        match name:
            case "serve":
                each.add_argument("--port", type=int, default=8099)
            case "next":
                each.add_argument("--wait", type=float, default=300, metavar="SECONDS")
                each.add_argument("--whole", action="store_true", help="print long messages of the model itself, too")
            case "say":
                each.add_argument("number", type=int, metavar="N")
                each.add_argument("file", type=Path, nargs="?", metavar="FILE", help="(standard input)")
    arguments = parser.parse_args(argv)
    try:
        result: int = arguments.command(arguments)
    except SitInError as e:
        print(e, file=sys.stderr)
        return 2
    return result


if __name__ == "__main__":
    sys.exit(main())
