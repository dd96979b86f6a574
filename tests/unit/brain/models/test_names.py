"""Tests of model names and API keys, and that tests make no paid calls."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.providers.anthropic import anthropic_server
from tests.providers.anthropic import text as anthropic_text
from tests.providers.chat import chat_server
from tests.providers.chat import text as chat_text
from tests.providers.openai import openai_server
from tests.providers.openai import text as openai_text
from tests.providers.server import Trouble

from hotdesk.brain.models import allowed
from hotdesk.brain.models.client import Patience
from hotdesk.brain.models.names import find, split_name
from hotdesk.brain.models.seam import ModelRequest, OurMessage
from hotdesk.errors import BriefError, ModelError

REQUEST = ModelRequest("", [OurMessage("Hello.")])
ONCE = Patience(connect=2, silence=2, retries=0, tries=1, longest=10)
NAMES = ("anthropic:m-1", "openai:m-1", "chat:m-1@http://model.test/v1")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("anthropic:claude-x", ("anthropic", "claude-x", "")),
        ("openai:gpt-x", ("openai", "gpt-x", "")),
        ("chat:org/m:7b@http://127.0.0.1:8080/v1", ("chat", "org/m:7b", "http://127.0.0.1:8080/v1")),
        ("chat:m@v2@https://models.test/v1", ("chat", "m@v2", "https://models.test/v1")),
        ("ollama:qwen3:8b", ("ollama", "qwen3:8b", "http://127.0.0.1:11434/v1")),
    ],
)
def test_a_name_selects_provider_and_address(name: str, told: tuple[str, str, str]) -> None:
    assert split_name(name) == told


@pytest.mark.parametrize(
    "name",
    ["", "anthropic", "anthropic:", "other:m", ":m", "chat:m", "chat:@http://a/v1", "chat:m@", "chat:m@file:///etc",
     "chat:m@http://", "chat:m@http://me:secret@a/v1", "chat:m@http://a:99999/", "openai:m\x1b[31m"],
)  # fmt: skip
def test_a_name_that_names_no_model_is_refused(name: str) -> None:
    with pytest.raises(BriefError, match="anthropic:MODEL") as told:
        split_name(name)
    assert str(told.value).isprintable()


def test_provider_libraries_are_loaded_only_when_a_model_is_created() -> None:
    ours = "hotdesk.brain.models.names, hotdesk.brain.models.record, hotdesk.brain.models.chat"
    code = f"import sys, {ours}; print({{'anthropic', 'openai'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "set()\n"


@pytest.fixture
def trap(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Yield a proxy that all outgoing traffic would go to; it accepts nothing."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(0.2)
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        for name in ("ANTHROPIC", "OPENAI"):
            monkeypatch.setenv(f"{name}_API_KEY", "key-of-mine")
            monkeypatch.delenv(f"{name}_BASE_URL", raising=False)
        yield proxy


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
async def test_no_remote_model_is_called_in_a_test(trap: socket.socket, name: str) -> None:
    model = find(name, patience=ONCE)
    with pytest.raises(ModelError, match="allows only models on this machine; unset HOTDESK_LOOPBACK_MODELS"):
        await model.ask(REQUEST)
    await model.close()
    with pytest.raises(TimeoutError):
        trap.accept()


@pytest.mark.sample(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
async def test_without_the_switch_a_remote_model_would_be_called(
    trap: socket.socket, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(allowed.SWITCH)
    model = find(name, patience=Patience(connect=10, silence=1, retries=0, tries=1, longest=30))
    with pytest.raises(ModelError):
        await model.ask(REQUEST)
    await model.close()
    trap.accept()[0].close()


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:1/v1", True), ("http://127.9.9.9/", True), ("http://[::1]:8/", True),
        ("http://localhost:8/", True), ("https://api.anthropic.com", False), ("http://127.0.0.1.test/", False),
        ("http://localhost.test/", False), ("http://127.0.0.1@model.test/", False), ("http://0.0.0.0/", False),
        ("http://10.0.0.1/", False), ("", False), ("http://2130706433/", False),
    ],
)  # fmt: skip
def test_local_addresses_are_recognised(url: str, here: bool) -> None:
    assert allowed.is_loopback(url) is here


@pytest.mark.slow
async def test_provider_libraries_read_keys_and_addresses_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        anthropic_server(lambda body: [anthropic_text("A.")]) as a,
        openai_server(lambda body: [openai_text("B.")]) as b,
    ):
        for name, server in (("ANTHROPIC", a), ("OPENAI", b)):
            monkeypatch.setenv(f"{name}_API_KEY", f"key-of-{name}")
            monkeypatch.setenv(f"{name}_BASE_URL", server.base_url)
        for name, said in (("anthropic:m-1", "A."), ("openai:m-1", "B.")):
            model = find(name, patience=ONCE)
            assert (await model.ask(REQUEST)).text == said
            await model.close()
        assert "key-of-ANTHROPIC" in (a.headers[0].get("x-api-key") or a.headers[0]["authorization"])
        assert b.headers[0]["authorization"] == "Bearer key-of-OPENAI"


@pytest.mark.parametrize("maker", ["anthropic", "openai"])
async def test_without_a_key_no_request_is_sent(maker: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    server = {"anthropic": anthropic_server, "openai": openai_server}[maker]
    with server(lambda body: []) as made:
        model = find(f"{maker}:m-1", base_url=made.base_url, patience=ONCE)
        with pytest.raises(ModelError, match=f"called: no API key was found; set {maker.upper()}_API_KEY"):
            await model.ask(REQUEST)
        await model.close()
        assert made.requests == []


async def test_openais_key_and_account_go_to_openai_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-openai")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-mine")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-of-mine")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    with chat_server(lambda body: [chat_text("A.")]) as server:
        model = find(f"chat:m-1@{server.base_url}", patience=ONCE)
        assert (await model.ask(REQUEST)).text == "A."
        await model.close()
        assert model.name == f"chat:m-1@{server.base_url}"
        assert "of-openai" not in str(server.headers)
        assert "of-mine" not in str(server.headers)


async def test_a_chat_server_may_have_its_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTDESK_CHAT_KEY", "key-of-chat")
    with chat_server(lambda body: [chat_text("A.")]) as server:
        monkeypatch.setenv("HOTDESK_CHAT_URL", f"{server.base_url}/")
        model = find("ollama:m-1", base_url=server.base_url, patience=ONCE)
        await model.ask(REQUEST)
        await model.close()
        assert (model.name, server.headers[0]["authorization"]) == ("ollama:m-1", "Bearer key-of-chat")


async def test_a_refused_key_is_reported_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTDESK_CHAT_KEY", "key-of-chat")
    with chat_server(lambda body: []) as server:
        server.trouble.append(Trouble(401))
        model = find(f"chat:m-1@{server.base_url}", patience=ONCE)
        with pytest.raises(ModelError, match=f"in HOTDESK_CHAT_KEY, and HOTDESK_CHAT_URL={server.base_url}"):
            await model.ask(REQUEST)
        await model.close()
