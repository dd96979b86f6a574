"""Tests of `hotdesk vault, journal, door` with the real program, in a separate state directory for each test."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE

import pytest

from hotdesk.config import Config
from hotdesk.drive.journal import Journal
from hotdesk.drive.signing import load_signer
from hotdesk.event import Alarm, Answered, Asked, Burnt, Event, Exchange, Revoked
from hotdesk.linux import private_files
from hotdesk.vault import Secret, Vault, decode_argv, ls
from tests.e2e.conftest import PROGRAM, Hotdesk, environment

VALUE = b"a-very-secret-value"
SOURCE = os.pathsep.join(filter(None, sys.path))
DESK = "i" + "a1b2" * 5


@pytest.fixture
def here(settings: Config, tmp_path: Path) -> dict[str, str]:
    return {**environment(settings), "HOTDESK_HOME": str(tmp_path), "PYTHONPATH": SOURCE}


@pytest.fixture
def run(hotdesk: Hotdesk, here: dict[str, str]) -> Hotdesk:
    def run(*argv: str, **more: object) -> subprocess.CompletedProcess[bytes]:
        return hotdesk(*argv, **{**here, **more})

    return run


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "lib/keys"


def typed(here: dict[str, str], argv: list[str], lines: list[bytes]) -> tuple[int, bytes]:
    """Run a program at a terminal and type a line at each prompt; return its exit code and all output."""
    ours, theirs = pty.openpty()
    command = ["setsid", "--ctty", "--wait", PROGRAM, *argv]
    program = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=here)
    os.close(theirs)
    shown, waiting = b"", list(lines)
    with suppress(OSError):  # the terminal ends with the program
        while select.select([ours], [], [], 30)[0] and (data := os.read(ours, 4096)):
            shown += data
            if data.rstrip().endswith(b":") and waiting:
                os.write(ours, waiting.pop(0) + b"\n")
    os.close(ours)
    return program.wait(30), shown


def test_a_value_from_standard_input_is_kept_and_never_shown(run: Hotdesk, keys: Path) -> None:
    said = [run("vault", "set", "erp-token", stdin=VALUE + b"\n"), run("vault", "rotate", "erp-token", stdin=VALUE)]
    said += [run("vault", "ls"), run("vault", "ls", "--json")]
    assert [done.returncode for done in said] == [0, 0, 0, 0], said
    assert [done.stdout for done in said[:2]] == [b"erp-token token version 1\n", b"erp-token token version 2\n"]
    assert all(VALUE not in done.stdout + done.stderr for done in said)
    assert Vault.open(keys).reveal("erp-token") == Secret(VALUE)
    listed = json.loads(said[3].stdout)
    assert [(told["name"], told["kind"], told["version"]) for told in listed] == [("erp-token", "token", 2)]
    assert b"erp-token  token  2" in said[2].stdout
    assert run("vault", "rm", "erp-token").returncode == 0
    assert json.loads(run("vault", "ls", "--json").stdout) == []


def test_every_change_of_the_vault_is_in_the_journal_without_any_value(run: Hotdesk) -> None:
    calls = [run("vault", "init"), run("vault", "set", "erp-token", stdin=VALUE)]
    calls += [run("vault", "rotate", "erp-token", stdin=VALUE[::-1]), run("vault", "rotate", "--root")]
    calls += [run("vault", "rm", "erp-token")]
    assert [done.returncode for done in calls] == [0] * 5, calls
    assert run("vault", "init").returncode == 125  # there is one, so nothing is recorded
    shown = run("journal", "show", "--json").stdout
    changes = [row["data"] for row in map(json.loads, shown.splitlines()) if row["event"] == "VaultChanged"]
    assert [(change["name"], change["what"]) for change in changes] == [
        ("", "created"), ("erp-token", "put"), ("erp-token", "put"), ("", "new root key"), ("erp-token", "removed")
    ]  # fmt: skip
    assert all(change["by"].startswith("uid 0 pid ") for change in changes)
    assert VALUE not in shown
    assert VALUE[::-1] not in shown


@pytest.mark.long
def test_every_kind_of_secret_is_stored_with_its_public_fields(run: Hotdesk, keys: Path) -> None:
    url = "https://login.test/token"
    for argv, value in [
        (["mail", "--kind", "basic", "--user", "anna"], b"password: x"),
        (["post", "--kind", "basic"], b"bert:password: y"),
        (["crm", "--kind", "oauth2", "--token-url", url, "--client-id", "c", "--scope", "a b"], b"client-secret"),
        (["code", "--kind", "totp", "--digits", "8", "--period", "60"], b"gezd gnbv gy3t qojq\n"),
        (["cloud", "--command", "--", "/bin/echo", "--", "a token"], b""),
        (
            ["queue", "--kind", "sigv4", "--key-id", "AKID", "--service", "sqs", "--region", "eu-west-1"],
            b"key/+0123456",
        ),
    ]:
        done = run("vault", "set", *argv, stdin=value)
        assert done.returncode == 0, done.stderr
    vault = Vault.open(keys)
    assert vault.reveal("mail").get_bytes() == b"password: x"
    assert vault.reveal("post").get_bytes() == b"password: y"
    assert decode_argv(vault.reveal("cloud").get_bytes()) == ("/bin/echo", "--", "a token")
    assert vault.reveal("code").get_bytes() == b"GEZDGNBVGY3TQOJQ"
    assert {told["name"]: told["public"] for told in json.loads(run("vault", "ls", "--json").stdout)} == {
        "mail": {"user": "anna"},
        "post": {"user": "bert"},
        "crm": {"token_url": url, "client_id": "c", "scope": "a b"},
        "code": {"digits": 8, "period": 60, "algorithm": "SHA1"},
        "cloud": {},
        "queue": {"key_id": "AKID", "service": "sqs", "region": "eu-west-1", "bucket": ""},
    }
    assert b"token_url=https://login.test/token" in run("vault", "ls").stdout
    assert run("vault", "rotate", "cloud", "--", "/bin/echo", "other").returncode == 0
    assert decode_argv(vault.reveal("cloud").get_bytes()) == ("/bin/echo", "other")


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["set", "x"], b"fewer than 8 bytes"),
        (["set", "x", "a-value-as-argument"], b"unrecognized"),
        (["set", "x", "--", "a-value-as-argument"], b"only --kind command takes a program"),
        (["set", "X"], b"not a valid secret name"),
        (["set", "x", "--user", "anna"], b"--user can only be used with --kind basic"),
        (["set", "x", "--kind", "totp", "--insecure-loopback"], b"can only be used with --kind oauth2"),
        (["set", "x", "--kind", "totp", "--digits", "0"], b"6, 7 or 8"),
        (["set", "x", "--kind", "oauth2", "--token-url", "http://127.0.0.1/", "--client-id", "c"], b"must be https"),
        (["set", "x", "--kind", "basic"], b"USER:PASSWORD"),
        (["set", "x", "--bucket", "files"], b"--bucket can only be used with --kind sigv4"),
        (["set", "x", "--kind", "sigv4", "--service", "s3", "--region", "eu"], b"--key-id"),
        (["set", "x", "--kind", "sigv4", "--key-id", "AKID", "--service", "s3", "--region", "eu"], b"--bucket"),
        (["set", "x", "--command"], b"absolute path"),
        (["set", "x", "--command", "--", "echo"], b"absolute path"),
        (["set", "x", "--command", "--", "/no/such"], b"the program /no/such does not exist"),
        (["rm", "missing"], b"vault init"),
        (["rotate"], b"or --root"),
        (["rotate", "x", "--root"], b"or --root"),
        (["rotate", "x", "--root-key", "file"], b"or --root"),
        (["init", "--root-key", "keyring"], b"keep the root key in a file"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(run: Hotdesk, keys: Path, argv: list[str], why: bytes) -> None:
    stdin = {"x": b"short"}.get(argv[-1], b"long-enough-value")
    private_files.make_folder(keys)
    done = run("vault", *argv, stdin=stdin)
    assert done.returncode == 125
    assert why in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert ls(keys) == []


def test_a_token_url_on_this_machine_needs_the_switch(run: Hotdesk) -> None:
    argv = ["set", "x", "--kind", "oauth2", "--token-url", "http://127.0.0.1:8080/t", "--client-id", "c"]
    assert run("vault", *argv, "--insecure-loopback", stdin=VALUE).returncode == 0


def test_a_value_is_typed_twice_at_a_terminal_and_not_shown(here: dict[str, str], keys: Path) -> None:
    code, shown = typed(here, ["vault", "set", "erp"], [VALUE, VALUE])
    assert (code, VALUE in shown) == (0, False), shown
    assert Vault.open(keys).reveal("erp").get_bytes() == VALUE
    code, shown = typed(here, ["vault", "rotate", "erp"], [VALUE, b"something else"])
    assert code == 125
    assert b"the two values that were typed differ" in shown
    assert Vault.open(keys).read_entry("erp").version == 1


@pytest.mark.long
def test_a_passphrase_is_asked_for_or_read_from_a_file(
    here: dict[str, str], run: Hotdesk, keys: Path, tmp_path: Path
) -> None:
    words = b"correct horse battery"
    code, shown = typed(here, ["vault", "init", "--root-key", "passphrase"], [words, words])
    assert (code, words in shown) == (0, False), shown
    file = tmp_path / "words"
    file.write_bytes(words + b"\n")
    file.chmod(0o600)
    variable = {"HOTDESK_VAULT_PASSPHRASE_FILE": str(file)}
    assert run("vault", "set", "erp", stdin=VALUE, **variable).returncode == 0
    code, _ = typed(here, ["vault", "rotate", "erp"], [VALUE, VALUE])
    assert code == 125
    code, shown = typed(here, ["vault", "rotate", "erp"], [words, VALUE, VALUE])
    assert code == 0, shown
    file.chmod(0o644)
    assert b"chmod 600" in run("vault", "set", "erp", stdin=VALUE, **variable).stderr
    file.chmod(0o600)
    assert run("vault", "rotate", "--root", "--root-key", "file", **variable).returncode == 0
    assert Vault.open(keys).reveal("erp").get_bytes() == VALUE
    more = {"HOTDESK_VAULT_NEW_PASSPHRASE_FILE": str(file)}
    assert run("vault", "rotate", "--root", "--root-key", "passphrase", **more).returncode == 0
    file.write_bytes(b"something quite else")
    done = run("vault", "rm", "erp", **variable)
    assert (done.returncode, done.stderr) == (125, b"hotdesk: the passphrase is wrong\n")


def test_without_a_terminal_no_prompt_is_shown(here: dict[str, str]) -> None:
    argv = [PROGRAM, "vault", "init", "--root-key", "passphrase"]
    done = subprocess.run(
        argv, check=False, env=here, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, start_new_session=True
    )
    assert done.returncode == 125
    assert b"no terminal to ask for the passphrase" in done.stderr


def test_files_that_root_writes_belong_to_the_folders_owner(run: Hotdesk, keys: Path) -> None:
    private_files.make_folder(keys, 70001)
    assert run("vault", "set", "erp", stdin=VALUE).returncode == 0
    assert run("vault", "rotate", "--root").returncode == 0
    assert {(file.stat().st_uid, file.stat().st_mode & 0o777) for file in keys.iterdir()} == {(70001, 0o600)}


EVENTS: list[Event] = [
    Exchange(DESK, "s1", "allow", "erp.test /**", "GET", "https", "erp.test", 443, "/a", 200, 5, 6, 7, ("t in body",)),
    Exchange(DESK, "", "deny", "no rule", "GET", "http", "evil\x1b[31m.test", 80, "/ x\u202e", 403, 0, 0, 1),
    Alarm(DESK, "placeholder", "erp-token", "evil.test", 'a=1 note="x"'),
    Asked(DESK, "1", "ab", "h.test", "GET", "h.test", "/", 60.0, "please\nallow"),
    Answered(DESK, "1", "ab", "approved", "uid 0 pid 1"),
    Revoked(DESK, "erp-token@erp.test", "time"),
    Burnt(DESK, "done"),
]


@pytest.fixture
def journal(keys: Path) -> Path:
    private_files.make_folder(keys)
    made = Journal(keys / "journal.db", load_signer(keys))
    for event in EVENTS:
        made.add(DESK, "door", event)
    made.add("other", "owner", Burnt("i9", "done"))
    made.commit()
    made.close()
    return keys / "journal.db"


@pytest.mark.long
def test_the_journal_is_shown_one_line_per_event_without_control_characters(run: Hotdesk, journal: Path) -> None:
    lines = run("journal", "show").stdout.decode().splitlines()
    assert len(lines) == 8
    assert all(line.isprintable() for line in lines)
    assert "Exchange      step=s1 verdict=allow" in lines[0]
    assert r'note="a=1 note=\"x\""' in lines[2]
    assert len(run("journal", "show", "--limit", "3").stdout.splitlines()) == 3
    assert len(run("journal", "show", "--desk", "i9").stdout.splitlines()) == 1
    assert len(run("journal", "show", "--chain", DESK).stdout.splitlines()) == 7
    told = [json.loads(line) for line in run("journal", "show", "--json").stdout.splitlines()]
    assert [(each["event"], each["seq"]) for each in told[:2]] == [("Exchange", 1), ("Exchange", 2)]
    assert told[1]["data"]["host"] == "evil\x1b[31m.test"


def test_the_door_has_an_access_log(run: Hotdesk, journal: Path) -> None:
    lines = [line.partition("Z  ")[2] for line in run("door", "log").stdout.decode().splitlines()]
    assert lines == [
        f"{DESK}  allow   GET https://erp.test:443/a 200 up=5 down=6 7ms "
        'step=s1 rule="erp.test /**" grants="t in body"',
        f'{DESK}  deny    GET http://evil\\x1b[31m.test:80/%20x\\u202e 403 up=0 down=0 1ms rule="no rule"',
        f'{DESK}  ALARM   placeholder secret=erp-token host=evil.test note="a=1 note=\\"x\\""',
        f'{DESK}  asked   id=1 rule=h.test reason="please\\nallow"',
        f'{DESK}  approved id=1 by="uid 0 pid 1"',
        f"{DESK}  revoked grant=erp-token@erp.test why=time",
    ]
    assert len(run("door", "log", "--json").stdout.splitlines()) == 6
    assert run("door", "log", "--desk", "i9").stdout == b""


@pytest.mark.sample(2)
@pytest.mark.parametrize("disposition", ["default", "ignore"])
@pytest.mark.parametrize("argv", [["journal", "show"], ["door", "log"]])
def test_following_shows_new_events_and_ends_on_an_interrupt(
    here: dict[str, str], journal: Path, argv: list[str], disposition: str
) -> None:
    command = ["env", f"--{disposition}-signal=INT", PROGRAM, *argv, "--follow", "--limit", "3"]
    program = subprocess.Popen(command, env=here, stdout=PIPE, stderr=PIPE)
    assert program.stdout is not None
    assert b"erp-token" in program.stdout.readline()
    writer = Journal(journal, load_signer(journal.parent))
    writer.add("late", "door", Alarm("late", "leak", "erp-token", "h.test"))
    writer.commit()
    writer.close()
    while b"late" not in program.stdout.readline():
        pass
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=10)
    assert (program.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize("more", [[], ["--follow"]])
def test_a_reader_that_disconnects_ends_following_without_output(
    here: dict[str, str], journal: Path, more: list[str]
) -> None:
    writer = Journal(journal, load_signer(journal.parent))
    for number in range(3000):
        writer.add("many", "door", Burnt("many", f"{number}"))
    writer.commit()
    writer.close()
    program = subprocess.Popen([PROGRAM, "journal", "show", *more], env=here, stdout=PIPE, stderr=PIPE)
    assert program.stdout is not None
    assert program.stdout.readline()
    program.stdout.close()
    assert program.stderr is not None
    assert program.wait(10) == 128 + signal.SIGPIPE
    assert program.stderr.read() == b""
    program.stderr.close()


def test_following_notices_a_disconnected_reader_without_new_events(here: dict[str, str], journal: Path) -> None:
    argv = [PROGRAM, "journal", "show", "--follow", "--limit", "1"]
    program = subprocess.Popen(argv, env=here, stdout=PIPE)
    assert program.stdout is not None
    assert program.stdout.readline()
    program.stdout.close()
    assert program.wait(10) == 128 + signal.SIGPIPE


def test_verify_reports_an_intact_journal_and_by_a_saved_head_also_truncation(
    run: Hotdesk, journal: Path, tmp_path: Path
) -> None:
    done = run("journal", "verify")
    assert done.returncode == 0
    assert b"intact: 8 events in 2 chains" in done.stdout
    assert b"without --since HEAD" in done.stdout
    kept = run("journal", "head").stdout
    assert kept.count(b"hotdesk-head 1 ") == 2
    (tmp_path / "heads").write_bytes(kept)
    one = run("journal", "head", "--chain", DESK).stdout.decode().strip()
    assert one in kept.decode()
    for since in (one, str(tmp_path / "heads")):
        done = run("journal", "verify", "--since", since)
        assert (done.returncode, b" that you saved: " in done.stdout) == (0, True)
    shutil.copy(journal.parent / "signing.pub", tmp_path / "pinned.pub")
    journal.unlink()
    Journal(journal, load_signer(journal.parent)).close()
    assert run("journal", "verify").returncode == 0
    done = run("journal", "verify", "--since", one, "--key", str(tmp_path / "pinned.pub"))
    assert done.returncode == 1
    assert done.stdout.startswith(b"cut ")
    assert b"NOT INTACT: 1 fault;" in done.stdout


def test_verify_finds_changed_events_and_foreign_signatures(run: Hotdesk, journal: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir(mode=0o700)
    load_signer(tmp_path / "other")
    done = run("journal", "verify", "--json", "--key", str(tmp_path / "other/signing.pub"))
    told = json.loads(done.stdout)
    assert (done.returncode, told["sound"], {fault["what"] for fault in told["faults"]}) == (1, False, {"signature"})
    for since in ("nonsense", "hotdesk-head 1 x", os.devnull):
        assert run("journal", "verify", "--since", since).returncode == 125


def test_without_a_journal_that_is_reported(run: Hotdesk) -> None:
    for argv in (["journal", "show"], ["journal", "head"], ["door", "log", "--follow"]):
        done = run(*argv)
        assert done.returncode == 125
        assert b"there is no journal at" in done.stderr


@pytest.mark.parametrize("argv", [["vault"], ["vault", "set"], ["journal"], ["journal", "verify"], ["door", "log"]])
def test_help_has_an_example(run: Hotdesk, argv: list[str]) -> None:
    done = run(*argv, "--help")
    assert done.returncode == 0
    assert f"hotdesk {argv[0]} ".encode() in done.stdout.partition(b"usage:")[2].partition(b"\n")[2]
