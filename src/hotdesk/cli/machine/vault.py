"""`hotdesk vault`: store secrets by name; their values are never shown again."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.parser import add_acts
from hotdesk.cli.terminal import align_columns
from hotdesk.desk.keeper.outbox import Outbox
from hotdesk.desk.seam import new_id
from hotdesk.drive.identity import describe_actor as described_user
from hotdesk.errors import BriefError, HostError
from hotdesk.linux import private_files, uids
from hotdesk.vault import (
    KINDS,
    Basic,
    Command,
    OAuth2,
    Public,
    SigV4,
    Token,
    Totp,
    Vault,
    VaultEntry,
    encode_argv,
    exists,
    read_source,
)
from hotdesk.vault import ls as list_entries
from hotdesk.vault.kinds import MAX_VALUE_BYTES
from hotdesk.vault.root import Source

PASSPHRASE_FILE = "HOTDESK_VAULT_PASSPHRASE_FILE"  # noqa: S105 - the name of a variable
_NEW_PASSPHRASE_FILE = "HOTDESK_VAULT_NEW_PASSPHRASE_FILE"  # noqa: S105 - the name of a variable
OWNER: int | None = uids.KEYS
_SOURCES: tuple[Source, ...] = ("file", "passphrase", "keyring")


def add(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=None)
    add_acts(parser, ACTS, ARGUMENTS)


def _add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="the secret's name: 1 to 64 of the characters a-z, 0-9 and -")
    parser.add_argument("--kind", choices=[*KINDS], help="the kind of secret (default: token)")
    parser.add_argument(
        "--command", dest="kind", action="store_const", const="command", help="the same as --kind command"
    )
    parser.add_argument(
        "--user", help="basic: the user name; then enter only the password (default: enter USER:PASSWORD)"
    )
    parser.add_argument("--token-url", metavar="URL", help="oauth2: the URL of the token endpoint")
    parser.add_argument("--client-id", metavar="ID", help="oauth2: the client id")
    parser.add_argument("--scope", metavar="WORDS", help="oauth2: the scope to request")
    parser.add_argument(
        "--insecure-loopback", action="store_true", help="oauth2: allow http for a token endpoint on this machine"
    )
    parser.add_argument("--digits", type=int, help="totp: number of digits of a code (default: 6)")
    parser.add_argument("--period", type=int, metavar="SECONDS", help="totp: time a code is valid (default: 30)")
    parser.add_argument(
        "--key-id",
        metavar="ID",
        help="sigv4: the access key's id; enter the secret key at the prompt or on standard input",
    )
    parser.add_argument("--service", help="sigv4: sign only requests to this service, such as s3")
    parser.add_argument("--region", help="sigv4: sign only requests to this region")
    parser.add_argument("--bucket", help="sigv4 with --service s3: sign only requests to this bucket")
    parser.add_argument(
        "--algorithm", choices=("SHA1", "SHA256", "SHA512"), help="totp: the hash algorithm (default: SHA1)"
    )


def add_rm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="the secret's name")


def _add_rotate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="the name of the secret that gets a new value")
    parser.add_argument("--root", action="store_true", help="replace the vault's root key instead of a secret")
    parser.add_argument(
        "--root-key",
        choices=_SOURCES,
        help="with --root: where the new root key comes from: a file, a passphrase or the keyring",
    )


def _add_init(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root-key",
        choices=_SOURCES,
        default="file",
        help="where the root key comes from: a file, a passphrase or the keyring (default: file)",
    )


def main(arguments: argparse.Namespace) -> int:
    """Store secrets by name. A desk gets a placeholder; the door replaces it with the value in outgoing requests.

    A value is typed at a prompt or read from standard input. It is never an argument and never shown again.

    For example:

      hotdesk vault set erp-token < token.txt
      hotdesk vault ls
    """
    arguments.main(arguments)
    return 0


def _set_(arguments: argparse.Namespace) -> None:
    """Store a secret, whose value is read from standard input or asked for at a terminal.

    An existing secret of that name is replaced, with the next version number.

      hotdesk vault set erp-token < token.txt
      hotdesk vault set mail --kind basic --user anna
      hotdesk vault set crm --kind oauth2 --token-url https://login.test/token --client-id desk --scope read
      hotdesk vault set portal --kind totp < seed.txt
      hotdesk vault set files --kind sigv4 --key-id AKIDEXAMPLE --service s3 --region eu-west-1 --bucket files < key.txt
      hotdesk vault set cloud --command -- /usr/bin/cloud-login print-token

    If there is no vault yet, one is created with its root key in a file next to it.
    """
    _check_options(arguments)
    public, value = _build_secret(arguments)
    vault = _unlock_vault() if exists(get_folder()) else _create_vault("file")
    note(arguments.name, "put")
    tell(vault.put(arguments.name, public, value, loopback=arguments.insecure_loopback))


def rotate(arguments: argparse.Namespace) -> None:
    """Give a secret a new value, or with --root the vault a new root key.

    hotdesk vault rotate erp-token < token.txt
    hotdesk vault rotate --root
    hotdesk vault rotate --root --root-key passphrase
    """
    if arguments.root == (arguments.name is not None) or (arguments.root_key and not arguments.root):
        raise BriefError("pass either the name of a secret or --root; --root-key can only be used with --root")
    vault = _unlock_vault()
    if arguments.root:
        source = arguments.root_key or read_source(get_folder())
        passphrase = _new_passphrase() if source == "passphrase" else b""
        note("", "new root key")
        vault.rotate_root(source, lambda: passphrase)
        print("the vault now has a new root key")
        return
    entry = vault.read_entry(arguments.name)
    if arguments.command is not None and entry.kind != "command":
        raise BriefError(
            f"{arguments.name} is not a secret of kind command, so it takes no program after `--`; pass its value on "
            "standard input or at the prompt"
        )
    value = _make_command_value(arguments.command) if entry.kind == "command" else _ask_value(arguments.name)
    note(arguments.name, "put")
    tell(vault.rotate(arguments.name, value))


def rm(arguments: argparse.Namespace) -> None:
    """Delete a secret.

    hotdesk vault rm erp-token
    """
    vault = _unlock_vault()
    note(arguments.name, "removed")
    vault.remove(arguments.name)


def ls(arguments: argparse.Namespace) -> None:
    """List the secrets with their public properties, never their values.

    hotdesk vault ls
    hotdesk vault ls --json | jq -r '.[].name'
    """
    entries = list_entries(get_folder())
    if arguments.json:
        print(json.dumps([as_json(entry) for entry in entries], indent=1))
        return
    rows = [("NAME", "KIND", "VERSION", "CHANGED", "PUBLIC")]
    rows += [(e.name, e.kind, str(e.version), format_moment(e.changed), _format_fields(e.public)) for e in entries]
    print("\n".join(align_columns(rows)))


def init(arguments: argparse.Namespace) -> None:
    """Create an empty vault.

      hotdesk vault init
      hotdesk vault init --root-key passphrase

    A passphrase is read from a prompt, or from the file that HOTDESK_VAULT_PASSPHRASE_FILE names.
    """
    _create_vault(arguments.root_key)
    print(f"created a vault in {get_folder()}")


ACTS = {"set": _set_, "ls": ls, "rm": rm, "rotate": rotate, "init": init}
ARGUMENTS = {"set": _add_set, "ls": options.add_json, "rm": add_rm, "rotate": _add_rotate, "init": _add_init}
_OF_KIND = {
    "basic": ("user",),
    "oauth2": ("token_url", "client_id", "scope", "insecure_loopback"),
    "totp": ("digits", "period", "algorithm"),
    "sigv4": ("key_id", "service", "region", "bucket"),
}


def get_folder() -> Path:
    return config.load().lib / "keys"


def note(name: str, what: str) -> None:
    """Record a change in the journal before it is made, unless a server did. Only root's vault has a journal."""
    if os.geteuid() == 0 and "HOTDESK_REQUESTER" not in os.environ:
        fields = {"job": new_id(), "name": name, "what": what, "by": described_user()}
        Outbox(get_folder().parent).record("owner", "VaultChanged", fields)


def _unlock_vault() -> Vault:
    return Vault.open(get_folder(), lambda: read_passphrase(PASSPHRASE_FILE) or ask_hidden("Passphrase of the vault: "))


def _create_vault(source: Source) -> Vault:
    """Create a vault and record that; raise `BriefError` if there is one."""
    folder, passphrase = get_folder(), b""
    if not exists(folder):
        passphrase = _get_first_passphrase() if source == "passphrase" else b""
        note("", "created")
    return Vault.make(folder, source, lambda: passphrase, owner=OWNER)


def _check_options(arguments: argparse.Namespace) -> None:
    """Refuse options of another kind, which would have no effect."""
    arguments.kind = arguments.kind or "token"
    for kind, names in _OF_KIND.items():
        for name in names:
            if kind != arguments.kind and getattr(arguments, name) not in (None, False):
                raise BriefError(
                    f"--{name.replace('_', '-')} can only be used with --kind {kind}, not {arguments.kind}"
                )
    if arguments.command is not None and arguments.kind != "command":
        raise BriefError(
            "only --kind command takes a program after `--`; pass a value on standard input or at the prompt"
        )


def _build_secret(arguments: argparse.Namespace) -> tuple[Public, bytes]:
    if arguments.kind == "command":
        return Command(), _make_command_value(arguments.command)
    value = _ask_value(arguments.name)
    match arguments.kind:
        case "basic":
            user, password = (arguments.user.encode(), value) if arguments.user else _split_user(value)
            return Basic(user.decode(errors="replace")), password
        case "oauth2":
            return OAuth2(arguments.token_url or "", arguments.client_id or "", arguments.scope or ""), value
        case "totp":
            chosen = {name: getattr(arguments, name) for name in _OF_KIND["totp"]}
            return Totp(**{name: option for name, option in chosen.items() if option is not None}), value
        case "sigv4":
            return SigV4(*(getattr(arguments, name) or "" for name in _OF_KIND["sigv4"])), value
        case _:
            return Token(), value


def _split_user(value: bytes) -> tuple[bytes, bytes]:
    """Split USER:PASSWORD."""
    user, colon, password = value.partition(b":")
    if not colon:
        raise BriefError("the value of a basic secret must be USER:PASSWORD; with --user it is the password alone")
    return user, password


def _make_command_value(argv: list[str] | None) -> bytes:
    """Return a command as a secret's value; its program must be executable."""
    value = encode_argv(argv or [])
    if not os.access((argv or [""])[0], os.X_OK):
        program = (argv or [""])[0]
        raise BriefError(
            f"the program {program} is not executable; run `chmod +x {program}`"
            if os.path.exists(program)
            else f"the program {program} does not exist; pass the path of a program after `--`"
        )
    return value


def _ask_value(name: str) -> bytes:
    """Read a value: typed twice without echo at a terminal, else standard input without its last line break."""
    if sys.stdin.isatty():
        return _ask_twice(f"Value of {name}: ")
    value = sys.stdin.buffer.read(MAX_VALUE_BYTES + 3)
    return value.removesuffix(b"\n").removesuffix(b"\r")


def ask_hidden(prompt: str) -> bytes:
    """Ask at the terminal without echo."""
    try:
        with open("/dev/tty", "rb"):  # without a terminal, getpass would read with echo
            return getpass.getpass(prompt).encode("utf-8", "surrogateescape")
    except OSError as e:
        raise HostError(
            f"there is no terminal to ask for the passphrase; set {PASSPHRASE_FILE} (for a new one, "
            f"{_NEW_PASSPHRASE_FILE}) to the path of a file that contains it"
        ) from e
    except EOFError:
        raise BriefError("nothing was typed") from None


def _ask_twice(prompt: str) -> bytes:
    first = ask_hidden(prompt)
    if ask_hidden("Again: ") != first:
        raise BriefError("the two values that were typed differ; nothing was changed")
    return first


def _get_first_passphrase() -> bytes:
    return read_passphrase(PASSPHRASE_FILE) or _ask_twice("New passphrase of the vault: ")


def _new_passphrase() -> bytes:
    return read_passphrase(_NEW_PASSPHRASE_FILE) or _ask_twice("New passphrase of the vault: ")


def read_passphrase(variable: str) -> bytes | None:
    if not (name := os.environ.get(variable)):
        return None
    try:
        with open(name, "rb") as file:
            private_files.check(os.fstat(file.fileno()), Path(name), 0o077)
            return file.read().removesuffix(b"\n").removesuffix(b"\r")
    except OSError as e:
        raise BriefError(f"{variable} is set to {name}, which cannot be read: {e.strerror}") from e


def tell(entry: VaultEntry) -> None:
    """Print the stored secret's name, kind and version, never its value."""
    print(f"{entry.name} {entry.kind} version {entry.version}")


def as_json(entry: VaultEntry) -> dict[str, object]:
    fields = {"name": entry.name, "kind": entry.kind, "version": entry.version}
    return {**fields, "created": entry.created, "changed": entry.changed, "public": asdict(entry.public)}


def _format_fields(public: Public) -> str:
    return " ".join(f"{name}={value}" for name, value in asdict(public).items() if value != "")


def format_moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
