"""Tests of the end of a download: a client that has the last byte may end the sandbox over the same connection."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hotdesk.api.e2b.envd.download import FileResponse
from hotdesk.errors import LinkError


class Frames:
    """A program inside that sends the given frames."""

    spoilt = False

    def __init__(self, size: int, *pieces: bytes) -> None:
        head = f'{{"size": {size}, "modified": 0}}'.encode()
        self.frames = [("H", head), *(("D", piece) for piece in pieces), ("R", b"null")]

    async def ask(self, request: object) -> None:
        """Accept a request."""

    async def give(self, data: bytes) -> None:
        """Accept a piece of data."""

    async def hear(self) -> tuple[str, bytes]:
        return self.frames.pop(0)


def response(**headers: str) -> tuple[Any, set[Any]]:
    def reset() -> None:
        pytest.fail("the connection was cut")

    cuts = {reset}
    call = SimpleNamespace(request=SimpleNamespace(headers=headers), sandbox=SimpleNamespace(cuts=cuts), reset=reset)
    return FileResponse(call, "/f"), cuts  # type: ignore[arg-type]


@pytest.mark.parametrize("pieces", [(b"abc",), (b"a", b"", b"bc"), (b"a", b"b", b"c")])
@pytest.mark.parametrize("headers", [{}, {"accept-encoding": "gzip"}])
async def test_a_connection_is_released_with_the_last_byte(pieces: tuple[bytes, ...], headers: dict[str, str]) -> None:
    found, cuts = response(**headers)
    bodies: list[tuple[bytes, bool]] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            bodies.append((message["body"], message["more_body"]))
            assert bool(cuts) == message["more_body"]

    await found.send_file(Frames(3, *pieces), send)
    assert bodies[-1][0]
    assert [more for _, more in bodies[:-1]] == [True] * (len(bodies) - 1)
    if not headers:
        assert b"".join(body for body, _ in bodies) == b"abc"


async def test_a_file_that_became_shorter_never_looks_complete() -> None:
    found, cuts = response()

    async def send(message: Any) -> None:
        assert message.get("more_body", True)

    with pytest.raises(LinkError, match="shrank"):
        await found.send_file(Frames(5, b"abc"), send)
    assert cuts
