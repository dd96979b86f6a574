"""Sealed papers of a job: prompts, replies, arguments and observations that its events refer to by name.

jobs/JOB/key            32 random bytes; without them nothing else here can be read
jobs/JOB/order          the request: the brief, and the models or script; all that is needed to resume
jobs/JOB/papers/        files of papers, see `paper_log.py`; a paper's name is a keyed hash of its content
jobs/JOB/checkpoints/   saved workspaces, sealed with a key of their own, see `checkpoint.py`

A paper is written before the event that names it, but not forced to disk: after a power failure an event may name a
missing paper.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hotdesk.errors import BriefError, HostError
from hotdesk.job.record.paper_log import Pile
from hotdesk.linux import private_files

KEY = "key"
ORDER = "order"
NONCE = 12


class Papers:
    """The papers of one job."""

    def __init__(self, folder: Path, key: bytes) -> None:
        self.folder = folder
        self.cipher = AESGCM(key)
        self.key = key
        self.pile = Pile(folder / "papers")

    def write(self, text: str | bytes) -> str:
        """Store a paper and return its name. The same content again is the same paper."""
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        name = hmac.new(self.key, data, hashlib.sha256).hexdigest()
        if not self.pile.has(name):
            self.pile.add(name, self.seal(data, name))
        return name

    def read(self, name: str) -> bytes:
        """Return a paper's content; raise `HostError` if it is missing or was changed."""
        sealed = self.pile.get(name)
        if sealed is None:
            raise HostError(f"the stored file {name[:12]}… of job {self.folder.name} is missing; start a new job")
        return self.open(sealed, name)

    def read_text(self, name: str) -> str:
        return self.read(name).decode("utf-8", "surrogatepass")

    def seal(self, data: bytes, name: str) -> bytes:
        nonce = os.urandom(NONCE)
        return nonce + self.cipher.encrypt(nonce, data, name.encode())

    def open(self, sealed: bytes, name: str) -> bytes:
        """Decrypt data that was sealed under a name; raise `HostError` if it was changed."""
        try:
            return self.cipher.decrypt(sealed[:NONCE], sealed[NONCE:], name.encode())
        except (InvalidTag, ValueError) as e:
            raise HostError(
                f"the stored file {name[:12]}… of job {self.folder.name} was changed, or encrypted with "
                "another key; start a new job"
            ) from e

    def keep_order(self, data: bytes) -> None:
        """Store the job's request; it is on disk when this returns."""
        private_files.write(self.folder, ORDER, self.seal(data, ORDER), 0o600)

    def read_order(self) -> bytes:
        try:
            return self.open((self.folder / ORDER).read_bytes(), ORDER)
        except OSError as e:
            raise HostError(
                f"the stored request of job {self.folder.name} cannot be read: {e.strerror}; start a new job"
            ) from e


def create(jobs: Path, job: str) -> Papers:
    private_files.make_folder(jobs)
    folder = jobs / job
    private_files.make_folder(folder)
    private_files.make_folder(folder / "papers")
    key = secrets.token_bytes(32)
    private_files.write(folder, KEY, key, 0o600)
    return Papers(folder, key)


def find(jobs: Path, job: str) -> Papers:
    """Open a job's papers; raise `BriefError` if they are missing or were deleted."""
    try:
        return Papers(jobs / job, (jobs / job / KEY).read_bytes())
    except FileNotFoundError as e:
        raise BriefError(f"the stored data of job {job[:40]!r} was deleted; `hotdesk jobs` lists the jobs") from e
    except OSError as e:
        raise BriefError(f"the stored data of job {job[:40]!r} cannot be read: {e.strerror}") from e
