"""`hotdesk verify`: whether a file is the one its certificate is of, offline and on any machine."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from hotdesk.cli import options
from hotdesk.cli.jobs.verify_page import page, short
from hotdesk.cli.signers import load_trusted_signers
from hotdesk.drive.certificate import LARGEST, SUFFIX, Fields, read
from hotdesk.drive.signing import fingerprint
from hotdesk.errors import BriefError, printable

INTERMIXED = True
FAILED = 1
UNKNOWN = 3
"""Exit code when all holds, and nobody said that they trust who signed."""
CHUNK = 1 << 20
OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of it."""

    verdict: Literal["verified", "failed", "unknown signer"]
    why: str = ""
    signer: str = ""
    """The fingerprint of the key that signed."""
    trusted: str = ""
    """Who said that this key is to be believed."""
    claim: Fields | None = None
    """What the certificate says, where all of it holds: nobody is told what a stranger wrote."""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("file", type=Path, help="the file; it is only hashed, never opened as what it is")
    parser.add_argument("certificate", nargs="?", type=Path, help=f"its certificate (FILE{SUFFIX})")
    parser.add_argument(
        "--signer",
        action="append",
        metavar="KEY",
        help="a trusted signer: a fingerprint, or a file with a public key; repeatable; no other is trusted then",
    )
    parser.add_argument("--all", action="store_true", help="say all of it: values, pages, tools, digests, the plan")
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Say whether a file is the one its certificate is of, what was checked, what was not, and who signed.

    It needs no network, no root and no state directory. Whom you believe you say: with --signer, in `[verify] signers`
    of the settings, in HOTDESK_SIGNERS; what this machine signed itself is believed without. `hotdesk key show` prints
    a machine's fingerprint.

    Exit code 0 means verified, 1 that file or certificate is not what it was, 3 that nobody you believe signed.

    For example:

      hotdesk verify Report.xlsx
      hotdesk verify Report.xlsx --all
      hotdesk verify Report.xlsx copy.certificate.json --signer 0123456789abcdef0123456789abcdef
      hotdesk verify Report.xlsx --signer signer.pub --json | jq .certificate.checks
    """
    proof = arguments.certificate or arguments.file.with_name(arguments.file.name + SUFFIX)
    judged = judge(arguments.file, proof, load_trusted_signers(arguments.signer))
    if arguments.json:
        print(json.dumps(as_json(judged), indent=1).replace("\x7f", "\\u007f"))
    else:
        print("\n".join(lines(arguments.file, judged, whole=arguments.all)))
    return {"verified": 0, "failed": FAILED, "unknown signer": UNKNOWN}[judged.verdict]


def judge(file: Path, proof: Path, signers: Mapping[str, str]) -> Judged:
    """Hold a file against its certificate, and that against whom one believes: fingerprints, and who named them."""
    with open_regular_file(file), open_regular_file(proof) as source:  # the file first: without it no certificate helps
        data = source.read(LARGEST + 1)
    size, sha256 = hash_file(file)
    try:
        claim, public = read(data)
    except BriefError as e:
        return Judged("failed", f"{proof}: {e}")
    signer = fingerprint(public)
    if (size, sha256) != (claim["file"]["size"], claim["file"]["sha256"]):
        return Judged("failed", f"it is not the file that was certified: its SHA-256 is {sha256}", signer)
    if signer not in signers:
        why = f"signed by an unknown key {signer}: pin it with --signer {signer}, if you know whose it is"
        return Judged("unknown signer", why, signer)
    return Judged("verified", "", signer, signers[signer], claim)


@contextmanager
def open_regular_file(path: Path) -> Iterator[BinaryIO]:
    """Open a plain file."""
    try:
        fd = os.open(path, OPEN)
    except OSError as e:
        raise BriefError(f"{printable(str(path))} cannot be read: {e.strerror}") from e
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise BriefError(f"{printable(str(path))} is no plain file")
        yield file


def hash_file(path: Path) -> tuple[int, str]:
    """Give a file's size and SHA-256; nothing else of it is looked at."""
    digest, size = hashlib.sha256(), 0
    with open_regular_file(path) as file:
        while data := file.read(CHUNK):
            digest.update(data)
            size += len(data)
    return size, digest.hexdigest()


def lines(file: Path, judged: Judged, *, whole: bool = False) -> list[str]:
    """Write it for people, in short or whole."""
    head = f"{file}: {judged.verdict.upper()}{f', {judged.why}' if judged.why else ''}"
    if judged.claim is None:
        return [printable(head)]
    text = (page if whole else short)(judged.claim, file.name, judged.signer, judged.trusted)
    return [printable(each) for each in (head, *text)]


def as_json(judged: Judged) -> dict[str, object]:
    """Give it as JSON has it."""
    fields = {name: getattr(judged, name) for name in ("verdict", "why", "signer", "trusted")}
    return {**fields, "certificate": judged.claim}
