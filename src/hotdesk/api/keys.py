"""API keys of programs and people: hashed, scoped, expiring, revocable."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from hotdesk.api.caller import POWERS, Caller, Power
from hotdesk.api.log import LOG
from hotdesk.config import DEFAULT_TENANT, TENANT_SHAPE
from hotdesk.errors import BriefError, HostError, make_printable
from hotdesk.linux import private_files

FILE = "api-keys.json"
LOCK = "api-keys.lock"
SHAPE = re.compile(r"e2b_[0-9a-f]{8}[0-9a-f]{32}")
"""`e2b_`, so that every E2B SDK accepts it; the first eight digits are the key's id, the rest its secret."""
ID_SHAPE = re.compile(r"[0-9a-f]{8}")
NAME_SHAPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
"""The name of the person or program that uses a key; shown with approvals and jobs."""
MAX_KEYS, MAX_TENANT_KEYS = 10_000, 1000
"""Valid keys of all tenants and of one; as many revoked or expired keys of one tenant are kept, too."""
POLL_INTERVAL_S = 1.0
"""Seconds between two checks whether the key of a stream is still valid."""
NOBODY = "0" * 64
"""The digest that an unknown key is compared with, so that checking it takes as long as for a known one."""


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class Key:
    """The stored part of a key: enough to recognise it, not to use it."""

    id: str
    digest: str
    """SHA-256 of the whole key, in hexadecimal."""
    name: str
    tenant: str = DEFAULT_TENANT
    powers: tuple[Power, ...] = tuple(sorted(POWERS))
    made: float = 0.0
    expires: float | None = None
    revoked: float | None = None


STORED = TypeAdapter(list[Key])


class ApiKeys:
    """The keys of a server, in one file that only its owner reads."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.by_id: dict[str, Key] = {}
        self.stamp = (0, 0, 0)
        self.wrong = ""
        """The last problem with the file that was logged."""

    def find(self, text: str) -> Caller | None:
        """Return the caller that a key identifies; `None` if the key is unknown, revoked or expired."""
        if not SHAPE.fullmatch(text):
            return None
        self.look()
        key = self.by_id.get(text[4:12])
        same = hmac.compare_digest(compute_digest(text), NOBODY if key is None else key.digest)
        return _make_caller(key) if same and key is not None and is_valid(key, time.time()) else None

    def find_caller(self, number: str) -> Caller | None:
        """Return the caller of a key that was checked before; `None` once the key is revoked or expired."""
        self.look()
        key = self.by_id.get(number)
        return _make_caller(key) if key is not None and is_valid(key, time.time()) else None

    async def wait_end(self, number: str) -> None:
        while self.find_caller(number) is not None:  # noqa: ASYNC110 - who revokes it is another process
            await anyio.sleep(POLL_INTERVAL_S)

    def make(
        self, name: str, tenant: str = DEFAULT_TENANT, powers: Collection[Power] = POWERS, seconds: float | None = None
    ) -> str:
        """Create a key and return it; only its digest is stored."""
        check(name, tenant, powers, seconds)
        with self.changing():
            self.require_room(tenant)
            text = f"e2b_{secrets.token_hex(20)}"
            while text[4:12] in self.by_id:
                text = f"e2b_{secrets.token_hex(20)}"
            now = time.time()
            until = None if seconds is None else now + seconds
            scope = tuple(sorted(set(powers)))
            self.by_id[text[4:12]] = Key(text[4:12], compute_digest(text), name, tenant, scope, now, until)
        return text

    def require_room(self, tenant: str) -> None:
        """Refuse a key beyond the limits, and drop the tenant's oldest invalid keys."""
        now = time.time()
        valid = {key.id: key.tenant for key in self.by_id.values() if is_valid(key, now)}
        if len(valid) >= MAX_KEYS or list(valid.values()).count(tenant) >= MAX_TENANT_KEYS:
            raise BriefError(
                f"no more keys can be created: the limit is {MAX_TENANT_KEYS} valid keys for tenant {tenant}, and "
                f"{MAX_KEYS} for all tenants; revoke some"
            )
        over = [key.id for key in self.by_id.values() if key.tenant == tenant and key.id not in valid]
        for number in over[:-MAX_TENANT_KEYS]:
            del self.by_id[number]

    def ls(self, tenant: str | None = None) -> list[Key]:
        """List keys, the oldest first; `tenant=None` lists those of all tenants."""
        self.refresh()
        found = [key for key in self.by_id.values() if tenant in (None, key.tenant)]
        return sorted(found, key=lambda key: (key.made, key.id))

    def count_tenants(self) -> int:
        self.look()
        now = time.time()
        return len({key.tenant for key in self.by_id.values() if is_valid(key, now)})

    def revoke(self, number: str, tenant: str | None = None) -> Key:
        """Revoke a key; revoking it again has no effect. Another tenant's key counts as unknown."""
        with self.changing():
            key = self.by_id.get(number)
            if key is None or tenant not in (None, key.tenant):
                raise BriefError(f"there is no key {make_printable(number[:40])!r}; `hotdesk key ls` lists the keys")
            if key.revoked is None:
                key = self.by_id[number] = replace(key, revoked=time.time())
        return key

    def look(self) -> None:
        """Read the file again if it changed; while it is damaged no key is valid, and the error is logged once."""
        try:
            self.refresh()
        except HostError as e:
            if str(e) != self.wrong:
                LOG.report_error(e)
            self.wrong = str(e)

    def refresh(self) -> None:
        try:
            info = self.path.stat()
        except FileNotFoundError:
            self.by_id, self.stamp = {}, (0, 0, 0)
            return
        stamp = (info.st_mtime_ns, info.st_ino, info.st_size)
        if self.stamp != stamp:
            self.by_id = {}  # until the file is read: with a damaged file no key is valid
            self.by_id = read(self.path)
            self.stamp = stamp

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Lock and read the file; write the keys at the end of the block unless it fails."""
        private_files.make_folder(self.path.parent)
        with private_files.hold_lock(self.path.parent, LOCK):
            self.refresh()
            before = dict(self.by_id)
            try:
                yield
                private_files.write(self.path.parent, FILE, STORED.dump_json(list(self.by_id.values())))
            except BaseException:
                self.by_id = before
                raise
            self.stamp = (0, 0, 0)


def read(path: Path) -> dict[str, Key]:
    """Read the keys; `HostError` if the file is damaged."""
    try:
        return {key.id: key for key in STORED.validate_json(private_files.read(path.parent, path.name) or b"[]")}
    except ValidationError as e:
        wrong = e.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, wrong["loc"])) or "its first line"
        raise HostError(
            f"{path} is damaged at {place}: {wrong['msg']}; restore it from a backup, or move it away and "
            "create new keys"
        ) from None


def check(name: str, tenant: str, powers: Collection[Power], seconds: float | None) -> None:
    if not NAME_SHAPE.fullmatch(name):
        raise BriefError(
            f"{make_printable(name[:80])!r} is not a valid key name; use up to 64 letters, digits and . _ @ -"
        )
    if not TENANT_SHAPE.fullmatch(tenant):
        raise BriefError(
            f"{make_printable(tenant[:40])!r} is not a valid tenant name; use up to 32 lower-case letters, digits "
            "and hyphens"
        )
    if not powers or not set(powers) <= POWERS:
        raise BriefError(f"a key needs at least one power; the powers are {', '.join(sorted(POWERS))}")
    if seconds is not None and not 1 <= seconds <= 3650 * 86400:
        raise BriefError(
            "the lifetime of a key must be between 1 second and 10 years; without a lifetime, the key is valid until "
            "it is revoked"
        )


def _make_caller(key: Key) -> Caller:
    return Caller(key.tenant, key.name, key.id, frozenset(key.powers))


def compute_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def is_valid(key: Key, now: float) -> bool:
    return key.revoked is None and (key.expires is None or now < key.expires)
