"""Events of changes by hand, outside of any job: drive, vault, API keys, volumes, images."""

from __future__ import annotations

from typing import Literal

from hotdesk.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class DriveChanged:
    """A name in the drive was written or removed by hand."""

    job: str
    """The act's own id."""
    name: str
    what: Literal["put", "removed"]
    by: str
    sha256: str = ""
    size: int = 0
    version: int = 0
    checks: tuple[str, ...] = ()
    """Of a file that was looked at before: the checks it passed."""


@dataclass(frozen=True, slots=True)
class VaultChanged:
    """A secret is about to be put in or removed. Nothing of its value is here, nor made of it."""

    job: str
    """The act's own id."""
    name: str
    what: Literal["put", "removed"]
    by: str


@dataclass(frozen=True, slots=True)
class KeyChanged:
    """A server's API key was made, or is about to be revoked. Nothing of the key itself is here."""

    job: str
    """The act's own id."""
    key: str
    """The key's id."""
    what: Literal["made", "revoked"]
    by: str
    name: str = ""
    """Whom the key is for."""
    tenant: str = ""
    powers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VolumeChanged:
    """A volume, which outlives desks, is about to be made or removed, or a desk was opened that has it mounted."""

    job: str
    """The act's own id."""
    volume: str
    what: Literal["made", "removed", "mounted"]
    by: str
    name: str = ""
    size: int = 0
    desk: str = ""
    path: str = ""
    """Where the desk has it."""


@dataclass(frozen=True, slots=True)
class ImageSigned:
    """An image that is exported was signed with this machine's key."""

    job: str
    """The act's own id."""
    name: str
    sha256: str
    """Of the exported payload."""
    by: str
