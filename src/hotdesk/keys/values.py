"""Values of secrets: brought by a desk's owner, stored in the vault, or made for each use."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from hotdesk.brief import Grant, Scope
from hotdesk.errors import BriefError, HostError, HotdeskError
from hotdesk.keys.charter import Granted, grant, grant_all
from hotdesk.keys.identity import IdentitySigner, load_identity
from hotdesk.keys.parse import parse_values
from hotdesk.keys.peer import REASON
from hotdesk.keys.sealed_values import SEALED, SealingKey, seal_values
from hotdesk.keys.token_command import TokenCommands
from hotdesk.vault import Secret, Totp, Vault, compute_totp_code, decode_argv, decode_seed


class SecretValues:
    """The vault, the signer of workload tokens, and token commands. Vault and signer are opened on first need."""

    def __init__(self, folder: Path, commands: TokenCommands, authority: str = "") -> None:
        self.folder = folder
        self.authority = authority
        self.sealing = SealingKey()
        self.commands = commands
        self.vault: Vault | None = None
        self.root: Secret | None = None
        """The vault's root key, sent by an owner that can derive it from a passphrase or read it from a keyring."""
        self.identity: IdentitySigner | None = None

    def load_grants(self, scope: Scope, message: Mapping[str, object], scopes: int = 0) -> list[Granted]:
        """Take the secrets of a scope: those its owner brings, and the vault's."""
        values = self.read_brought(message)
        if scope.tokens:
            self.get_identity_signer()  # from now on its public key is published
        stored = any(one.secret not in values and one.secret not in scope.tokens for one in scope.grants)
        return grant_all(self.open_vault() if stored else None, scope.grants, values, scopes, scope.tokens.keys())

    def read_brought(self, message: Mapping[str, object]) -> dict[str, bytes]:
        """Return the secrets that an owner brings, including those that another keys process sealed for this one."""
        values = parse_values(message.get("values", {}))
        return {**self.sealing.open(values.pop(SEALED)), **values} if SEALED in values else values

    def seal(self, scope: Scope, message: Mapping[str, object]) -> bytes:
        """Seal the vault's secrets of a scope for a node's keys. Only plain tokens can be used there."""
        values = parse_values(message.get("values", {}))
        found: dict[str, bytes] = {}
        for one in scope.grants:
            if one.secret in values or one.secret in scope.tokens:
                continue
            entry, secret = self.open_vault().take(one.secret)
            if entry.kind != "token":
                raise BriefError(
                    f"the secret {one.secret} is of kind {entry.kind}, but desks on nodes can use only secrets of kind "
                    "token; grant such a secret, or open the desk on a server without nodes"
                )
            found[one.secret] = secret.get_bytes()
        return seal_values(found, message, self.authority)

    def open_vault(self) -> Vault:
        if self.vault is None:
            self.vault = Vault(self.folder, self.root) if self.root else Vault.open(self.folder)
        return self.vault

    def get_identity_signer(self) -> IdentitySigner:
        """Return the signer of workload tokens; its public half is published from the first call on."""
        if self.identity is None:
            self.identity = load_identity(self.folder)
        return self.identity

    def make(self, granted: Granted, scope: Scope, desk: str, deliver: Callable[[bytes | HostError], None]) -> None:
        """Make a value for one use: a workload token, a one-time code, or the output of a command, which takes time."""
        name = granted.grant.secret
        if granted.kind == "identity":
            deliver(self.get_identity_signer().sign(scope.tokens[name], desk, time.time()))
            return
        entry, secret = self.open_vault().take(name)
        if isinstance(entry.public, Totp):
            deliver(compute_totp_code(decode_seed(secret.get_bytes()), time.time(), entry.public).encode())
            return

        def finish(reply: dict[str, str]) -> None:
            deliver(reply["value"].encode() if "value" in reply else HostError(reply["error"]))

        self.commands.ask(decode_argv(secret.get_bytes()), finish)

    def try_grants(self, grants: Sequence[Grant], report: Callable[[list[str]], None]) -> None:
        """Try each grant as a desk would use it; report the reason why each is not available, or an empty string."""
        tried = ["" for _ in grants]
        pending = set(range(len(grants)))

        def finish(index: int, why: str) -> None:
            tried[index] = why[:REASON]
            pending.discard(index)
            if not pending:
                report(tried)

        if not grants:
            report(tried)
        for index, one in enumerate(grants):
            try:
                self._try_grant(one, partial(finish, index))
            except HotdeskError as e:
                finish(index, str(e))

    def _try_grant(self, requested: Grant, finish: Callable[[str], None]) -> None:
        """Try one grant: a one-time code is really computed, and a program really run."""
        vault = self.open_vault()
        kind = grant(vault, 0, requested).kind
        entry, secret = vault.take(requested.secret)
        if kind == "command":
            self.commands.ask(decode_argv(secret.get_bytes()), lambda reply: finish(reply.get("error", "")))
            return
        if isinstance(entry.public, Totp):
            compute_totp_code(decode_seed(secret.get_bytes()), time.time(), entry.public)
        finish("")
