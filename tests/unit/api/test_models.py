"""Tests of which models a server's jobs may use, and of the message if another is named."""

from __future__ import annotations

import pytest

from hotdesk.api.models import explain_refusal

LISTED = ("chat:qwen3@http://127.0.0.1:8080/v1", "anthropic:claude-sonnet-5")


@pytest.mark.parametrize("name", ["anthropic:claude-sonnet-5", "openai:gpt-5", "openai:ft:gpt-5:acme"])
def test_a_providers_own_model_may_be_used(name: str) -> None:
    assert explain_refusal(name) == ""


@pytest.mark.parametrize("name", ["ollama:x", "chat:x@http://10.0.0.1/v1", "openai:x@http://a/v1", "script:x.py"])
def test_a_model_at_an_address_must_be_listed_by_the_operator(name: str) -> None:
    assert "`[serve] models`" in explain_refusal(name)
    assert explain_refusal(name, (name,)) == ""


def test_if_models_are_listed_no_other_is_offered() -> None:
    assert [explain_refusal(name, LISTED) for name in LISTED] == ["", ""]
    assert explain_refusal("openai:gpt-5", LISTED).endswith(f"choose one of {', '.join(LISTED)}")
    assert explain_refusal(LISTED[0] + "/", LISTED) != ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpt-5", "write openai:gpt-5"),
        ("claude-sonnet-5", "write anthropic:claude-sonnet-5"),
        ("claude", "write anthropic:MODEL, as in anthropic:claude-sonnet-5"),
        ("Qwen 3", "write PROVIDER:MODEL, as in anthropic:claude-sonnet-5"),
        ("gpt 5\x1b[31m", "write PROVIDER:MODEL"),
    ],
)
def test_a_partial_name_is_answered_with_the_full_one(name: str, words: str) -> None:
    assert words in explain_refusal(name)
    assert explain_refusal(name).isprintable()
