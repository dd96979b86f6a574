"""`hotdesk key`: keys for a server's programs and people, and the key that signs this machine's certificates."""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from hotdesk import config
from hotdesk.api.caller import POWERS as ALL
from hotdesk.cli import options
from hotdesk.cli.parser import add_acts
from hotdesk.cli.terminal import align_columns
from hotdesk.config import DEFAULT_TENANT, find_node_identity, parse_seconds
from hotdesk.desk.keeper.outbox import Outbox
from hotdesk.desk.seam import new_id
from hotdesk.drive.certificate import encode_public_key
from hotdesk.drive.identity import describe_actor as described_user
from hotdesk.drive.signing import PUBLIC, compute_fingerprint, load_own_public
from hotdesk.errors import BriefError, make_printable

if TYPE_CHECKING:
    from hotdesk.api.keys import ApiKeys, Key

POWERS = tuple(sorted(ALL))
DAY = "%Y-%m-%d %H:%M"


def add(parser: argparse.ArgumentParser) -> None:
    add_acts(parser, ACTS, ARGUMENTS)


def add_new(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--name", required=True, help="the person or program that the key is for; shown in approvals and jobs"
    )
    parser.add_argument(
        "--tenant", default=DEFAULT_TENANT, help=f"the tenant that the key belongs to (default: {DEFAULT_TENANT})"
    )
    parser.add_argument(
        "--power",
        action="append",
        choices=POWERS,
        help="what the key may be used for; repeatable (default: everything)",
    )
    parser.add_argument(
        "--expires",
        type=_parse_lifetime,
        metavar="TIME",
        help="how long the key is valid, such as 12h or 30d (default: unlimited)",
    )
    options.add_json(parser)


def add_ls(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", help="list only the keys of this tenant")
    options.add_json(parser)


def _add_revoke(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="the key's id: as `hotdesk key ls` prints it")


def add_show(parser: argparse.ArgumentParser) -> None:
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--pem",
        action="store_true",
        help="print only the public key in PEM, to save as a file for `hotdesk verify --signer`",
    )
    shown.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    """Create, list and revoke keys for `hotdesk serve`, and show the key that signs this machine's certificates.

    A running server accepts a new key and rejects a revoked one at once. Only a hash of each key is stored.

    For example:

      hotdesk key new --name ci --tenant acme --expires 30d
      hotdesk key ls
      hotdesk key revoke 0f3a9c21
      hotdesk key show --pem > signer.pub
    """
    arguments.main(arguments)
    return 0


def new(arguments: argparse.Namespace) -> None:
    """Create a key for a server, and print it. It is not shown again.

    Powers: sandboxes (E2B's API), desks, jobs, approve, drive, vault, journal, admin (manage keys, stop everything).

    For example:

      export E2B_API_KEY=$(hotdesk key new --name ci --power sandboxes)
      hotdesk key new --name anna --tenant acme --power jobs --power approve --expires 30d
    """
    keys = _load_keys()
    token = keys.make(arguments.name, arguments.tenant, arguments.power or POWERS, arguments.expires)
    note(keys.by_id[token[4:12]], "made")
    if arguments.json:
        print(json.dumps({**_describe_key(keys.by_id[token[4:12]]), "key": token}, indent=1))
    else:
        print(token)


def ls(arguments: argparse.Namespace) -> None:
    """List keys by their ids. The keys themselves are not stored.

    For example:

      hotdesk key ls
      hotdesk key ls --tenant acme --json | jq -r '.[] | select(.state == "valid").id'
    """
    found = [_describe_key(key) for key in _load_keys().ls(arguments.tenant)]
    if arguments.json:
        print(json.dumps(found, indent=1))
        return
    rows = [("ID", "NAME", "TENANT", "STATE", "EXPIRES", "POWERS")]
    for each in found:
        powers = "all" if len(each["powers"]) == len(POWERS) else " ".join(each["powers"])
        until = time.strftime(DAY, time.localtime(each["expires"])) if each["expires"] else "never"
        rows.append((each["id"], make_printable(each["name"]), each["tenant"], each["state"], until, powers))
    print("\n".join(align_columns(rows)))


def revoke(arguments: argparse.Namespace) -> None:
    """Revoke keys at once, in a running server, too. Browser sessions that were started with them end as well.

    For example:

      hotdesk key revoke 0f3a9c21
    """
    keys = _load_keys()
    revoked: list[Key] = []
    try:
        for number in arguments.ids:
            revoked.append(keys.revoke(number))
    finally:  # a journal that cannot be written must not keep a key valid
        for key in revoked:
            note(key, "revoked")


def note(key: Key, what: str) -> None:
    """Record a new or revoked key in the journal. Without root, only a server with nodes has a journal and keys."""
    settings = config.load()
    if os.geteuid() == 0 or find_node_identity(settings) is not None:
        fields = {
            "job": new_id(), "key": key.id, "what": what, "by": described_user(), "name": key.name,
            "tenant": key.tenant, "powers": list(key.powers),
        }  # fmt: skip
        Outbox(settings.lib).record("owner", "KeyChanged", fields)


def show(arguments: argparse.Namespace) -> None:
    """Show this machine's signer: its fingerprint and public key, for others to pin.

    For example:

      hotdesk key show
      hotdesk key show --pem > signer.pub
      hotdesk key show --json | jq -r .fingerprint
    """
    folder = config.load().lib / "keys"
    if not folder.exists():
        own = "" if os.geteuid() == 0 else "; `sudo hotdesk key show` shows the machine's own key"
        raise BriefError(f"there is no signing key in {folder} yet: the first job creates it{own}")
    public = load_own_public(folder)
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    if arguments.json:
        fields = {
            "fingerprint": compute_fingerprint(public),
            "public_key": encode_public_key(public),
            "pem": pem,
            "file": str(folder / PUBLIC),
        }
        print(json.dumps(fields, indent=1))
    elif arguments.pem:
        print(pem, end="")
    else:
        print(f"fingerprint  {compute_fingerprint(public)}", f"public key   {encode_public_key(public)}", sep="\n")
        print(f"pin it with  hotdesk verify FILE --signer {compute_fingerprint(public)}")


def _load_keys() -> ApiKeys:
    """Return the keys of this machine, also if a tenant is set: tenants have no keys of their own."""
    from hotdesk.api.keys import ApiKeys  # its packages are an extra that `key show` does not need

    environ = {name: value for name, value in os.environ.items() if name != "HOTDESK_TENANT"}
    return ApiKeys(config.load(environ).lib / "serve")


def _describe_key(key: Key) -> dict[str, Any]:
    from hotdesk.api.keys import is_valid

    now = time.time()
    state = "valid" if is_valid(key, now) else "revoked" if key.revoked else "expired"
    fields = {name: getattr(key, name) for name in ("id", "name", "tenant", "made", "expires", "revoked")}
    return {**fields, "powers": list(key.powers), "state": state}


def _parse_lifetime(text: str) -> float:
    seconds = parse_seconds(text)
    if seconds is None or seconds < 1:
        raise BriefError(f"{make_printable(text[:40])!r} is not a valid lifetime; write for example 12h or 30d")
    return seconds


ACTS = {"new": new, "ls": ls, "revoke": revoke, "show": show}
ARGUMENTS = {"new": add_new, "ls": add_ls, "revoke": _add_revoke, "show": add_show}
