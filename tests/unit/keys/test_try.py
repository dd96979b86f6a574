"""Tests of trying grants before they are needed: keys in a thread, with a real connection to the keeper."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hotdesk.brief import Scope, parse_grant, scope_json
from hotdesk.ipc.frames import Frames, write
from hotdesk.keys import token_command
from hotdesk.keys.process import KeysProcess
from hotdesk.linux import private_files
from hotdesk.vault import Basic, Command, Token, Totp, Vault, encode_argv

VALUES = ("the-token-itself", "the-password-itself", "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP", "printed-by-a-program")


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[socket.socket]:
    folder = tmp_path / "keys"
    private_files.make_folder(folder, None)
    vault = Vault.make(folder, "file")
    vault.put("token", Token(), VALUES[0].encode())
    vault.put("login", Basic("me"), VALUES[1].encode())
    vault.put("code", Totp(), VALUES[2].encode())
    vault.put("printed", Command(), encode_argv(["/bin/echo", VALUES[3]]))
    vault.put("broken", Command(), encode_argv(["/bin/false"]))
    keeper, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours, given = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    asked, tells = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    threads = [
        threading.Thread(target=answer, args=(asked,)),
        threading.Thread(target=lambda: KeysProcess(theirs, folder, tells).serve()),
    ]
    for thread in threads:
        thread.start()
    with given:
        socket.send_fds(keeper, [json.dumps({"line": "owner"}).encode()], [given.fileno()])
    ours.settimeout(10)
    yield ours
    ours.close()
    keeper.close()
    threads[1].join(10)
    tells.close()
    threads[0].join(10)
    asked.close()
    theirs.close()


def answer(asked: socket.socket) -> None:
    """Play the other end: run the requested command."""
    while data := asked.recv(token_command.MESSAGE):
        told = json.loads(data)
        asked.send(json.dumps({"n": told["n"], **token_command.run(told["argv"])}).encode())


def tried(owner: socket.socket, *grants: str) -> tuple[list[str], bytes]:
    """Have grants tried; return why each is unavailable, and every byte sent."""
    scope = Scope(grants=tuple(parse_grant(each) for each in grants))
    owner.sendall(write({"n": 5, "verb": "try", "desk": "", "scope": json.loads(scope_json(scope))}))
    frames, heard = Frames(), b""
    while data := owner.recv(1 << 16):
        heard += data
        for message, _ in frames.feed(data):
            found: dict[str, Any] = message
            return found["ok"]["tried"], heard
    raise AssertionError("keys hung up")


def test_each_grant_is_reported_as_available_or_with_the_reason(owner: socket.socket) -> None:
    why, heard = tried(
        owner,
        "token@a.test bearer",
        "gold@a.test bearer",
        "login@a.test basic",
        "code@a.test form=code:POST:/login",
        "code@a.test",
        "printed@a.test bearer",
        "broken@a.test bearer",
    )
    assert [bool(each) for each in why] == [False, True, False, False, True, False, True]
    assert "gold" in why[1]
    assert "its grant must name the place" in why[4]
    assert "/bin/false failed with exit code 1" in why[6]
    assert not any(value.encode() in heard for value in VALUES)


def test_without_grants_no_failure_is_reported(owner: socket.socket) -> None:
    assert tried(owner)[0] == []
