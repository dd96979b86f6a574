"""Tests of E2B's secrets with its own SDK: created, listed, replaced, deleted, and attached to requests by the door."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2b import (
    AsyncSandbox,
    AsyncSecret,
    AuthenticationException,
    InvalidArgumentException,
    Sandbox,
    SandboxException,
    Secret,
    SecretException,
)
from e2b.exceptions import SecretNotFoundException
from e2b.secret.secret_async import AsyncSecretPaginator
from e2b.secret.secret_sync import SecretPaginator

from hotdesk.api.keys import ApiKeys
from hotdesk.drive.journal import FILE
from tests.e2e.server.conftest import Served, served
from tests.upstream import Upstream, upstream

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
VALUE = "a-value-that-nobody-reads-back"


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    with upstream(tmp_path_factory.mktemp("upstream"), "api.erp.test") as found:
        yield found


@pytest.fixture(scope="module")
def server(home: Path, outside: Upstream) -> Iterator[Served]:
    door = f'[door]\nca = "{outside.ca}"\nnames = {{"api.erp.test" = "{outside.address}"}}\n'
    with served(home / f"secrets-{time.monotonic_ns()}", config=f"{door}[serve]\nready = {{}}\n") as found:
        yield found


def rules(value: str, header: str = "Authorization") -> Any:
    transform = {"transform": {"headers": {header: value}}}
    return {"allow_out": ["api.erp.test"], "deny_out": ["0.0.0.0/0"], "rules": {"api.erp.test": [transform]}}


def test_a_secret_is_created_listed_replaced_and_deleted(server: Served) -> None:
    made = Secret.create("First-Key", VALUE, {"team": "a"}, **server.e2b)
    assert (made.name, made.version, made.metadata) == ("first-key", 1, {"team": "a"})
    with pytest.raises(SecretException, match="409"):
        Secret.create("first-key", VALUE, **server.e2b)
    again = Secret.update(made.secret_id, f"{VALUE}-2", **server.e2b)
    assert (again.secret_id, again.version, again.metadata) == (made.secret_id, 2, {"team": "a"})
    assert Secret.update("first-key", f"{VALUE}-3", {}, **server.e2b).metadata == {}
    assert Secret.get_info("first-key", **server.e2b).version == 3
    Secret.create("second-key", VALUE, **server.e2b)
    pages: SecretPaginator = Secret.list(limit=1, **server.e2b)
    names = [each.name for each in pages.next_items()]
    assert pages.has_next
    assert pages.next_token
    names += [each.name for each in pages.next_items()]
    assert (sorted(names), pages.has_next) == (["first-key", "second-key"], False)
    assert Secret.exists("first-key", **server.e2b)
    assert [Secret.destroy("first-key", **server.e2b) for _ in range(2)] == [True, False]
    assert Secret.destroy("second-key", **server.e2b)
    with pytest.raises(SecretNotFoundException):
        Secret.get_info("first-key", **server.e2b)
    with pytest.raises(SecretNotFoundException):
        Secret.update("first-key", VALUE, **server.e2b)
    with pytest.raises(SecretException, match="400"):
        Secret.list(next_token="!!", **server.e2b).next_items()


@pytest.mark.parametrize(("name", "value"), [("a/b", VALUE), ("../x", VALUE), ("short", "x"), ("line", "a\nb" * 9)])
def test_a_secret_that_cannot_be_protected_is_refused(server: Served, name: str, value: str) -> None:
    with pytest.raises(SecretException, match="400"):
        Secret.create(name, value, **server.e2b)


def test_a_key_without_the_power_for_secrets_gets_none(server: Served) -> None:
    weak = {**server.e2b, "api_key": ApiKeys(server.settings.lib / "serve").make("weak", powers=["sandboxes"])}
    with pytest.raises(SecretException, match="403"):
        Secret.create("mine", VALUE, **weak)
    with pytest.raises(SecretException, match="403"):
        Secret.exists("mine", **weak)
    with pytest.raises(SecretException, match="403"):
        Secret.destroy("mine", **weak)
    with pytest.raises(SandboxException, match="403"):
        Sandbox.create(network=rules(Secret.fill("mine")), **weak)
    with pytest.raises(AuthenticationException):
        Secret.create("mine", VALUE, **{**server.e2b, "api_key": f"e2b_{'0' * 40}"})


@pytest.mark.parametrize(
    ("header", "prefix"), [("Authorization", "Bearer "), pytest.param("X-Api-Key", "", marks=pytest.mark.long)]
)
def test_the_door_attaches_a_secret_that_is_invisible_inside(
    server: Served, outside: Upstream, header: str, prefix: str
) -> None:
    Secret.create("erp", VALUE, **server.e2b)
    sandbox = Sandbox.create(network=rules(f"{prefix}{Secret.fill('erp')}", header), **server.e2b)
    try:
        heard = sandbox.commands.run("curl -s https://api.erp.test/; env; cat /proc/*/environ 2>/dev/null || true")
        assert outside.seen[-1].header(header.lower()) == f"{prefix}{VALUE}"
        assert VALUE not in heard.stdout
        assert VALUE not in str(sandbox.get_info().network)
        sandbox.update_network(rules("plain-and-long-enough", "X-Other"))
        sandbox.commands.run("curl -s https://api.erp.test/")
        assert outside.seen[-1].header(header.lower()) is None
    finally:
        sandbox.kill()
        Secret.destroy("erp", **server.e2b)
    written = b"".join(path.read_bytes() for path in server.settings.lib.rglob(f"{FILE}*") if path.is_file())
    assert written
    assert VALUE.encode() not in written


@pytest.mark.parametrize(
    ("header", "value"),
    [("Authorization", "Bearer ${e2b.secrets.nobodys}"), ("X-A", "Bearer ${e2b.secrets.erp}"),
     ("X-A", "a${e2b.secrets.b}"),
     ("X-A", "${e2b.identity.tokens.aws}"), ("X-A", "${e2b.secrets.}")],
)  # fmt: skip
def test_an_unknown_placeholder_is_refused(server: Served, header: str, value: str) -> None:
    with pytest.raises(SandboxException, match="400"):
        Sandbox.create(network=rules(value, header), **server.e2b)


async def test_the_asynchronous_sdk_has_secrets_too(server: Served) -> None:
    await AsyncSecret.create("async-key", VALUE, **server.e2b)
    pages: AsyncSecretPaginator = AsyncSecret.list(**server.e2b)
    assert [each.name for each in await pages.next_items()] == ["async-key"]
    assert (pages.has_next, pages.next_token) == (False, None)
    assert (await AsyncSecret.update("async-key", f"{VALUE}2", **server.e2b)).version == 2
    assert (await AsyncSecret.get_info("async-key", **server.e2b)).name == "async-key"
    assert await AsyncSecret.exists("async-key", **server.e2b)
    assert await AsyncSecret.destroy("async-key", **server.e2b)
    with pytest.raises(SecretNotFoundException):
        await AsyncSecret.get_info("async-key", **server.e2b)
    with pytest.raises(SecretNotFoundException):
        await AsyncSecret.update("async-key", VALUE, **server.e2b)
    with pytest.raises(SecretException, match="400"):
        await AsyncSecret.create("a/b", VALUE, **server.e2b)
    with pytest.raises(SecretException, match="400"):
        await AsyncSecret.list(next_token="!!", **server.e2b).next_items()
    wrong = {**server.e2b, "api_key": f"e2b_{'0' * 40}"}
    with pytest.raises(AuthenticationException):
        await AsyncSecret.exists("async-key", **wrong)
    with pytest.raises(AuthenticationException):
        await AsyncSecret.destroy("async-key", **wrong)
    with pytest.raises(InvalidArgumentException):
        AsyncSecret.fill("a}b")
    with pytest.raises(SandboxException, match="400"):
        await AsyncSandbox.create(
            iam={"tokens": {"aws": AsyncSecret.iam_token(audience="sts", token_type="X509-SVID")}}, **server.e2b
        )


def test_workload_tokens_of_another_kind_are_refused(server: Served) -> None:
    with pytest.raises(SandboxException, match="400"):
        Sandbox.create(iam={"tokens": {"aws": Secret.iam_token(audience="sts", token_type="X509-SVID")}}, **server.e2b)
    with pytest.raises(InvalidArgumentException):
        Secret.fill("a}b")
