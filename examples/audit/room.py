"""What a run happens in: a state directory of its own that survives a kill, an ERP, and a thief's server."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from examples import trial, website
from examples.audit import erp as erps
from examples.audit.invoices import Invoice

from hotdesk import config

THIEF = "collect.example.test"
POINTER = "audit-state"
"""The file that says where the state of a run is."""


@dataclass
class Room:
    """One state directory."""

    out: Path
    home: Path
    password: str = ""
    ports: dict[str, int] = field(default_factory=dict)

    @classmethod
    def new(cls, out: Path) -> Room:
        """Make one; what an earlier run left is removed."""
        with suppress(FileNotFoundError):
            Room(out, Path((out / POINTER).read_text())).clear()
        home = Path(tempfile.mkdtemp(prefix="hotdesk-audit-"))
        home.chmod(0o711)  # desks' own users must be able to reach their rooms
        (out / POINTER).write_text(str(home))
        (home / "etc").mkdir()
        website.certify(home, erps.HOST, THIEF)
        return cls(out, home, secrets.token_urlsafe(32))

    @classmethod
    def resumed(cls, out: Path) -> Room:
        """Find the one of a run that was stopped."""
        home = Path((out / POINTER).read_text())
        told = json.loads((home / "room.json").read_text())
        return cls(out, home, told["password"], told["ports"])

    @property
    def env(self) -> dict[str, str]:
        """Give the variables that put `hotdesk` there."""
        return {**os.environ, "HOTDESK_HOME": str(self.home), "HOTDESK_IMAGES": str(config.load().images)}

    @property
    def job(self) -> str:
        """Give its one job."""
        [job] = os.listdir(self.home / "lib/jobs")
        return job

    @contextmanager
    def serving(self, orders: tuple[Invoice, ...]) -> Iterator[tuple[erps.Erp, list[str]]]:
        """Give an ERP that runs, and what a thief's server hears; the door knows where both are."""
        erp = erps.Erp(self.home / "ca.pem", orders, self.password, self.ports.get(erps.HOST, 0))
        heard: list[str] = []
        thief = type("Listening", (Thief,), {"heard": heard})
        chain = self.home / "site.pem"
        with erps.serving(erp, chain), website.serving(thief, chain, self.ports.get(THIEF, 0)) as port:
            self.ports = {erps.HOST: erp.port, THIEF: port}
            self.furnish()
            yield erp, heard

    def furnish(self) -> None:
        """Write the settings, put the password into the vault, and remember what a resumed run needs."""
        (self.home / "etc/config.toml").write_text(website.door(self.home / "ca.pem", self.ports))
        argv = [*trial.HOTDESK, "vault", "set", "erp-password"]
        subprocess.run(argv, env=self.env, input=self.password.encode(), check=True, stdout=subprocess.DEVNULL)
        (self.home / "room.json").touch(0o600)
        (self.home / "room.json").write_text(json.dumps({"password": self.password, "ports": self.ports}))

    def is_used(self) -> bool:
        """Say whether the process that worked here still does."""
        try:
            return str(self.home).encode() in Path("/proc", (self.home / "worker").read_text(), "environ").read_bytes()
        except OSError:
            return False

    def clear(self) -> None:
        """Remove it with all that is in it; desks that nobody claims are buried first."""
        if self.is_used():
            raise SystemExit(f"an earlier run still works in {self.home}: wait for it, or interrupt it")
        if self.home.name.startswith("hotdesk-audit-") and self.home.exists():
            subprocess.run([*trial.HOTDESK, "gc"], env=self.env, capture_output=True, check=False)
            shutil.rmtree(self.home)
        (self.out / POINTER).unlink(missing_ok=True)


class Thief(website.Talk):
    """Listens, and remembers that somebody came."""

    heard: list[str]

    def do_GET(self) -> None:  # noqa: N802 - so it is called
        """Take whatever comes."""
        self.heard.append(f"{self.command} {self.path} {self.told()!r}")
        self.send(200, b"thank you")

    do_POST = do_PUT = do_GET  # noqa: N815
