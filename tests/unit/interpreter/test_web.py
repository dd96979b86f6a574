"""Tests of the interpreter's HTTP server: what it reads, what it refuses."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from hotdesk_interpreter.__main__ import InterpreterServer
from hotdesk_interpreter.contexts import Contexts
from hotdesk_interpreter.languages import as_script, check_variables, get_language
from hotdesk_interpreter.web import MAX_BODY_BYTES, MAX_HEAD_BYTES, HttpError, InterpreterRequest, read_request, serve


def read(data: bytes) -> InterpreterRequest | None:
    async def work() -> InterpreterRequest | None:
        reader = asyncio.StreamReader(limit=MAX_HEAD_BYTES)
        reader.feed_data(data)
        reader.feed_eof()
        return await read_request(reader)

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("data", "body"),
    [
        pytest.param(b"POST /x?y HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", b"{}", id="length"),
        pytest.param(
            b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;a\r\n{}\r\n0\r\n\r\n", b"{}", id="parts"
        ),
        pytest.param(b"POST /x HTTP/1.1\r\n\r\n", b"", id="none"),
    ],
)
def test_a_request_is_read(data: bytes, body: bytes) -> None:
    assert read(data) == InterpreterRequest("POST", "/x", body, lasting=True)


def test_the_end_is_no_request() -> None:
    assert read(b"") is None


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(b"nonsense\r\n\r\n", 400, id="nonsense"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400, id="length"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 413, id="negative"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1), 413, id="long"),
        pytest.param(b"GET / HTTP/1.1\r\nA: " + b"a" * (MAX_HEAD_BYTES + 1) + b"\r\n\r\n", 431, id="head"),
    ],
)
def test_an_invalid_request_is_refused(data: bytes, status: int) -> None:
    with pytest.raises(HttpError) as refused:
        read(data)
    assert refused.value.status == status


@pytest.mark.parametrize("body", [b"[]", b"{", b"\xff", b"[" * 100_000], ids=["list", "half", "bytes", "deep"])
def test_a_body_that_is_not_an_object_is_refused(body: bytes) -> None:
    with pytest.raises(HttpError):
        InterpreterRequest("POST", "/", body, lasting=True).parse_body()


@pytest.mark.parametrize("name", ["ruby", 3, None])
def test_a_language_that_is_not_offered_is_refused(name: object) -> None:
    with pytest.raises(HttpError):
        get_language(name)


@pytest.mark.parametrize("told", [[], {"a b": "x"}, {"A": 1}, {"A": "\0"}, {"": "x"}])
def test_an_invalid_variable_is_refused(told: object) -> None:
    with pytest.raises(HttpError):
        check_variables(told)


@pytest.mark.parametrize("value", ["it's", 'a "b" $(c) `d`', "two\nlines", ""])
def test_a_variable_reaches_a_script_as_it_is(value: str) -> None:
    before, code, after, rest = as_script('printf %s "$V"', {"V": value}).decode().split("\0")
    assert rest == ""
    script = f'V=was\n{before}\n{code}\n{after}\nprintf "|%s" "$V"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"{value}|was"


async def exchange(home: Path, *bodies: dict[str, object]) -> list[bytes]:
    """Send requests to a server with real kernels, each on a connection of its own; return the whole responses."""
    contexts = Contexts(os.environ, str(home))
    server = InterpreterServer(contexts)
    answers = []
    try:
        async with await asyncio.start_server(
            lambda reader, writer: serve(reader, writer, server.respond), "127.0.0.1", 0
        ) as listening:
            for body in bodies:
                data = json.dumps(body).encode()
                reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname()[:2])
                head = f"POST /execute HTTP/1.1\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
                writer.write(head.encode() + data)
                answers.append(await asyncio.wait_for(reader.read(), 30))
                writer.close()
    finally:
        for context in list(contexts.by_id.values()):
            await contexts.stop(context)
    return answers


def test_a_script_with_nul_is_refused_and_its_context_stays(tmp_path: Path) -> None:
    bodies: list[dict[str, object]] = [
        {"code": code, "language": "bash"} for code in ("kept=state", "echo a\0b", 'echo "$kept"')
    ]
    answers = asyncio.run(exchange(tmp_path, *bodies))
    assert [each.split(b" ", 2)[1] for each in answers] == [b"200", b"400", b"200"]
    assert b"NUL" in answers[1]
    assert b'"text": "state\\n"' in answers[2]


def test_a_context_whose_folder_was_deleted_answers_with_an_error_event(tmp_path: Path) -> None:
    home = tmp_path / "home"

    async def work() -> list[bytes]:
        home.mkdir()
        asyncio.get_running_loop().call_soon(home.rmdir)
        return await exchange(home, {"code": "echo x", "language": "bash"})

    (answer,) = asyncio.run(work())
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"type": "error"' in answer
    assert answer.endswith(b"0\r\n\r\n")
