"""Tests of reloading settings and certificates: what is wrong changes nothing and ends nothing."""

from __future__ import annotations

import ssl
from dataclasses import fields, replace
from pathlib import Path

import pytest
from tests.conftest import settings_in

from hotdesk.api.acme.files import make_placeholder
from hotdesk.api.reload import MACHINE, Reloading, make_certificate_loader
from hotdesk.api.settings import Serving
from hotdesk.config import Ceiling, Config, load
from hotdesk.errors import BriefError


def write_pair(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a certificate and its key; return their paths."""
    key, begin, certificate = make_placeholder((f"{name}.example.test",)).partition(b"-----BEGIN CERTIFICATE")
    paths = folder / f"{name}.pem", folder / f"{name}.key"
    paths[0].write_bytes(begin + certificate)
    paths[1].write_bytes(key)
    return paths


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    certificate, key = write_pair(tmp_path, "one")
    return replace(Serving(), certificate=certificate, private_key=key)


def make_context(serving: Serving) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    make_certificate_loader(context)(serving)
    return context


def is_served(context: ssl.SSLContext, serving: Serving) -> bool:
    """Return whether a client that trusts the certificate of these settings can connect."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(str(serving.certificate))
    client.check_hostname = False
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(to_client, to_server), context.wrap_bio(to_server, to_client, server_side=True)]
    for _ in range(4):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
    return True


async def test_settings_that_lost_tls_need_a_restart(serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    context = make_context(serving)
    reloading = Reloading(serving, lambda: replace(serving, certificate=None, private_key=None, longest=7))
    reloading.add(make_certificate_loader(context))
    await reloading.reload()
    assert reloading.serving == replace(serving, longest=7)
    assert is_served(context, serving)
    said = "".join(capsys.readouterr())
    assert "certificate,private_key" in said


async def test_settings_that_gained_tls_need_a_restart(serving: Serving) -> None:
    reloading = Reloading(Serving(), lambda: serving)
    await reloading.reload()
    assert reloading.serving.certificate is None


async def test_a_certificate_with_another_key_leaves_the_present_one_in_use(serving: Serving, tmp_path: Path) -> None:
    context, other = make_context(serving), write_pair(tmp_path, "other")
    reloading = Reloading(serving, lambda: replace(serving, certificate=other[0]))
    reloading.add(make_certificate_loader(context))
    await reloading.reload()
    assert reloading.serving == serving
    assert is_served(context, serving)


async def test_a_new_certificate_is_used(serving: Serving, tmp_path: Path) -> None:
    context, other = make_context(serving), write_pair(tmp_path, "other")
    later = replace(serving, certificate=other[0], private_key=other[1])
    reloading = Reloading(serving, lambda: later)
    reloading.add(make_certificate_loader(context))
    await reloading.reload()
    assert is_served(context, later)
    assert not is_served(context, serving)


async def test_an_unexpected_failure_to_read_settings_changes_nothing(serving: Serving) -> None:
    def read() -> Serving:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    reloading = Reloading(serving, read)
    await reloading.reload()
    assert reloading.serving == serving


async def test_changed_settings_outside_of_serve_are_named_or_applied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    used = settings_in(tmp_path)
    later = replace(used, retention_days=7, ceiling=("*.example.test",), limits=Ceiling(tokens=5), disk_floor=1)
    found: list[Config] = []
    reloading = Reloading(Serving(), read_machine=lambda: later)
    reloading.follow_machine(used, load)
    reloading.machine_holders.append(found.append)
    await reloading.reload()
    assert "needs_restart=door.ceiling,ceiling,disk_floor" in capsys.readouterr().err
    assert found == [replace(used, retention_days=7)]


async def test_invalid_settings_outside_of_serve_change_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def read() -> Config:
        raise BriefError("[jobs]: unknown setting")

    reloading = Reloading(Serving(), lambda: replace(Serving(), longest=7), read)
    reloading.follow_machine(settings_in(tmp_path), load)
    await reloading.reload()
    assert "nothing was reloaded: [jobs]" in capsys.readouterr().err
    assert reloading.serving == Serving()


def test_every_setting_of_a_server_has_a_name_to_report() -> None:
    others = {"run", "lib", "serve", "pods", "holder", "holder_ready", "holder_idle"}
    assert {each.name for each in fields(Config)} == MACHINE.keys() | others
