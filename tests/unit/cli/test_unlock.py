"""Tests of how a command gets the root key of the vault before it gives up its privileges."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from hotdesk.brief import CLOSED, Scope, parse_grant, parse_rule
from hotdesk.cli.unlock import find
from hotdesk.config import Config
from hotdesk.errors import BriefError
from hotdesk.linux import private_files
from hotdesk.vault import Secret, Token, Vault

SCOPE = Scope((parse_rule("erp.test"),), (parse_grant("erp-token@erp.test"),))
WORDS = b"correct horse battery staple"


@pytest.fixture
def place(tmp_path: Path) -> Config:
    return Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "images")


def test_without_a_vault_the_remedy_is_reported(place: Config) -> None:
    with pytest.raises(BriefError, match="hotdesk vault set erp-token"):
        find(place, SCOPE)


def test_a_scope_without_secrets_needs_no_vault(place: Config) -> None:
    assert find(place, CLOSED) == ""


def test_keys_find_a_key_in_a_file_themselves(place: Config) -> None:
    private_files.make_folder(place.lib / "keys", None)
    Vault.make(place.lib / "keys", "file")
    assert find(place, SCOPE) == ""


@pytest.mark.slow
def test_a_root_key_from_a_passphrase_opens_the_vault(
    place: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = place.lib / "keys"
    Vault.make(folder, "passphrase", lambda: WORDS).put("erp-token", Token(), b"value-of-the-token")
    (tmp_path / "words").write_bytes(WORDS)
    (tmp_path / "words").chmod(0o600)
    monkeypatch.setenv("HOTDESK_VAULT_PASSPHRASE_FILE", str(tmp_path / "words"))
    key = Secret(base64.b64decode(find(place, SCOPE)))
    assert Vault(folder, key).reveal("erp-token").get_bytes() == b"value-of-the-token"
