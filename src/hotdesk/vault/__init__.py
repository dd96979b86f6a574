"""Secrets by name, encrypted.

How it works: a root key (a file, a passphrase, the system's keyring: `root.py`) seals one random data key, and that
seals every value with AES-256-GCM, bound to its name, version, kind and public fields (`store.py`). What kinds there
are and which values they take is `kinds.py`; `linux/private_files.py` writes the files. A `Secret` prints as `***`.
"""

from hotdesk.vault.kinds import (
    KINDS,
    Basic,
    Command,
    OAuth2,
    Public,
    Secret,
    SigV4,
    Token,
    Totp,
    compute_totp_code,
    decode_argv,
    decode_seed,
    encode_argv,
)
from hotdesk.vault.root import Source, Unlock
from hotdesk.vault.store import Vault, VaultEntry, exists, ls, read_source

__all__ = [
    "KINDS",
    "Basic",
    "Command",
    "OAuth2",
    "Public",
    "Secret",
    "SigV4",
    "Source",
    "Token",
    "Totp",
    "Unlock",
    "Vault",
    "VaultEntry",
    "compute_totp_code",
    "decode_argv",
    "decode_seed",
    "encode_argv",
    "exists",
    "ls",
    "read_source",
]
