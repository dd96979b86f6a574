"""Tests of API keys: creation, recognition, expiry and revocation."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from hotdesk.api.caller import POWERS
from hotdesk.api.keys import FILE, SHAPE, ApiKeys
from hotdesk.errors import BriefError, HostError


@pytest.fixture
def keys(tmp_path: Path) -> ApiKeys:
    return ApiKeys(tmp_path / "serve")


def test_a_key_has_a_tenant_and_permissions(keys: ApiKeys) -> None:
    caller = keys.find(keys.make("anna", "acme", {"jobs", "approve"}))
    assert caller is not None
    assert (caller.tenant, caller.name) == ("acme", "anna")
    assert caller.powers == {"jobs", "approve"}
    assert caller.may("jobs")
    assert not caller.may("vault")


def test_every_e2b_sdk_takes_a_key(keys: ApiKeys) -> None:
    assert SHAPE.fullmatch(keys.make("ci"))


def test_a_stored_key_cannot_be_used(keys: ApiKeys) -> None:
    made = keys.make("ci")
    kept = keys.path.read_text()
    assert made not in kept
    assert made[12:] not in kept
    assert keys.path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("wrong", ["", "e2b_", "e2b_" + "0" * 40, "E2B_" + "0" * 40, "e2b_" + "g" * 40])
def test_an_invalid_key_is_refused(keys: ApiKeys, wrong: str) -> None:
    keys.make("ci")
    assert keys.find(wrong) is None


def test_a_key_with_one_other_digit_is_unknown(keys: ApiKeys) -> None:
    made = keys.make("ci")
    assert keys.find(made[:-1] + ("0" if made[-1] != "0" else "1")) is None


def test_a_revoked_key_is_unknown_at_once_to_a_server_that_runs(keys: ApiKeys) -> None:
    made = keys.make("ci")
    server = ApiKeys(keys.path.parent)
    assert server.find(made) is not None
    keys.revoke(made[4:12])
    assert server.find(made) is None
    assert server.find_caller(made[4:12]) is None


def test_an_expired_key_is_unknown(keys: ApiKeys) -> None:
    made = keys.make("ci", seconds=1)
    assert keys.find(made) is not None
    stored = json.loads(keys.path.read_text())
    stored[0]["expires"] = time.time() - 1
    keys.path.write_text(json.dumps(stored))
    assert keys.find(made) is None


def test_another_tenants_key_cannot_be_revoked_and_is_reported_as_unknown(keys: ApiKeys) -> None:
    made = keys.make("ci", "acme")
    with pytest.raises(BriefError, match="there is no key"):
        keys.revoke(made[4:12], tenant="other")
    assert keys.find(made) is not None
    assert [key.id for key in keys.ls("other")] == []


def test_keys_made_concurrently_are_all_stored(keys: ApiKeys) -> None:
    made: list[str] = []
    makers = [
        threading.Thread(target=lambda: made.extend(ApiKeys(keys.path.parent).make("ci") for _ in range(5)))
        for _ in range(8)
    ]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert len(made) == 40
    assert all(keys.find(each) is not None for each in made)


@pytest.mark.parametrize("damage", ["", "[", "{}", '[{"id": 3}]', '[{"id": "a", "more": 1}]', "null"])
def test_with_a_damaged_file_every_key_is_refused_with_a_remedy(keys: ApiKeys, damage: str) -> None:
    made = keys.make("ci")
    keys.path.write_text(damage or " ")
    assert keys.find(made) is None
    with pytest.raises(HostError, match="damaged"):
        ApiKeys(keys.path.parent).ls()


def test_with_a_file_others_may_read_every_key_is_refused(keys: ApiKeys) -> None:
    made = keys.make("ci")
    keys.path.chmod(0o644)
    assert ApiKeys(keys.path.parent).find(made) is None


@pytest.mark.parametrize(
    ("name", "tenant", "powers", "seconds"),
    [
        ("", "acme", POWERS, None),
        ("a b", "acme", POWERS, None),
        ("a\n", "acme", POWERS, None),
        ("anna", "../x", POWERS, None),
        ("anna", "Acme", POWERS, None),
        ("anna", "acme", [], None),
        ("anna", "acme", ["root"], None),
        ("anna", "acme", POWERS, 0),
        ("anna", "acme", POWERS, 1e12),
    ],
    ids=range(9),
)
def test_an_invalid_key_request_is_refused(
    keys: ApiKeys, name: str, tenant: str, powers: list[str], seconds: float
) -> None:
    with pytest.raises(BriefError):
        keys.make(name, tenant, powers, seconds)  # type: ignore[arg-type]
    assert not (keys.path.parent / FILE).exists()
