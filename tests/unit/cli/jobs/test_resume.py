"""Tests of resuming a job with another model or a new key."""

from __future__ import annotations

import io

import pytest

from hotdesk.brain.models.names import is_same_place
from hotdesk.cli.job_request import JobRequest
from hotdesk.cli.jobs.resume import read_key, with_models
from hotdesk.errors import BriefError

KEPT = JobRequest(brief="", folder="/x", form="toml", plan=("openai:a",), act=("openai:b",))


def test_another_model_plans_and_acts_from_now_on() -> None:
    found = with_models(KEPT, ["anthropic:m", "ollama:small"])
    assert (found.plan, found.act) == (("anthropic:m", "ollama:small"),) * 2


def test_an_invalid_model_name_is_refused() -> None:
    with pytest.raises(BriefError, match="is not a model name"):
        with_models(KEPT, ["gpt-5"])


def test_a_script_takes_no_model() -> None:
    with pytest.raises(BriefError, match="this job follows a script"):
        with_models(JobRequest(brief="", folder="/x", form="toml", source="eA=="), ["anthropic:m"])


def test_a_key_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("sk-own\nmore\n"))
    assert read_key() == "sk-own"


@pytest.mark.parametrize("told", ["", "\n", "a b\n", "x" * 501, "sk-\x1b[31m\n", "schl\u00fcssel\n"])
def test_an_invalid_key_is_refused(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(told))
    with pytest.raises(BriefError, match="no valid key on standard input"):
        read_key()


@pytest.mark.parametrize(
    ("name", "other", "same"),
    [
        ("openai:a", "openai:b", True),
        ("openai:a", "anthropic:a", False),
        ("chat:a@http://x.test/v1", "chat:b@http://x.test/v1", True),
        ("chat:a@http://x.test/v1", "chat:a@http://y.test/v1", False),
    ],
)
def test_a_key_is_for_models_at_one_address(name: str, other: str, same: bool) -> None:
    assert is_same_place(name, other) is same
