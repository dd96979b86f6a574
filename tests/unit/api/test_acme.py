"""Tests of ACME without an authority: when certificates are requested, and what the challenge's port serves."""

from __future__ import annotations

import json
import os
import select
import socket
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from hotdesk.api.acme.challenge import ChallengeListener
from hotdesk.api.acme.client import AcmeClient, AcmeError, describe_problem
from hotdesk.api.acme.files import ACCOUNT, SERVER, STATE, prepare, read_certificate
from hotdesk.api.acme.jws import AccountKey
from hotdesk.api.acme.process import CertificateProcess, is_placeholder, read_attempts
from hotdesk.api.acme.schedule import FIRST_RETRY_S, MAX_RETRY_S, Attempts, is_due, pause_until_next
from hotdesk.api.acme.server_side import PROGRAM
from hotdesk.ipc.child import spawn
from hotdesk.linux import private_files

NAMES = ("desk.example.test",)
DAY = 86400.0


@pytest.mark.parametrize(
    ("now", "attempts", "covers", "due"),
    [
        (0, Attempts(), False, True),
        (10 * DAY, Attempts(), True, False),
        (59 * DAY, Attempts(), True, False),
        (60 * DAY, Attempts(), True, True),
        (100 * DAY, Attempts(), True, True),
        (60 * DAY, Attempts(3, 60 * DAY + 60), True, False),
        (0, Attempts(3, 60), False, False),
        (61, Attempts(3, 60), False, True),
        (0, Attempts(3, 1000 * DAY), False, True),
    ],
)
def test_a_certificate_is_requested_in_time_and_not_too_often(
    now: float, attempts: Attempts, covers: bool, due: bool
) -> None:
    assert is_due(now, 0, 90 * DAY, attempts, covers=covers) is due
    assert 1.0 <= pause_until_next(now, 0, 90 * DAY, attempts, covers=covers) <= MAX_RETRY_S


def test_failures_delay_the_next_attempt_ever_longer() -> None:
    attempts, pauses = Attempts(), []
    for _ in range(30):
        attempts = attempts.fail(0.0)
        pauses.append(attempts.next_at)
    assert pauses[:3] == [FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S]
    assert pauses[-1] == MAX_RETRY_S
    assert len([each for each in pauses if each < MAX_RETRY_S]) < 10


def test_failures_before_a_restart_are_remembered(tmp_path: Path) -> None:
    folder = tmp_path / "acme"
    prepare(folder, NAMES)
    private_files.write(folder, "state.json", json.dumps({"failures": 3, "next_at": 9.0}).encode())
    assert read_attempts(folder) == Attempts(3, 9.0)
    private_files.write(folder, "state.json", b"[]")
    assert read_attempts(folder) == Attempts()


def test_the_process_ends_with_its_server_while_an_authority_does_not_answer(tmp_path: Path) -> None:
    folder = tmp_path / "acme"
    prepare(folder, NAMES)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with (
        ours,
        theirs,
        socket.create_server(("127.0.0.1", 0)) as authority,
        socket.create_server(("127.0.0.1", 0)) as http,
    ):
        directory = f"https://127.0.0.1:{authority.getsockname()[1]}/dir"
        settings = {
            "folder": str(folder),
            "directory": directory,
            "email": "",
            "ca": "",
            "names": [*NAMES],
            "tls_port": 1,
        }
        pid = spawn(PROGRAM, settings, theirs, http)
        theirs.close()
        authority.settimeout(20)
        order, _ = authority.accept()
        ended = os.pidfd_open(pid)
        with order, os.fdopen(ended):
            assert not select.select([ended], [], [], 0.5)[0]
            ours.close()
            assert select.select([ended], [], [], 10)[0]
            assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize("lost", ["", ACCOUNT])
def test_renewal_goes_on_while_nothing_can_be_read_or_written(tmp_path: Path, lost: str) -> None:
    folder = tmp_path / "acme"
    prepare(folder, NAMES)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, socket.socket() as unused:
        settings = {"folder": str(folder), "directory": "https://127.0.0.1:1/dir", "email": "", "ca": ""}
        process = CertificateProcess(settings, NAMES, theirs)
        (folder / STATE).mkdir()  # its file cannot be written
        if lost:
            (folder / lost).unlink()
        process.renew(ChallengeListener(unused, NAMES, 8443))
        assert process.attempts.failures == 1
        assert json.loads(ours.recv(4096))["seconds"] > 0


def test_a_server_begins_with_a_self_signed_certificate(tmp_path: Path) -> None:
    folder = tmp_path / "acme"
    file = prepare(folder, NAMES)
    first, account = file.read_bytes(), (folder / ACCOUNT).read_bytes()
    found = read_certificate(folder)
    assert found is not None
    assert is_placeholder(found)
    assert prepare(folder, NAMES).read_bytes() == first
    assert (folder / ACCOUNT).read_bytes() == account
    assert [oct((folder / name).stat().st_mode & 0o777) for name in (ACCOUNT, SERVER)] == ["0o600", "0o600"]
    assert oct(folder.stat().st_mode & 0o777) == "0o700"


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("GET /.well-known/acme-challenge/token HTTP/1.1\r\nHost: x\r\n\r\n", b" 200 OK"),
        ("GET /.well-known/acme-challenge/other HTTP/1.1\r\nHost: x\r\n\r\n", b" 404 "),
        ("GET /.well-known/acme-challenge/../../account.key HTTP/1.1\r\n\r\n", b" 404 "),
        ("GET /a?b=c HTTP/1.1\r\nHost: desk.example.test:80\r\n\r\n", b"Location: https://desk.example.test:8443/a?b=c\r\n"),
        ("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", b" 404 "),
        ("GET //evil.test/ HTTP/1.1\r\nHost: desk.example.test\r\n\r\n", b"https://desk.example.test:8443//evil.test/\r\n"),
        ("GET /\r\nX: y HTTP/1.1\r\n\r\n", b" 400 "),
        ("POST / HTTP/1.1\r\nHost: desk.example.test\r\n\r\n", b" 400 "),
        ("", b" 400 "),
    ],
)  # fmt: skip
def test_the_challenge_port_serves_only_published_answers(head: str, expected: bytes) -> None:
    with socket.socket() as unused:
        listener = ChallengeListener(unused, NAMES, 8443)
        listener.published["token"] = "token.thumbprint"
        assert expected in listener.respond(head.encode())


def test_an_authority_that_links_outside_https_is_not_followed() -> None:
    key = AccountKey(ec.generate_private_key(ec.SECP256R1()))
    client = AcmeClient("http://127.0.0.1:1/dir", key, ssl.create_default_context())
    with pytest.raises(AcmeError, match="not https"):
        client.obtain(NAMES, lambda token, value: None)


def test_an_authoritys_message_is_shown_in_one_short_line() -> None:
    shown = describe_problem({"detail": "a\nb\x1b[31m" + "c" * 1000, "type": "urn:x"})
    assert "\n" not in shown
    assert "\x1b" not in shown
    assert len(shown) < 400
