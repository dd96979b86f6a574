"""Secrets by name, encrypted.

How it works: a root key (from a file, a passphrase or the system's keyring, see `root.py`) encrypts one random data
key. The data key encrypts every value with AES-256-GCM, bound to its name, version, kind and public fields
(`store.py`). `kinds.py` defines the kinds and their valid values; `linux/private_files.py` writes the files. The `repr`
of a `Secret` is `***`.
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
