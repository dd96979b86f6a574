"""The process that obtains certificates: it connects to the authority, and writes below one folder only."""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

from cryptography import x509

from hotdesk.api.acme.challenge import ChallengeListener
from hotdesk.api.acme.client import AcmeClient, AcmeError, list_names
from hotdesk.api.acme.files import SERVER, STATE, read_account, read_certificate
from hotdesk.api.acme.jws import AccountKey
from hotdesk.api.acme.schedule import Attempts, is_due, pause_until_next
from hotdesk.errors import HotdeskError
from hotdesk.linux import private_files
from hotdesk.linux.landlock import confine

LINE, LISTENER = 3, 4
"""File descriptors: the socket to the server, and the listener for challenges."""


class CertificateProcess:
    """Obtains certificates."""

    def __init__(self, settings: dict[str, str], names: tuple[str, ...], line: socket.socket) -> None:
        self.folder = Path(settings["folder"])
        self.settings = settings
        self.names = names
        self.line = line
        self.trust = ssl.create_default_context()
        if settings["ca"]:
            self.trust.load_verify_locations(cafile=settings["ca"])
        self.attempts = read_attempts(self.folder)

    def run(self, challenges: ChallengeListener) -> NoReturn:
        """Check the certificate, and renew it when it is due. The process ends with its server, also amid orders."""
        threading.Thread(target=_exit_with_server, args=(self.line,), daemon=True).start()
        while True:
            now = time.time()
            begins, ends, covers = self.look()
            if is_due(now, begins, ends, self.attempts, covers=covers):
                self.renew(challenges)
                continue
            time.sleep(pause_until_next(now, begins, ends, self.attempts, covers=covers))

    def look(self) -> tuple[float, float, bool]:
        leaf = read_certificate(self.folder)
        if leaf is None or is_placeholder(leaf):
            return 0.0, 0.0, False
        begins, ends = leaf.not_valid_before_utc.timestamp(), leaf.not_valid_after_utc.timestamp()
        return begins, ends, list_names(leaf) == set(self.names)

    def renew(self, challenges: ChallengeListener) -> None:
        """Obtain a certificate and report the outcome to the server; a failure postpones the next attempt."""
        try:
            account = AccountKey(read_account(self.folder))
            client = AcmeClient(self.settings["directory"], account, self.trust, self.settings["email"])
            pem = client.obtain(self.names, challenges.published.__setitem__)
            private_files.write(self.folder, SERVER, pem)
        except (AcmeError, HotdeskError, KeyError, OSError, TypeError, ValueError) as e:
            self.attempts = self.attempts.fail(time.time())
            self.tell(failed=_describe_failure(e), seconds=round(self.attempts.next_at - time.time()))
        else:
            self.attempts = Attempts()
            self.tell(renewed=True)
        finally:
            challenges.published.clear()
        with suppress(OSError, HotdeskError):  # a full disk: this process remembers them
            private_files.write(self.folder, STATE, json.dumps(asdict(self.attempts)).encode())

    def tell(self, **message: object) -> None:
        with suppress(OSError):
            self.line.send(json.dumps(message).encode())


def _exit_with_server(line: socket.socket) -> None:
    while line.recv(64):
        pass
    os._exit(0)


def _describe_failure(error: Exception) -> str:
    if isinstance(error, AcmeError | HotdeskError):
        return str(error)
    if isinstance(error, OSError):
        return f"this machine failed: {error.strerror or error}"
    return f"the certificate authority sent a malformed reply ({type(error).__name__})"


def is_placeholder(leaf: x509.Certificate) -> bool:
    """Return whether a certificate is the self-signed placeholder."""
    return leaf.issuer == leaf.subject


def read_attempts(folder: Path) -> Attempts:
    """Read the attempts of earlier processes; an unreadable file counts as none."""
    try:
        found = json.loads(private_files.read(folder, STATE) or b"{}")
        return Attempts(int(found.get("failures", 0)), float(found.get("next_at", 0.0)))
    except (ValueError, TypeError, AttributeError):
        return Attempts()


def main() -> None:
    settings = json.loads(sys.argv[3])
    names = tuple(str(each) for each in settings.pop("names"))
    tls_port = int(settings.pop("tls_port"))
    confine([Path(settings["folder"])], dials=True)
    challenges = ChallengeListener(socket.socket(fileno=LISTENER), names, tls_port)
    challenges.start()
    CertificateProcess(settings, names, socket.socket(fileno=LINE)).run(challenges)
