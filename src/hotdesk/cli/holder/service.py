"""The holder's service: owns desks, and ends when idle."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from dataclasses import replace

import anyio

from hotdesk.cli import prestart
from hotdesk.cli.desks import run
from hotdesk.cli.parser import parse
from hotdesk.cli.quick.arguments import FLAGS, SIZES
from hotdesk.config import Config
from hotdesk.desk.seam import Spec
from hotdesk.drive.identity import describe_caller
from hotdesk.errors import BriefError
from hotdesk.host import Host, control_path
from hotdesk.linux.landlock import confine
from hotdesk_guest import wire

_LOOK_INTERVAL_S = 0.5
_MAX_ARGUMENTS = 1000


class ResidentHolder:
    """One holder: its identity, and the desks it opens for callers."""

    def __init__(self, settings: Config, name: str) -> None:
        self.settings = settings
        self.identity = name
        self.path = settings.run / "control" / f"holder-{name}.sock"
        self.sources: dict[str, int] = {}
        """Modification time of each module's file."""
        self.started = time.time_ns()
        self.host: Host | None = None
        self.ready_spec: Spec | None = None
        """Specification of the desk that is kept ready for the next command."""
        self.is_current()

    def read_lease(self, body: bytes, pid: int, uid: int) -> Spec:
        """Parse the request of `hotdesk run` with its own parser; the kernel reports the caller."""
        if not self.settings.holder:
            raise BriefError(
                "the background process of `hotdesk run` is disabled by `enabled = false` in `[holder]` of config.toml"
            )
        if not self.is_current():
            self.retire()
            raise BriefError(
                "this background process runs an older version of hotdesk, and ends; run the command again"
            )
        argv, variables = _parse_lease(body)
        arguments = parse("run", run, [*argv, "--", "true"])
        spec = run.make_run_spec(arguments)
        self.keep_ready(spec)
        return replace(spec, by=describe_caller(uid, pid, variables))

    def keep_ready(self, spec: Spec) -> None:
        """Keep a desk like the last one ready for the next command, unless it has a screen, which is expensive."""
        if self.host is None or (self.ready_spec is not None and spec.is_like(self.ready_spec)):
            return
        if self.ready_spec is not None:
            self.release_ready(self.ready_spec.image)
        if self.settings.holder_ready and not self.host.has_screen(spec.image):
            self.host.pool.keep(spec, self.settings.holder_ready)
            self.ready_spec = spec

    def release_ready(self, image: str) -> None:
        """Burn the ready desk if it is of an image, and keep none until the next command."""
        if self.host is not None and self.ready_spec is not None and self.ready_spec.image == image:
            self.host.pool.keep(self.ready_spec, 0)
            self.ready_spec = None

    def is_current(self) -> bool:
        """Return whether this process runs the modules that are on disk."""
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if not isinstance(path, str):
                continue
            try:
                changed = os.stat(path).st_mtime_ns
            except OSError:
                return False
            if changed > self.started or self.sources.setdefault(path, changed) != changed:
                return False
        return True

    def announce(self) -> None:
        """Publish the control socket under the holder's name, atomically."""
        fresh = self.path.with_name(f".{self.path.name}")
        fresh.unlink(missing_ok=True)
        os.link(control_path(self.settings, os.getpid()), fresh)
        fresh.replace(self.path)

    def retire(self) -> None:
        """Stop being found by new commands; open desks stay."""
        if self.is_announced():
            self.path.unlink(missing_ok=True)

    def is_announced(self) -> bool:
        """Return whether callers find this holder: not after its state directory was removed."""
        with suppress(OSError):
            return self.path.stat().st_ino == control_path(self.settings, os.getpid()).stat().st_ino
        return False

    async def hold(self) -> None:
        async with Host(self.settings, keeper=prestart.take_keeper(), leases=self) as host:
            self.host = host
            confine([self.path.parent])
            self.announce()
            try:
                await self.wait_until_idle(host)
            finally:
                self.retire()

    async def wait_until_idle(self, host: Host) -> None:
        runtime = host.get_keeper_runtime()
        patience = float(os.environ.get("HOTDESK_LINGER") or self.settings.holder_idle)
        quiet = 0.0
        while runtime.keeper.failure is None:
            served = runtime.served
            await anyio.sleep(min(_LOOK_INTERVAL_S, patience))
            if runtime.list_awake() or runtime.opening or runtime.calls or runtime.served != served:
                quiet = 0.0
            elif (quiet := quiet + _LOOK_INTERVAL_S) >= patience or not self.is_announced():
                return


def _parse_lease(body: bytes) -> tuple[list[str], dict[str, str]]:
    """Parse the options of a `run` that a holder may serve, and the caller's variables."""
    try:
        match wire.decode(body):
            case {"argv": list(argv), "variables": dict(variables), **rest} if not rest and len(argv) < _MAX_ARGUMENTS:
                if all(_is_option(each) for each in argv) and all(isinstance(each, str) for each in variables.values()):
                    return argv, variables
    except wire.WireError as e:
        raise BriefError(f"malformed request for a desk: {e}") from e
    raise BriefError(
        "malformed request for a desk: it needs `argv` (the options of `hotdesk run` that a holder accepts) and "
        "`variables`"
    )


def _is_option(text: object) -> bool:
    if not isinstance(text, str):
        return False
    name, equals, _ = text.partition("=")
    return name in SIZES if equals else name in FLAGS


def main(name: str) -> None:
    """Run the holder with this identity."""
    anyio.run(ResidentHolder(prestart.get_settings(), name).hold)
