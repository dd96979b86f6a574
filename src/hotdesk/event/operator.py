"""Events of changes by an operator, outside of any job: drive, vault, API keys, volumes, images."""

from __future__ import annotations

from typing import Literal

from hotdesk.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class DriveChanged:
    """A file in the drive was written or removed by hand."""

    job: str
    """An id made for this change."""
    name: str
    what: Literal["put", "removed"]
    by: str
    sha256: str = ""
    size: int = 0
    version: int = 0
    checks: tuple[str, ...] = ()
    """The checks that the file passed, if it was checked before."""


@dataclass(frozen=True, slots=True)
class VaultChanged:
    """A secret is about to be stored or removed, or the vault to be created or given a new root key.

    The event has nothing of a value or a key, nor anything derived from it.
    """

    job: str
    """An id made for this change."""
    name: str
    """The secret's name; empty if the event is about the vault itself."""
    what: Literal["put", "removed", "created", "new root key"]
    by: str


@dataclass(frozen=True, slots=True)
class KeyChanged:
    """A server's API key was made, or is about to be revoked. The event has nothing of the key itself."""

    job: str
    """An id made for this change."""
    key: str
    """The key's id."""
    what: Literal["made", "revoked"]
    by: str
    name: str = ""
    """The person or program that the key is for."""
    tenant: str = ""
    powers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VolumeChanged:
    """A volume is about to be made or removed, or a desk was opened that has it mounted."""

    job: str
    """An id made for this change."""
    volume: str
    what: Literal["made", "removed", "mounted"]
    by: str
    name: str = ""
    size: int = 0
    desk: str = ""
    path: str = ""
    """Its mount point in the desk."""


@dataclass(frozen=True, slots=True)
class ImageSigned:
    """An exported image was signed with this machine's key."""

    job: str
    """An id made for this change."""
    name: str
    sha256: str
    """SHA-256 of the exported payload."""
    by: str
