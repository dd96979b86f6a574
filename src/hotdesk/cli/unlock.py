"""Obtains the vault's root key from a person or their keyring, before this command drops its privileges."""

from __future__ import annotations

import base64
import os

from hotdesk.brief.data import Scope
from hotdesk.cli.machine.vault import PASSPHRASE_FILE, ask_hidden, read_passphrase
from hotdesk.config import Config
from hotdesk.errors import BriefError
from hotdesk.vault import exists, read_source, root
from hotdesk.vault.store import load


def find(settings: Config, scope: Scope) -> str:
    """Return the root key in base64, or `""` if the keys process can read it itself or the vault is a server's.

    A passphrase is converted to a key here, because that needs more memory and threads than the keys process may use.
    """
    folder = settings.lib / "keys"
    if not scope.grants or os.geteuid() != 0:
        return ""
    if not exists(folder):
        name = scope.grants[0].secret
        raise BriefError(
            f"there is no vault yet, so the secret {name} is missing; store it with `hotdesk vault set {name}`"
        )
    if read_source(folder) == "file":
        return ""
    return base64.b64encode(root.find(folder, load(folder).root, _get_passphrase).get_bytes()).decode()


def _get_passphrase() -> bytes:
    return read_passphrase(PASSPHRASE_FILE) or ask_hidden("Passphrase of the vault: ")
