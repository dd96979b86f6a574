"""Tests of which image and wall a template stands for, and of a code interpreter that gets other variables."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import pytest

from hotdesk.api.e2b.responses import E2bError
from hotdesk.api.e2b.templates import make_missing_template_error, parse_image_name, parse_wall, renew_variables
from hotdesk.desk.seam import Desk, DeskId, Done
from hotdesk.errors import DeskError


@pytest.mark.parametrize(
    ("template", "image"),
    [
        ("base", "base"),
        ("desktop", "e2b-desktop"),
        ("desktop:latest", "e2b-desktop"),
        ("team/desktop", "e2b-desktop"),
        ("code-interpreter-v1", "code-interpreter-v1"),
        ("mine", "mine"),
        ("base@gvisor", "base"),
        ("team/desktop:latest@gvisor", "e2b-desktop"),
        ("team/desktop@gvisor", "e2b-desktop"),
    ],
)
def test_a_template_means_an_image(template: str, image: str) -> None:
    assert parse_image_name(template) == image


def test_the_gateway_is_built_from_a_recipe_of_the_operators_own() -> None:
    assert "`hotdesk image build ./mcp-gateway.toml`" in str(make_missing_template_error("mcp-gateway"))
    assert str(make_missing_template_error("mine")).endswith("template 'mine' not found")


@pytest.mark.parametrize(
    ("template", "metadata", "wall"),
    [
        ("base", {}, ""),
        ("base@gvisor", {}, "gvisor"),
        ("base", {"hotdesk.wall": "microvm"}, "microvm"),
        ("base@gvisor", {"hotdesk.wall": "container"}, "gvisor"),
        ("team/desktop:latest@microvm", {}, "microvm"),
    ],
)
def test_a_template_or_metadata_can_require_a_wall(template: str, metadata: dict[str, str], wall: str) -> None:
    assert parse_wall(template, metadata) == wall


@pytest.mark.parametrize("template", ["base@local", "base@paper", "base@gvisor@container", "base@\x1b[2J"])
def test_a_template_cannot_name_an_unknown_wall(template: str) -> None:
    with pytest.raises(E2bError, match="unknown wall"):
        parse_wall(template)


ID = DeskId("i" + "a" * 20)


@dataclass
class Computer:
    """A desk with a code interpreter that gives a fixed reply; without one nothing listens."""

    reply: bytes
    id: DeskId = ID
    server: socket.socket | None = None
    """The interpreter's end of the connection."""

    async def dial(self, port: int) -> socket.socket:
        if not self.reply:
            raise DeskError("nothing listens")
        here, self.server = socket.socketpair()
        here.setblocking(False)
        self.server.sendall(self.reply)
        return here

    async def run(self, argv: Sequence[str], **options: object) -> Done:
        return Done(0, stdout=b"A=1\0")


@pytest.mark.anyio
@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 500 Internal Server Error\r\n\r\n"])
async def test_a_code_interpreter_that_does_not_get_its_variables_is_reported(
    reply: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = Computer(reply)
    await renew_variables(cast(Desk, desk), "code-interpreter-v1")
    if desk.server is not None:
        desk.server.close()
    assert f"desk {desk.id} did not accept" in capsys.readouterr().err
