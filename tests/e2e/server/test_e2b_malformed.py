"""Tests of malformed requests to envd: the caller is told what is wrong with them, and the server does not fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from e2b import Sandbox

from hotdesk.api.e2b.envd import filesystem, process
from tests.e2e.server.conftest import Served
from tests.e2e.server.envd_raw import FILESYSTEM, PROCESS, Envd, envd, envelope

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]

STREAMS = ("Start", "Connect", "StreamInput", "WatchDir")
METHODS = [
    *(f"{PROCESS}/{name}" for name in process.METHODS),
    *(f"{FILESYSTEM}/{name}" for name in filesystem.METHODS),
]
ODD: dict[str, object] = {
    "nothing": b"",
    "no JSON": b"\xff\xfe{",
    "no object": [1],
    "deep": b'{"process":' * 50_000,
    "empty": {},
    "other kinds": {"process": [], "path": {}, "watcherId": 1, "source": True, "pty": "x", "input": 5},
    "nulls": {"process": None, "path": None, "watcherId": None, "source": None, "destination": None},
    "zero bytes": {"process": {"cmd": "a\0", "args": ["\0"]}, "path": "\0", "watcherId": "\0", "source": "\0"},
    "half letters": {"process": {"cmd": "\ud800", "tag": "\udcff"}, "path": "/\ud800", "source": "/\udfff"},
    "huge numbers": {"process": {"pid": 10**4000, "cmd": "x"}, "path": "/tmp", "depth": 10**4000},
    "huge sizes": {"process": {"pid": 1}, "pty": {"size": {"rows": 10**4000, "cols": -1}}},
    "long texts": {"process": {"cmd": "/bin/true", "args": ["a" * 200_000]}, "path": "/" + "a" * 4000},
    "long names": {"path": "a" * 300, "source": "a" * 300, "destination": "b" * 300, "watcherId": "c" * 5000},
    "no program": {"process": {"cmd": "/nowhere", "pid": 99}, "path": "/nowhere", "source": "/nowhere"},
    "odd variables": {"process": {"cmd": "/bin/true", "envs": {"": "x", "A=B": "c", "\ud800": "\udfff"}}},
    "a half folder": {"process": {"cmd": "/bin/true", "cwd": "/\ud800"}, "path": "/proc/self/mem"},
    "devices": {"path": "/dev/null", "source": "/proc", "destination": "/sys/x"},
}  # fmt: skip


@pytest.fixture(scope="module")
def raw(server: Served) -> Iterator[Envd]:
    """Yield envd of a sandbox that all tests here share; at the end the server must have logged no error."""
    made = Sandbox.create(timeout=3600, **server.e2b)
    with envd(server, made) as found:
        yield found
        assert found.client.get("/health").status_code == 204
    made.kill()
    log = server.log.read_text()
    assert "Traceback" not in log
    assert "Error at" not in log, log


def refused(method: str, code: str) -> bool:
    return code in ("invalid_argument", "not_found", "permission_denied", "already_exists", "resource_exhausted")


@pytest.mark.parametrize("odd", list(ODD))
@pytest.mark.parametrize("method", METHODS)
def test_an_odd_message_is_the_callers_error(raw: Envd, method: str, odd: str) -> None:
    value = ODD[odd]
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    if not method.endswith(STREAMS):
        answer = raw.unary(method, body)
        assert answer.status_code < 500, answer.text
        return
    with raw.stream(method, envelope(body), Connect_Timeout_Ms="300") as told:
        *_, last = told
    code: str = last.get("error", {}).get("code", "")
    assert code in ("", "deadline_exceeded") or refused(method, code), last


@pytest.mark.parametrize("method", [one for one in METHODS if one.endswith(STREAMS)])
@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\1\0\0\0\2{}", b"\0\xff\xff\xff\xff", b"\0\0\0\0\x09{}", b"GET / HTTP/1.1"]
)
def test_bytes_that_are_not_envelopes_are_the_callers_error(raw: Envd, method: str, data: bytes) -> None:
    with raw.stream(method, data) as told:
        *_, last = told
    assert data == b"" or refused(method, last["error"]["code"]), last


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/json", "multipart/form-data", "multipart/form-data; boundary=\"",
     "multipart/form-data; boundary=e", "application/octet-stream", "application/octet-stream; x"],
)  # fmt: skip
@pytest.mark.parametrize("body", [b"", b"--e", b"--e\r\n\r\n", b"--e\r\nA: b\r\n\r\nx\r\n--e--", b"--e\r\n\xff\0"])
@pytest.mark.parametrize("coding", ["identity", "gzip", "br"])
def test_an_odd_upload_is_the_callers_error(raw: Envd, kind: str, body: bytes, coding: str) -> None:
    lines = {"Content-Type": kind, "Content-Encoding": coding}
    answer = raw.client.post("/files", params={"path": "odd"}, content=body, headers=lines)
    assert answer.status_code in (200, 400), answer.text


PATHS = [
    "",
    "/",
    "/dev/zero",
    "/proc/1/mem",
    "/proc/self/exe",
    "/nowhere/x",
    "a\0b",
    "a" * 300,
    "b" * 5000,
    "/etc/passwd/x",
]


@pytest.mark.parametrize("path", PATHS, ids=[str(place) for place in range(len(PATHS))])
@pytest.mark.parametrize(
    "more",
    [{}, {"username": "nobody-here"}, {"username": "\ud800"}, {"path": "\udfff"}],
    ids=["", "nobody", "half a name", "half a path"],
)
def test_an_odd_path_is_the_callers_error(raw: Envd, path: str, more: dict[str, str]) -> None:
    asked: dict[str, Any] = {"path": path, **more}
    query = "&".join(f"{key}={quoted(value)}" for key, value in asked.items())
    for answer in (
        raw.client.get(f"/files?{query}"),
        raw.client.post(f"/files?{query}", content=b"x", headers={"Content-Type": "application/octet-stream"}),
        raw.client.request("PUT", f"/files?{query}"),
    ):
        assert answer.status_code < 500, answer.text


def quoted(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("path", ["/nowhere", "/process.Process", "/process.Process/", "/process.Process/start", "//"])
def test_unsupported_calls_are_reported_as_such(raw: Envd, path: str) -> None:
    answer = raw.client.post(path, content=b"{}", headers={"Content-Type": "application/json"})
    assert answer.status_code == 404, answer.text
