"""Settings and certificates of a running server, read again on SIGHUP; its desks, streams and listeners stay."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import fields, replace

import anyio
import anyio.to_thread

from hotdesk.api.log import LOG
from hotdesk.api.settings import Serving
from hotdesk.config import Config
from hotdesk.errors import HotdeskError

LIVE = ("certificate", "private_key", "longest", "requester_may_approve", "shutdown", "quota", "wall", "tenants")
"""Settings that take effect on a reload; the others need a restart."""
TLS = ("certificate", "private_key")
"""Settings whose first or last value needs a restart, which opens or closes the port for TLS."""


LIVE_MACHINE = ("retention_days",)
"""Settings outside `[serve]` that take effect on a reload."""
MACHINE = {
    "retention_days": "jobs.retention_days", "patience": "jobs.patience", "drive_quota": "drive.quota",
    "ceiling": "door.ceiling", "names": "door.names", "ca": "door.ca", "proxy": "door.proxy",
    "approval_seconds": "door.approval_seconds", "limits": "ceiling", "signers": "verify.signers",
    "verify_wall": "verify.wall", "gvisor_program": "wall.gvisor.program", "gvisor_platform": "wall.gvisor.platform",
    "microvm_emulate": "wall.microvm.emulate", "prices": "prices", "models": "models", "images": "images",
    "runtime": "runtime", "disk": "disk", "disk_floor": "disk_floor", "memory_floor": "memory_floor",
    "pids_floor": "pids_floor",
}  # fmt: skip
"""The names in `config.toml` of settings outside `[serve]` that a server uses."""


class Reloading:
    """Reads settings again on request, and notifies their holders."""

    def __init__(
        self,
        serving: Serving,
        read: Callable[[], Serving] | None = None,
        read_machine: Callable[[], Config] | None = None,
    ) -> None:
        self.serving = serving
        self.read = read or (lambda: serving)
        self.read_machine = read_machine
        self.machine: Config | None = None
        """The settings outside `[serve]` that this server uses; `None`: they are not compared."""
        self.requested = anyio.Event()
        self.holders: list[Callable[[Serving], None]] = []
        self.machine_holders: list[Callable[[Config], None]] = []

    def follow_machine(self, used: Config, read: Callable[[], Config]) -> None:
        """Compare, at each reload, the settings outside `[serve]` with those that this server uses."""
        self.machine = used
        self.read_machine = self.read_machine or read

    def ask(self) -> None:
        self.requested.set()

    def add(self, holder: Callable[[Serving], None]) -> None:
        """Call `holder` with new settings that were checked."""
        self.holders.append(holder)

    async def run(self) -> None:
        while True:
            await self.requested.wait()
            self.requested = anyio.Event()
            await self.reload()

    async def reload(self) -> None:
        """Reload the settings; invalid ones change nothing, and the log says why."""
        try:
            loaded = await anyio.to_thread.run_sync(self.read)
            machine = await self._load_machine()
            live = [name for name in LIVE if name not in TLS or _has_tls(loaded) == _has_tls(self.serving)]
            found = replace(self.serving, **{name: getattr(loaded, name) for name in live})
            _check_certificate(found)
        except Exception as e:  # noqa: BLE001 - whatever is wrong with the settings, the server and its desks go on
            LOG.write("reload", f"nothing was reloaded: {e}")
            return
        try:
            for holder in self.holders:
                holder(found)
            later = self._apply_machine(machine)
        except (HotdeskError, OSError, ssl.SSLError) as e:
            LOG.write("reload", f"not everything was reloaded: {e}; send SIGHUP again, or restart the server")
            return
        self.serving = found
        others = (each.name for each in fields(loaded) if each.name not in (*live, "port"))
        later = [*(name for name in others if getattr(loaded, name) != getattr(found, name)), *later]
        LOG.write("reload", "reloaded certificate and settings", needs_restart=",".join(later) or "nothing")

    async def _load_machine(self) -> Config | None:
        if self.machine is None or self.read_machine is None:
            return None
        return await anyio.to_thread.run_sync(self.read_machine)

    def _apply_machine(self, loaded: Config | None) -> list[str]:
        """Apply what can be changed of the settings outside `[serve]`; return the names of changed others."""
        if self.machine is None or loaded is None:
            return []
        self.machine = replace(self.machine, **{name: getattr(loaded, name) for name in LIVE_MACHINE})
        for holder in self.machine_holders:
            holder(self.machine)
        return [where for name, where in MACHINE.items() if getattr(loaded, name) != getattr(self.machine, name)]


def _has_tls(serving: Serving) -> bool:
    return serving.certificate is not None


def _check_certificate(serving: Serving) -> None:
    """Load the certificate into a new context: a failed attempt leaves a context in use without its key."""
    if serving.certificate is not None:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(serving.certificate, serving.private_key)


def make_certificate_loader(context: ssl.SSLContext) -> Callable[[Serving], None]:
    """Return a function that loads the certificate of given settings for new connections."""

    def load(serving: Serving) -> None:
        if serving.certificate is not None:
            context.load_cert_chain(serving.certificate, serving.private_key)

    return load
