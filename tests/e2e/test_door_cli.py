"""Tests of `hotdesk run, open --allow …`, `approve`, `refuse` with real desks and a real server behind the door."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hotdesk.brief import compute_digest, parse_rule
from hotdesk.config import Config
from hotdesk.linux import private_files, uids
from hotdesk.vault import Token, Vault
from tests.e2e.conftest import PROGRAM, environment
from tests.upstream import Upstream, upstream

pytestmark = pytest.mark.container

SOURCE = os.pathsep.join(filter(None, sys.path))
VALUE = "a-token-of-31-characters-at-all"
CURL = ("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}\n", "--max-time", "60")
ASK = (
    "curl", "-sS", "--max-time", "60", "-H", "X-Hotdesk-Ask: 1", "-d",
    '{"rule": "GET erp.test/more/*", "reason": "the \\u001b[31morders\\" are there"}', "http://door.local/ask",
)  # fmt: skip


@dataclass
class Place:
    """A state directory with its own settings, and the server behind its door."""

    settings: Config
    up: Upstream

    @property
    def env(self) -> dict[str, str]:
        return {**environment(self.settings), "PYTHONPATH": SOURCE}

    def configure(self, *, approval_seconds: int = 30, ceiling: str = "") -> None:
        lines = ["[door]", f'ca = "{self.up.ca}"', f"approval_seconds = {approval_seconds}"]
        lines += [f'ceiling = ["{ceiling}"]'] if ceiling else []
        etc = self.settings.run.parent / "etc"
        etc.mkdir(exist_ok=True)
        (etc / "config.toml").write_text("\n".join(lines))

    def call(self, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, *argv], check=False, input="", capture_output=True, text=True, timeout=90, env={**self.env, **env}
        )

    def run(self, *options: str, command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        return self.call("run", "--map", f"erp.test={self.up.address}", *options, "--", *command)

    def start(self, *options: str, command: tuple[str, ...]) -> subprocess.Popen[str]:
        """Start a command at such a desk, without waiting."""
        argv = [PROGRAM, "run", "--map", f"erp.test={self.up.address}", *options, "--", *command]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env)

    def question(self) -> dict[str, str]:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if waiting := json.loads(self.call("approve", "--json").stdout):
                found: dict[str, str] = waiting[0]
                return found
            time.sleep(0.1)
        pytest.fail("nothing was asked within 30 s")

    def burnt(self, desk: str) -> list[str]:
        lines = map(json.loads, self.call("journal", "show", "--desk", desk, "--json").stdout.splitlines())
        return [line["data"]["why"] for line in lines if line["event"] == "Burnt"]

    def events(self, name: str) -> list[dict[str, object]]:
        lines = map(json.loads, self.call("door", "log", "--json").stdout.splitlines())
        return [line["data"] for line in lines if line["event"] == name]


@pytest.fixture(scope="module")
def made(settings: Config) -> Iterator[Place]:
    home = Path(tempfile.mkdtemp(prefix="door-", dir=settings.run.parent))
    home.chmod(0o755)
    own = replace(settings, run=home / "run", lib=home / "lib")
    private_files.make_folder(own.lib / "keys", uids.KEYS)
    Vault.make(own.lib / "keys", "file").put("erp-token", Token(), VALUE.encode())
    with upstream(home, "erp.test") as up:
        yield Place(own, up)
    shutil.rmtree(home)


@pytest.fixture
def place(made: Place) -> Iterator[Place]:
    """Yield the place with its usual settings; at the end nothing may be left, and its journal must be whole."""
    made.configure()
    made.up.seen.clear()
    yield made
    end = time.monotonic() + 20
    control = made.settings.run / "control"
    while (left := [*control.glob("*.sock")]) and time.monotonic() < end:
        time.sleep(0.1)
    assert left == []
    if (made.settings.lib / "keys/journal.db").exists():
        verified = made.call("journal", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr


def test_allowed_requests_pass_and_all_others_are_refused(place: Place) -> None:
    command = ("sh", "-c", f"for path in data/x other; do {shlex.join(CURL)} https://erp.test/$path; done")
    done = place.run("--allow", "GET erp.test/data/*", command=command)
    assert done.stdout.split() == ["200", "403"], done.stderr
    assert [seen.path for seen in place.up.seen] == ["/data/x"]
    assert [(event["verdict"], event["path"]) for event in place.events("Exchange")[-2:]] == [
        ("allow", "/data/x"),
        ("deny", "/other"),
    ]


@pytest.mark.long
def test_the_self_test_of_a_door_is_in_its_log_only_on_request(place: Place) -> None:
    before = len(place.events("Exchange"))
    assert place.run("--allow", "GET erp.test/data/*", command=(*CURL, "https://erp.test/data/x")).stdout == "200\n"
    assert [event["host"] for event in place.events("Exchange")[before:]] == ["erp.test"]
    lines = map(json.loads, place.call("door", "log", "--json", "--self-tests").stdout.splitlines())
    tests = [line["data"] for line in lines if line["data"].get("test")]
    assert "169.254.169.254" in {each["host"] for each in tests}
    assert "erp.test" not in {each["host"] for each in tests}


@pytest.mark.long
def test_a_denial_overrides_an_allowed_rule(place: Place) -> None:
    done = place.run(
        "--allow", "erp.test", "--deny", "erp.test/private/**", command=(*CURL, "https://erp.test/private/x")
    )
    assert done.stdout == "403\n", done.stderr
    assert place.up.seen == []


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (["--deny", "pypi"], "--allow pypi"),
        (["--allow", "GET"], "write it like"),
        (["--allow", "other.test", "--grant", "erp-token@erp.test"], "allow it with --allow 'erp.test'"),
        (
            ["--allow", "tunnel erp.test", "--grant", "erp-token@erp.test:8443"],
            "allow it with --allow 'https://erp.test:8443'",
        ),
        (["--allow", "erp.test", "--map", "erp.test=127.0.0.1"], "127.0.0.1:8443"),
        (["--allow", "erp.test", "--grant", "no-such-secret@erp.test"], "no-such-secret"),
    ],
)
def test_invalid_egress_options_are_refused_with_the_remedy(place: Place, options: list[str], remedy: str) -> None:
    done = place.call("run", *options, "--", "true")
    assert done.returncode == 125
    assert remedy in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_ceiling_refuses_before_anything_is_opened(place: Place) -> None:
    place.configure(ceiling="read *.example.test")
    for command in (["run", "--allow", "erp.test", "--", "true"], ["open", "--allow", "erp.test"]):
        done = place.call(*command)
        assert done.returncode == 125
        assert "read erp.test" in done.stderr
        assert "ceiling" in done.stderr


def test_a_granted_token_is_attached_and_never_visible_in_the_desk(place: Place) -> None:
    command = ("curl", "-sS", "https://erp.test/data/x")
    done = place.run("--allow", "erp.test", "--grant", "erp-token@erp.test", command=command)
    assert json.loads(done.stdout)["path"] == "/data/x"
    assert place.up.seen[0].header("Authorization") == f"Bearer {VALUE}"
    assert VALUE not in done.stdout + done.stderr
    assert "erp-token" in str(place.events("Exchange")[-1]["grants"])


def test_the_door_replaces_a_placeholder_in_a_header_by_the_value(place: Place) -> None:
    grant = "erp-token@erp.test header=X-Key swap env=ERP_KEY"
    command = ("sh", "-c", 'echo "$ERP_KEY"; curl -sS -o /dev/null -H "X-Key: $ERP_KEY" https://erp.test/data/x')
    done = place.run("--allow", "erp.test", "--grant", grant, command=command)
    assert place.up.seen[0].header("X-Key") == VALUE, done.stderr
    assert done.stdout.strip()
    assert VALUE not in done.stdout


def test_a_request_that_needs_approval_waits_and_passes_once_approved(place: Place) -> None:
    with place.start(
        "--allow", "erp.test/open", "--ask", "erp.test/data/*", command=(*CURL, "https://erp.test/data/x")
    ) as running:
        asked = place.question()
        card = place.call("approve").stdout
        approved = place.call("approve", asked["id"], "--digest", asked["digest"][:16])
        out, told = running.communicate(timeout=60)
    assert out == "200\n", told
    what = f"desk {asked['desk']} requests access: GET erp.test/data/x"
    assert told == f"hotdesk: {what}; allow it with `hotdesk approve {asked['id']}`\n"
    lines = [line.split() for line in card.splitlines()]
    assert lines[0] == [asked["id"]]
    assert lines[1:5] == [["domain", "erp.test"], ["host", "erp.test"], ["method", "GET"], ["path", "/data/x"]]
    assert ["desk", asked["desk"]] in lines
    assert approved.stdout.startswith("approved:")
    (answered,) = [each for each in place.events("Answered") if each["id"] == asked["id"]]
    assert (answered["answer"], answered["digest"]) == ("approved", asked["digest"])
    assert str(answered["by"]).startswith(f"uid {os.geteuid()} pid ")


@pytest.mark.long
def test_a_refused_request_never_leaves(place: Place) -> None:
    with place.start("--ask", "erp.test", command=(*CURL, "https://erp.test/data/x")) as running:
        asked = place.question()
        assert place.call("approve", asked["id"], "--digest", "0000").returncode == 125
        assert json.loads(place.call("refuse", asked["id"], "--json").stdout)["answer"] == "refused"
        assert place.call("approve", asked["id"]).returncode == 125
        assert running.communicate(timeout=60)[0] == "403\n"
    assert place.up.seen == []


@pytest.mark.long
def test_an_unanswered_approval_expires(place: Place) -> None:
    place.configure(approval_seconds=3)
    done = place.run("--ask", "erp.test", command=(*CURL, "https://erp.test/data/x"))
    assert done.stdout == "403\n"
    assert place.up.seen == []
    assert place.events("Answered")[-1]["answer"] == "expired"
    assert place.call("approve").stdout == "no request is pending\n"


@pytest.mark.long
def test_a_desk_requests_more_egress_and_gets_exactly_that(place: Place) -> None:
    script = f"{shlex.join(ASK)}; for path in more/x else; do {shlex.join(CURL)} https://erp.test/$path; done"
    with place.start("--allow", "GET erp.test/data/*", command=("sh", "-c", script)) as running:
        asked = place.question()
        shown = place.call("approve").stdout
        assert place.call("approve", asked["id"]).returncode == 0
        out, told = running.communicate(timeout=60)
    assert asked["digest"] == compute_digest(parse_rule("GET erp.test/more/*"))
    assert shown.splitlines()[-1] == '  the desk says (unchecked): "the ?[31morders\' are there"'
    assert "\x1b" not in told
    answer, *codes = out.replace("}", "}\n").split("\n", 1)
    assert json.loads(answer) == {"approved": "GET erp.test/more/*"}
    assert "".join(codes).split() == ["200", "403"]


@pytest.mark.long
def test_a_desk_that_may_not_request_egress_is_refused_with_the_reason(place: Place) -> None:
    done = place.run("--allow", "erp.test/data/*", "--no-ask", command=ASK)
    assert "may not request more access" in done.stdout
    assert place.call("approve", "--json").stdout == "[]\n"


@pytest.mark.long
def test_an_open_desk_keeps_its_egress(place: Place) -> None:
    mapped = ["--map", f"erp.test={place.up.address}"]
    opened = place.call("open", *mapped, "--allow", "erp.test", "--grant", "erp-token@erp.test")
    desk = opened.stdout.strip()
    try:
        assert place.call("exec", desk, "--", *CURL, "https://erp.test/data/x").stdout == "200\n", opened.stderr
        assert place.call("exec", desk, "--", *CURL, "http://other.test/").stdout == "403\n"
    finally:
        place.call("burn", desk)
    assert place.up.seen[0].header("Authorization") == f"Bearer {VALUE}"


@pytest.mark.long
def test_a_request_of_a_holders_desk_is_approved(place: Place) -> None:
    desk = place.call("open", "--map", f"erp.test={place.up.address}", "--ask", "erp.test").stdout.strip()
    argv = [PROGRAM, "exec", desk, "--", *CURL, "https://erp.test/data/x"]
    try:
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=place.env) as running:
            asked = place.question()
            assert len(json.loads(place.call("approve", "--json").stdout)) == 1
            approved = place.call("approve", asked["id"])
            out, _ = running.communicate(timeout=60)
        assert (approved.returncode, approved.stderr) == (0, "")
        assert out == "200\n"
    finally:
        place.call("burn", desk)


@pytest.mark.long
def test_an_approval_of_a_holders_desk_is_listed_and_ends_with_it(place: Place) -> None:
    desk = place.call("open", "--map", f"erp.test={place.up.address}", "--ask", "erp.test").stdout.strip()
    argv = [PROGRAM, "exec", desk, "--", *CURL, "https://erp.test/data/x"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=place.env) as running:
        assert place.question()["desk"] == desk
        place.call("burn", desk)
        running.communicate(timeout=60)
    assert place.call("approve", "--json").stdout == "[]\n"
    assert place.up.seen == []


@pytest.mark.long
def test_an_expired_desk_loses_its_egress_while_its_owner_stays(place: Place) -> None:
    other = place.call("open").stdout.strip()
    desk = place.call("open", "--allow", "erp.test", "--grant", "erp-token@erp.test", "--deadline", "2").stdout.strip()
    try:
        end = time.monotonic() + 15
        while not (burnt := place.burnt(desk)) and time.monotonic() < end:
            time.sleep(0.2)
        assert burnt == ["deadline"]
    finally:
        place.call("burn", other)


@pytest.mark.long
def test_a_vault_with_a_passphrase_is_opened_for_the_run(place: Place, tmp_path: Path) -> None:
    keys = place.settings.lib / "keys"
    word = tmp_path / "passphrase"
    word.write_text("correct horse battery staple\n")
    word.chmod(0o600)
    Vault.open(keys).rotate_root("passphrase", lambda: b"correct horse battery staple")
    options = ("--allow", "erp.test", "--grant", "erp-token@erp.test", "--map", f"erp.test={place.up.address}")
    command = ("run", *options, "--", *CURL, "https://erp.test/data/x")
    try:
        locked = place.call(*command)
        assert locked.returncode == 125
        assert "HOTDESK_VAULT_PASSPHRASE_FILE" in locked.stderr
        done = place.call(*command, HOTDESK_VAULT_PASSPHRASE_FILE=str(word))
        assert done.stdout == "200\n", done.stderr
        opened = place.call("open", *options, HOTDESK_VAULT_PASSPHRASE_FILE=str(word))
        assert opened.returncode == 0, opened.stderr
        desk = opened.stdout.strip()
        done = place.call("exec", desk, "--", *CURL, "https://erp.test/data/y")
        assert done.stdout == "200\n", done.stderr
        place.call("burn", desk)
        assert {seen.header("Authorization") for seen in place.up.seen} == {f"Bearer {VALUE}"}
        word.write_text("another phrase altogether\n")
        wrong = place.call(*command, HOTDESK_VAULT_PASSPHRASE_FILE=str(word))
        assert "the passphrase is wrong for the vault" in wrong.stderr
    finally:
        Vault.open(keys, lambda: b"correct horse battery staple").rotate_root("file")


@pytest.mark.long
def test_a_vault_with_its_key_in_a_keyring_is_opened_for_the_run(place: Place, tmp_path: Path) -> None:
    ring = f"from pathlib import Path\nkept = Path({str(tmp_path)!r}, 'kept')\n"
    ring += "def set_password(service, name, text): kept.write_text(text)\n"
    ring += "def get_password(service, name): return kept.read_text()\n"
    ring += "def delete_password(service, name): kept.unlink()\n"
    (tmp_path / "keyring.py").write_text(ring)
    path = f"{tmp_path}:{SOURCE}"
    options = ("--allow", "erp.test", "--grant", "erp-token@erp.test", "--map", f"erp.test={place.up.address}")
    assert place.call("vault", "rotate", "--root", "--root-key", "keyring", PYTHONPATH=path).returncode == 0
    try:
        assert "keyring" in place.call("run", *options, "--", "true").stderr
        done = place.call("run", *options, "--", *CURL, "https://erp.test/data/x", PYTHONPATH=path)
        assert done.stdout == "200\n", done.stderr
        assert place.up.seen[0].header("Authorization") == f"Bearer {VALUE}"
    finally:
        place.call("vault", "rotate", "--root", "--root-key", "file", PYTHONPATH=path)
