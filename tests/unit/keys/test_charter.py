from __future__ import annotations

import base64
from pathlib import Path

import pytest

from hotdesk.brief import Scope, parse_grant
from hotdesk.errors import BriefError
from hotdesk.keys.charter import Charter, grant, grant_all, make_authority
from hotdesk.vault import SigV4, Token, Vault

HOST = "s3.eu-west-1.amazonaws.com"


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    made = Vault.make(tmp_path / "keys")
    made.put("files", SigV4("AKIDFILES", "s3", "eu-west-1", "files"), b"the-key-itself/+")
    made.put("token", Token(), b"the-token-itself")
    return made


def test_the_door_is_told_what_a_key_signs_for(vault: Vault) -> None:
    told = grant(vault, 0, parse_grant(f"files@{HOST}")).values
    assert base64.b64decode(told.pop("value")) == b"the-key-itself/+"
    assert told == {"key_id": "AKIDFILES", "service": "s3", "region": "eu-west-1", "bucket": "files"}


@pytest.mark.parametrize("place", ["bearer", "bearer swap", "header=X-Key", "form=key:POST:/login"])
def test_a_signing_key_is_inserted_nowhere(vault: Vault, place: str) -> None:
    with pytest.raises(BriefError, match="never sent"):
        grant(vault, 0, parse_grant(f"files@{HOST} {place}"))


def test_a_desk_finds_what_an_sdk_needs_to_sign_with_a_placeholder(vault: Vault) -> None:
    def environment(*texts: str) -> dict[str, str]:
        granted = [grant(vault, number, parse_grant(text)) for number, text in enumerate(texts)]
        return Charter("desk", Scope(), make_authority("desk", 0.0), granted).build_environment()

    found = environment(f"files@{HOST} env=AWS_ACCESS_KEY_ID")
    assert found["AWS_ACCESS_KEY_ID"].startswith("hotdesk-secret-files-")
    assert found["AWS_SECRET_ACCESS_KEY"]
    assert found["AWS_REQUEST_CHECKSUM_CALCULATION"] == "when_required"
    assert list(environment(f"files@{HOST} env=KEY")) == ["KEY"]
    assert list(environment("token@erp.test env=AWS_ACCESS_KEY_ID")) == ["AWS_ACCESS_KEY_ID"]
    both = environment(f"files@{HOST} env=AWS_ACCESS_KEY_ID", "token@erp.test env=AWS_SECRET_ACCESS_KEY")
    assert both["AWS_SECRET_ACCESS_KEY"].startswith("hotdesk-secret-token-")


def test_a_secret_of_several_steps_has_one_placeholder(vault: Vault) -> None:
    texts = ("token@erp.test env=T step=one", "token@erp.test env=T step=two", "token@other.test env=O step=two")
    made = grant_all(vault, [parse_grant(text) for text in texts])
    assert made[0].placeholder == made[1].placeholder != made[2].placeholder
    assert [each.id for each in made] == ["0", "1", "2"]
    assert Charter("desk", Scope(), make_authority("desk", 0.0), made).build_environment()["T"] == made[0].placeholder
