"""`hotdesk verify`: check a file against its certificate, offline and on any machine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from hotdesk.cli import options
from hotdesk.cli.jobs.verify_file import Judged as Judged
from hotdesk.cli.jobs.verify_file import hash_file, open_regular_file
from hotdesk.cli.jobs.verify_item import judge_item, list_item_rows
from hotdesk.cli.jobs.verify_page import format_page, format_short_page
from hotdesk.cli.signers import load_trusted_signers
from hotdesk.drive.certificate import LARGEST, SUFFIX, read
from hotdesk.drive.signing import compute_fingerprint
from hotdesk.drive.swarm_certificate import write_proof
from hotdesk.errors import BriefError, make_printable
from hotdesk.event import as_dict

INTERMIXED = True
FAILED = 1
UNKNOWN = 3
"""Exit code if everything is valid, but the signer is not trusted."""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="the file to verify; it is only hashed, no program opens it")
    parser.add_argument("certificate", nargs="?", type=Path, help=f"the file's certificate (default: FILE{SUFFIX})")
    parser.add_argument(
        "--signer",
        action="append",
        metavar="KEY",
        help="trust only this signer: a fingerprint, or a file with a public key; repeatable",
    )
    parser.add_argument("--item", metavar="NAME", help="verify FILE as the result of this item of a swarm")
    proof = "with --item: the file with the item's proof (default: computed from records.jsonl next to the certificate)"
    parser.add_argument("--proof", type=Path, metavar="FILE", help=proof)
    parser.add_argument(
        "--write-proof",
        type=Path,
        metavar="FILE",
        help="with --item: write to this file the proof that the certificate covers the item",
    )
    parser.add_argument("--all", action="store_true", help="print everything: values, pages, tools, digests, the plan")
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Verify that a file is the one its certificate names; show what was checked, what was not, and who signed.

    It needs no network, no root and no state directory. You choose the signers you trust: with --signer, in `[verify]
    signers` of the settings, or in HOTDESK_SIGNERS. This machine's own key is trusted by default. `hotdesk key show`
    prints a machine's fingerprint.

    Exit code 0 means verified, 1 that the file or the certificate was changed, 3 that no signer you trust signed it.

    For example:

      hotdesk verify Report.xlsx
      hotdesk verify Report.xlsx --all
      hotdesk verify Report.xlsx copy.certificate.json --signer 0123456789abcdef0123456789abcdef
      hotdesk verify Report.xlsx --signer signer.pub --json | jq .certificate.checks
      hotdesk verify c-0001.json swarm-certificate.json --item c-0001
      hotdesk verify c-0001.json swarm-certificate.json --item c-0001 --proof c-0001.proof
    """
    if arguments.item is not None:
        return _verify_item(arguments)
    if arguments.proof or arguments.write_proof:
        raise BriefError("--proof and --write-proof are for one item of a swarm; pass its name with --item")
    proof = arguments.certificate or arguments.file.with_name(arguments.file.name + SUFFIX)
    judged = judge(arguments.file, proof, load_trusted_signers(arguments.signer))
    if arguments.json:
        print(json.dumps(as_json(judged), indent=1).replace("\x7f", "\\u007f"))
    else:
        print("\n".join(format_judged(arguments.file, judged, whole=arguments.all)))
    return {"verified": 0, "failed": FAILED, "unknown signer": UNKNOWN}[judged.verdict]


def _verify_item(arguments: argparse.Namespace) -> int:
    certificate = arguments.certificate or arguments.file.with_name("swarm-certificate.json")
    judged, proof = judge_item(
        arguments.file, certificate, arguments.proof, arguments.item, load_trusted_signers(arguments.signer)
    )
    if proof is not None and arguments.write_proof is not None:
        arguments.write_proof.write_bytes(write_proof(proof))
    if arguments.json:
        record = as_dict(proof.record) if proof is not None and judged.verdict == "verified" else None
        print(json.dumps({**as_json(judged), "record": record}, indent=1).replace("\x7f", "\\u007f"))
    else:
        head = f"{arguments.file}: {judged.verdict.upper()}{f', {judged.why}' if judged.why else ''}"
        rows = list_item_rows(judged, proof) if judged.claim is not None and proof is not None else ()
        print("\n".join(make_printable(line) for line in (head, *(f"  {word:12} {text}" for word, text in rows))))
    return {"verified": 0, "failed": FAILED, "unknown signer": UNKNOWN}[judged.verdict]


def judge(file: Path, proof: Path, signers: Mapping[str, str]) -> Judged:
    """Check a file against its certificate, and the certificate against trusted signers."""
    with open_regular_file(file), open_regular_file(proof) as source:  # the file first: a certificate alone is useless
        data = source.read(LARGEST + 1)
    size, sha256 = hash_file(file)
    try:
        claim, public = read(data)
    except BriefError as e:
        return Judged("failed", f"{proof}: {e}")
    signer = compute_fingerprint(public)
    if (size, sha256) != (claim["file"]["size"], claim["file"]["sha256"]):
        why = f"this is not the certified file: its SHA-256 is {sha256}, not {claim['file']['sha256']}"
        return Judged("failed", why, signer)
    if signer not in signers:
        why = f"signed by an unknown key {signer}; if you trust it, pass --signer {signer}"
        return Judged("unknown signer", why, signer)
    return Judged("verified", "", signer, signers[signer], claim)


def format_judged(file: Path, judged: Judged, *, whole: bool = False) -> list[str]:
    head = f"{file}: {judged.verdict.upper()}{f', {judged.why}' if judged.why else ''}"
    if judged.claim is None:
        return [make_printable(head)]
    text = (format_page if whole else format_short_page)(judged.claim, file.name, judged.signer, judged.trusted)
    return [make_printable(each) for each in (head, *text)]


def as_json(judged: Judged) -> dict[str, object]:
    fields = {name: getattr(judged, name) for name in ("verdict", "why", "signer", "trusted")}
    return {**fields, "certificate": judged.claim}
