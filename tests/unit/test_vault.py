"""Tests of the vault: secrets sealed together with their metadata, in files only their owner can read."""

from __future__ import annotations

import base64
import copy
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hotdesk.errors import BriefError, HostError
from hotdesk.linux import private_files
from hotdesk.vault import (
    Basic,
    Command,
    OAuth2,
    Public,
    Secret,
    SigV4,
    Token,
    Totp,
    Vault,
    compute_totp_code,
    decode_argv,
    decode_seed,
    encode_argv,
    ls,
    root,
)

VALUE = b"a-very-secret-value"
SEED = b"GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
OAUTH = OAuth2("https://login.test/token", "client-1", "read write")
ONE_OF_EACH: list[tuple[Public, bytes]] = [
    (Token(), VALUE),
    (Basic("anna"), b"p\xc3\xa4ssword: with colon"),
    (OAUTH, b"client-secret"),
    (Totp(8, 60, "SHA256"), SEED),
    (Command(), encode_argv(["/usr/bin/printf", "token"])),
    (SigV4("AKIDEXAMPLE", "s3", "eu-west-1", "files"), VALUE),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def passphrase(text: bytes) -> Callable[[], bytes]:
    return lambda: text


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a vault's file as an attacker without the key can."""
    told = json.loads((folder / "vault.json").read_text())
    change(told)
    (folder / "vault.json").write_text(json.dumps(told))


@pytest.mark.parametrize(("public", "value"), ONE_OF_EACH, ids=lambda part: type(part).__name__)
def test_a_secret_of_every_kind_comes_back_as_it_was_put(folder: Path, public: Public, value: bytes) -> None:
    made = Vault.make(folder).put("erp", public, value)
    vault = Vault.open(folder)
    assert vault.reveal("erp").get_bytes() == value
    assert vault.read_entry("erp") == made
    assert (made.public, made.version) == (public, 1)
    assert ls(folder) == [made]


def test_the_file_holds_no_value_and_only_its_owner_reads_it(folder: Path) -> None:
    before = os.umask(0)
    try:
        vault = Vault.make(folder)
        for number, (public, value) in enumerate(ONE_OF_EACH):
            vault.put(f"secret-{number}", public, value)
    finally:
        os.umask(before)
    written = b"".join(file.read_bytes() for file in folder.iterdir())
    for _, value in ONE_OF_EACH:
        assert value not in written
        assert base64.b64encode(value)[:12] not in written
    assert {file.name: mode(file) for file in folder.iterdir()} == dict.fromkeys(
        ["vault.json", "vault.lock", "root.key"], 0o600
    )
    assert mode(folder) == 0o700


def test_a_secret_shows_nothing_of_itself() -> None:
    secret = Secret(VALUE)
    assert {repr(secret), str(secret), f"{secret}", f"{secret!r:>3}", repr([secret])} <= {"***", "[***]"}
    for write_down in (pickle.dumps, copy.deepcopy, hash, json.dumps, vars):
        with pytest.raises(TypeError):
            write_down(secret)
    assert secret == Secret(VALUE)
    assert secret != Secret(VALUE + b"x")
    assert secret != VALUE


def test_a_name_put_again_and_one_rotated_are_one_version_up(folder: Path) -> None:
    vault = Vault.make(folder)
    first = vault.put("erp", OAUTH, b"first-secret")
    second = vault.rotate("erp", b"second-secret")
    assert (second.version, second.public, second.created) == (2, OAUTH, first.created)
    assert vault.reveal("erp").get_bytes() == b"second-secret"
    assert vault.put("erp", Token(), b"third-secret").version == 3
    entry, value = vault.take("erp")
    assert (entry.kind, value.get_bytes()) == ("token", b"third-secret")


def test_a_removed_secret_is_gone_and_an_unknown_one_is_named(folder: Path) -> None:
    vault = Vault.make(folder)
    vault.put("erp", Token(), VALUE)
    vault.remove("erp")
    assert ls(folder) == []
    for act in (vault.remove, vault.read_entry, vault.reveal, lambda name: vault.rotate(name, VALUE)):
        with pytest.raises(BriefError, match="secret 'erp' not found"):
            act("erp")


def test_what_one_process_puts_another_sees_without_opening_again(folder: Path) -> None:
    reader = Vault.make(folder)
    Vault.open(folder).put("late", Token(), VALUE)
    assert reader.reveal("late").get_bytes() == VALUE
    Vault.open(folder).rotate_root("file")
    assert reader.reveal("late").get_bytes() == VALUE


def test_many_writers_at_once_lose_nothing(folder: Path) -> None:
    Vault.make(folder)

    def write(number: int) -> None:
        for turn in range(5):
            Vault.open(folder).put(f"n{number}-{turn}", Token(), VALUE)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    assert len(ls(folder)) == 30


@pytest.mark.parametrize("name", ["", "-a", "A", "a_b", "a/b", "..", "a" * 65, "ä", "a\n", "a b"])
def test_an_invalid_name_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(BriefError, match="not a valid secret name"):
        Vault.make(folder).put(name, Token(), VALUE)


@pytest.mark.parametrize(
    ("public", "value", "why"),
    [
        (Token(), b"7 bytes", "fewer than 8"),
        (Token(), b"x" * (65536 + 1), "more than 64 KiB"),
        (Token(), b"two\r\nlines of it", "control"),
        (Token(), b"a tab\tin the midst", "control"),
        (Token(), b"nothing \0 at all", "control"),
        (Token(), b"delete \x7f it all", "control"),
        (Token(), "a C1 \x85 character".encode(), "control"),
        (Token(), b" one before", "ends with a space"),
        (Token(), b"\xff\xfe not text at all", "UTF-8"),
        (Basic("anna"), b"brief", "fewer than 8"),
        (Basic("anna"), b"pass\nword", "control"),
        (OAUTH, b"client\nsecret", "control"),
        (Totp(), b"nothing 1 8 9!", "base32"),
        (Totp(), b"GEZDGNBV", "seed has fewer than"),
        (Totp(), b"AAAAAAAAA", "base32"),
        (Command(), b"/usr/bin/printf", "absolute path"),
        (Command(), b"[]", "absolute path"),
        (Command(), b'["printf"]', "absolute path"),
        (Command(), b'["/bin/sh", 1]', "absolute path"),
        (Command(), b'["/bin/sh", "\\u0000"]', "absolute path"),
    ],
)
def test_a_value_its_kind_cannot_have_is_refused_and_not_repeated(
    folder: Path, public: Public, value: bytes, why: str
) -> None:
    vault = Vault.make(folder)
    for _ in range(2):
        with pytest.raises(BriefError, match=why) as refused:
            vault.put("erp", public, value)
        assert value.decode(errors="replace")[:7] not in str(refused.value)
    assert ls(folder) == []


def test_a_rotated_value_is_checked_like_a_first(folder: Path) -> None:
    vault = Vault.make(folder)
    vault.put("erp", Token(), VALUE)
    with pytest.raises(BriefError, match="fewer than 8"):
        vault.rotate("erp", b"short")
    assert vault.reveal("erp").get_bytes() == VALUE


@pytest.mark.parametrize("size", [8, 65536])
def test_the_shortest_and_the_longest_value_are_kept(folder: Path, size: int) -> None:
    vault = Vault.make(folder)
    vault.put("erp", Token(), b"x" * size)
    assert len(vault.reveal("erp").get_bytes()) == size


@pytest.mark.parametrize(
    "public",
    [
        Basic(""),
        Basic("a:b"),
        Basic("a\nb"),
        OAuth2("http://login.test/token", "c"),
        OAuth2("http://127.0.0.1:8080/token", "c"),
        OAuth2("ftp://login.test/token", "c"),
        OAuth2("https:///token", "c"),
        OAuth2("https://user:pass@login.test/", "c"),
        OAuth2("https://user@login.test/", "c"),
        OAuth2("https://login.test/#part", "c"),
        OAuth2("https://login.test/\r\nX: y", "c"),
        OAuth2("https://login.test:99999/", "c"),
        OAuth2("https://login.test:0/", "c"),
        OAuth2("https://[::1/", "c"),
        OAuth2("https://lögin.test/", "c"),
        OAuth2("https://login.test/", ""),
        OAuth2("https://login.test/", "c\n"),
        OAuth2("https://login.test/", "c", "a\nb"),
        Totp(digits=5),
        Totp(period=0),
        Totp(algorithm="MD5"),  # type: ignore[arg-type]
        SigV4("", "sqs", "eu-west-1"),
        SigV4("a/b", "sqs", "eu-west-1"),
        SigV4("AKID", "", "eu-west-1"),
        SigV4("AKID", "*", "eu-west-1"),
        SigV4("AKID", "sqs", ""),
        SigV4("AKID", "sqs", "eu/west"),
        SigV4("AKID", "sqs", "eu-west-1", "files"),
        SigV4("AKID", "s3", "eu-west-1"),
        SigV4("AKID", "s3", "eu-west-1", "a/b"),
        SigV4("AKID", "s3", "eu-west-1", "*"),
    ],
    ids=repr,
)
def test_invalid_public_fields_are_refused(folder: Path, public: Public) -> None:
    with pytest.raises(BriefError):
        Vault.make(folder).put("erp", public, SEED)


def test_a_token_url_without_tls_is_for_this_machine_only_and_only_when_asked_for(folder: Path) -> None:
    vault = Vault.make(folder)
    for host in ("127.0.0.1:8080", "[::1]:8080"):
        assert vault.put("erp", OAuth2(f"http://{host}/token", "c"), VALUE, loopback=True).kind == "oauth2"
    for host in ("login.test", "localhost", "127.0.0.1.login.test", "10.0.0.1", "[::]"):
        with pytest.raises(BriefError, match="https"):
            vault.put("erp", OAuth2(f"http://{host}/token", "c"), VALUE, loopback=True)


def set_public(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda told: told["entries"]["erp"]["public"].__setitem__(name, value)


def set_field(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda told: told["entries"]["erp"].__setitem__(name, value)


def become_token(told: dict[str, Any]) -> None:
    told["entries"]["erp"].update(kind="token", public={})


@pytest.mark.parametrize(
    "change",
    [
        set_public("token_url", "https://evil.test/token"),
        set_public("client_id", "client-2"),
        set_public("scope", "everything"),
        set_field("version", 2),
        set_field("created", 1.0),
        set_field("changed", 1.0),
        set_field("sealed", base64.b64encode(b"\0" * 40).decode()),
        set_field("sealed", ""),
        become_token,
        lambda told: told["entries"].update(erp=told["entries"]["other"]),
        lambda told: told["entries"]["erp"].update(sealed=told["entries"]["other"]["sealed"]),
    ],
)
def test_no_field_of_a_secret_can_be_swapped(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    vault = Vault.make(folder)
    vault.put("erp", OAUTH, VALUE)
    vault.put("other", OAUTH, b"another-value")
    edit(folder, change)
    for look in (vault.read_entry, vault.reveal, Vault.open(folder).take):
        with pytest.raises(HostError, match="'erp' was changed"):
            look("erp")
    assert vault.reveal("other").get_bytes() == b"another-value"


def test_a_token_cannot_be_made_a_command_that_runs(folder: Path) -> None:
    vault = Vault.make(folder)
    vault.put("erp", Token(), encode_argv(["/bin/evil", "as a token"]))
    edit(folder, set_field("kind", "command"))
    with pytest.raises(HostError, match="'erp' was changed"):
        vault.take("erp")


def test_where_the_root_key_comes_from_cannot_be_changed_beside_it(folder: Path) -> None:
    Vault.make(folder)
    told = json.loads((folder / "vault.json").read_text())["root"]
    key = root.find(folder, root.load_root(told))
    assert Vault(folder, key).id
    edit(folder, lambda told: told["root"].update(source="keyring"))
    with pytest.raises(HostError, match="was changed"):
        Vault(folder, key)


@pytest.mark.parametrize(
    "change",
    [
        set_field("version", "1"),
        set_field("version", True),
        set_field("created", "now"),
        set_field("sealed", "not base64!"),
        set_field("sealed", 5),
        set_field("kind", "other"),
        set_field("kind", ["token"]),
        set_field("public", {}),
        set_public("more", "x"),
        set_public("scope", 5),
        lambda told: told.pop("entries"),
        lambda told: told.pop("key"),
        lambda told: told.update(entries=[]),
        lambda told: told.update(key=5),
        lambda told: told["root"].update(memory=1 << 30),
        lambda told: told["root"].update(source="nowhere"),
        lambda told: told["root"].update(id="../../x"),
        lambda told: told.update(version=2),
        lambda told: told["entries"].update({"../x": told["entries"]["erp"]}),
    ],
)
def test_a_file_that_is_not_ours_is_refused(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    Vault.make(folder).put("erp", OAUTH, VALUE)
    edit(folder, change)
    with pytest.raises(HostError, match=r"is damaged|has format version"):
        Vault.open(folder)


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "5", "[" * 100_000])
def test_a_file_that_is_not_a_vault_is_refused(folder: Path, text: str) -> None:
    Vault.make(folder)
    (folder / "vault.json").write_text(text)
    with pytest.raises(HostError, match="is damaged"):
        Vault.open(folder)


def test_a_vault_is_made_once_and_missing_one_is_named(folder: Path) -> None:
    assert ls(folder) == []
    private_files.make_folder(folder)
    with pytest.raises(BriefError, match="vault init"):
        Vault.open(folder)
    Vault.make(folder)
    with pytest.raises(BriefError, match="a vault exists already"):
        Vault.make(folder)


def test_another_vault_in_the_same_place_is_noticed(folder: Path) -> None:
    vault = Vault.make(folder)
    (folder / "vault.json").unlink()
    Vault.make(folder).put("erp", Token(), VALUE)
    with pytest.raises(HostError, match="another vault"):
        vault.reveal("erp")


@pytest.mark.slow
def test_a_passphrase_opens_and_a_wrong_one_does_not(folder: Path) -> None:
    Vault.make(folder, "passphrase", passphrase(b"correct horse battery")).put("erp", Token(), VALUE)
    assert not (folder / "root.key").exists()
    told = json.loads((folder / "vault.json").read_text())["root"]
    assert (told["memory"], told["passes"]) == (64 << 10, 3)
    assert Vault.open(folder, passphrase(b"correct horse battery")).reveal("erp").get_bytes() == VALUE
    with pytest.raises(BriefError, match="passphrase is wrong"):
        Vault.open(folder, passphrase(b"correct horse batterz"))
    with pytest.raises(BriefError, match="locked with a passphrase"):
        Vault.open(folder)


def test_a_short_passphrase_is_refused(folder: Path) -> None:
    with pytest.raises(BriefError, match="fewer than 12"):
        Vault.make(folder, "passphrase", passphrase(b"horse"))


@pytest.mark.slow
@pytest.mark.parametrize(("field", "value"), [("passes", 1), ("memory", 1024), ("salt", "AAAAAAAAAAAAAAAAAAAAAA==")])
def test_a_passphrase_cannot_be_made_cheaper_behind_its_back(folder: Path, field: str, value: object) -> None:
    Vault.make(folder, "passphrase", passphrase(b"correct horse battery"))
    edit(folder, lambda told: told["root"].update({field: value}))
    with pytest.raises(BriefError, match="passphrase is wrong"):
        Vault.open(folder, passphrase(b"correct horse battery"))


def test_without_a_keyring_the_remedy_is_named(folder: Path) -> None:
    with pytest.raises(HostError, match="keep the root key in a file"):
        Vault.make(folder, "keyring")


RING = """
import json, pathlib
FILE = pathlib.Path(__file__).parent / "ring.json"
def kept(): return json.loads(FILE.read_text()) if FILE.exists() else {}
def set_password(service, name, value): FILE.write_text(json.dumps({**kept(), f"{service} {name}": value}))
def get_password(service, name): return kept().get(f"{service} {name}")
def delete_password(service, name): FILE.write_text(json.dumps({k: v for k, v in kept().items() if name not in k}))
"""
WITH_RING = """
import sys
from pathlib import Path
from hotdesk.vault import Token, Vault
folder = Path(sys.argv[1])
vault = Vault.make(folder, "keyring")
vault.put("erp", Token(), b"a-very-secret-value")
vault.rotate_root("keyring")
assert Vault.open(folder).reveal("erp").get_bytes() == b"a-very-secret-value"
assert not (folder / "root.key").exists()
"""


def test_a_keyring_keeps_the_root_key(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "keyring.py").write_text(RING)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    argv = [sys.executable, "-c", WITH_RING, str(folder)]
    subprocess.run(argv, check=True, timeout=60, env={**os.environ, "PYTHONPATH": path})
    assert len(json.loads((tmp_path / "ring.json").read_text())) == 1
    with pytest.raises(HostError, match="no keyring"):
        Vault.open(folder)


@pytest.mark.slow
def test_a_new_root_key_opens_and_the_old_one_no_longer(folder: Path) -> None:
    vault = Vault.make(folder)
    vault.put("erp", Token(), VALUE)
    old = root.find(folder, root.RootKeySource("file", json.loads((folder / "vault.json").read_text())["root"]["id"]))
    vault.rotate_root("file")
    assert len((folder / "root.key").read_text().splitlines()) == 1
    assert Vault.open(folder).reveal("erp").get_bytes() == VALUE
    with pytest.raises(HostError, match="does not belong to"):
        Vault(folder, old)
    vault.rotate_root("passphrase", passphrase(b"correct horse battery"))
    assert not (folder / "root.key").exists()
    assert Vault.open(folder, passphrase(b"correct horse battery")).reveal("erp").get_bytes() == VALUE
    vault.rotate_root("file")
    assert Vault.open(folder).reveal("erp").get_bytes() == VALUE


def test_a_crash_between_the_new_root_key_and_the_vault_leaves_one_that_opens(folder: Path) -> None:
    vault = Vault.make(folder)
    vault.put("erp", Token(), VALUE)
    root.make(folder, "file")
    assert Vault.open(folder).reveal("erp").get_bytes() == VALUE


@pytest.mark.parametrize("text", ["", "nonsense", "0123456789abcdef notbase64", "\xff"])
def test_an_invalid_root_key_is_named(folder: Path, text: str) -> None:
    Vault.make(folder)
    (folder / "root.key").write_text(text, encoding="latin-1")
    with pytest.raises(HostError, match="has no root key for this vault"):
        Vault.open(folder)


@pytest.mark.parametrize("name", ["root.key", "vault.json"])
@pytest.mark.parametrize("wider", [0o640, 0o604, 0o660])
def test_a_file_others_may_read_is_refused(folder: Path, name: str, wider: int) -> None:
    Vault.make(folder)
    (folder / name).chmod(wider)
    with pytest.raises(HostError, match="chmod 600"):
        Vault.open(folder)


def test_a_folder_others_may_enter_is_refused(folder: Path) -> None:
    Vault.make(folder)
    folder.chmod(0o750)
    with pytest.raises(HostError, match="chmod 700"):
        Vault.open(folder)


@pytest.mark.parametrize("name", ["root.key", "vault.json", "vault.lock"])
def test_no_link_is_followed(folder: Path, tmp_path: Path, name: str) -> None:
    vault = Vault.make(folder)
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()
    with pytest.raises(HostError, match=r"link|cannot be written"):
        Vault.open(folder).put("erp", Token(), VALUE)
    with pytest.raises(HostError):
        vault.rotate_root("file")
    assert (tmp_path / "elsewhere").read_bytes() == before


@pytest.mark.parametrize("name", ["root.key", "vault.json"])
def test_a_special_file_is_not_waited_for(folder: Path, name: str) -> None:
    Vault.make(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name, 0o600)
    with pytest.raises(HostError, match="not a regular file"):
        Vault.open(folder)


def test_a_full_disk_leaves_the_old_vault_and_no_litter(folder: Path) -> None:
    Vault.make(folder).put("erp", Token(), VALUE)
    script = (
        "import resource, sys; from pathlib import Path; from hotdesk.vault import Token, Vault\n"
        "from hotdesk.errors import HostError\n"
        "vault = Vault.open(Path(sys.argv[1])); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: vault.put('big', Token(), b'x' * 5000)\n"
        "except HostError as e: print(e)\n"
    )
    argv = [sys.executable, "-c", script, str(folder)]
    path = os.pathsep.join(filter(None, sys.path))
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60, env=env)
    assert "cannot be written" in done.stdout, done.stderr
    assert {file.name for file in folder.iterdir()} == {"vault.json", "vault.lock", "root.key"}
    assert Vault.open(folder).reveal("erp").get_bytes() == VALUE


def test_files_root_creates_belong_to_the_folders_owner(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.fail("giving a file away needs root: run the tests with sudo", pytrace=False)
    folder = tmp_path / "made/keys"
    vault = Vault.make(folder, owner=70001)
    vault.put("erp", Token(), VALUE)
    vault.rotate_root("file")
    for path in (folder, *folder.iterdir()):
        assert (path.stat().st_uid, path.stat().st_gid) == (70001, 70001), path
    assert (folder.parent.stat().st_uid, mode(folder)) == (0, 0o700)


RFC_6238 = [
    (59, "SHA1", "94287082"),
    (59, "SHA256", "46119246"),
    (59, "SHA512", "90693936"),
    (1111111109, "SHA1", "07081804"),
    (1111111109, "SHA256", "68084774"),
    (1111111109, "SHA512", "25091201"),
    (1111111111, "SHA1", "14050471"),
    (1234567890, "SHA256", "91819424"),
    (2000000000, "SHA512", "38618901"),
    (20000000000, "SHA1", "65353130"),
    (20000000000, "SHA256", "77737706"),
    (20000000000, "SHA512", "47863826"),
]
SEEDS = {"SHA1": b"1234567890" * 2, "SHA256": b"1234567890" * 3 + b"12", "SHA512": b"1234567890" * 6 + b"1234"}


@pytest.mark.parametrize(("at", "algorithm", "code"), RFC_6238)
def test_one_time_codes_are_those_of_the_standard(at: int, algorithm: Any, code: str) -> None:
    assert compute_totp_code(SEEDS[algorithm], at, Totp(8, 30, algorithm)) == code
    assert compute_totp_code(SEEDS[algorithm], at + 0.9, Totp(6, 30, algorithm)) == code[2:]


def test_a_seed_is_kept_as_people_do_not_write_it(folder: Path) -> None:
    vault = Vault.make(folder)
    vault.put("erp", Totp(), b"gezd gnbv gy3t qojq-gezd gnbv gy3t qojq ====")
    assert vault.reveal("erp").get_bytes() == SEED
    assert compute_totp_code(decode_seed(vault.reveal("erp").get_bytes()), 59) == "287082"


@pytest.mark.slow
def test_a_commands_arguments_come_back() -> None:
    assert decode_argv(encode_argv(["/usr/bin/printf", "ä b"])) == ("/usr/bin/printf", "ä b")
    with pytest.raises(BriefError):
        encode_argv(["printf"])
