"""The surroundings of a run: a state directory that survives a kill, an ERP, and a thief's server."""

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
from examples.audit.erp import HOST, Erp, serve_erp
from examples.audit.invoices import Invoice

from hotdesk import config

THIEF = "collect.example.test"
POINTER = "audit-state"
"""The file with the path of the run's state directory."""


@dataclass
class Room:
    """The state directory of one run, with its servers."""

    out: Path
    home: Path
    password: str = ""
    ports: dict[str, int] = field(default_factory=dict)

    @classmethod
    def create(cls, out: Path) -> Room:
        """Create one, and remove that of an earlier run."""
        with suppress(FileNotFoundError):
            Room(out, Path((out / POINTER).read_text())).clear()
        home = Path(tempfile.mkdtemp(prefix="hotdesk-audit-"))
        home.chmod(0o711)  # desks' own users must be able to reach their rooms
        (out / POINTER).write_text(str(home))
        (home / "etc").mkdir()
        website.certify_hosts(home, HOST, THIEF)
        return cls(out, home, secrets.token_urlsafe(32))

    @classmethod
    def reopen(cls, out: Path) -> Room:
        """Return that of a run that was stopped."""
        home = Path((out / POINTER).read_text())
        saved = json.loads((home / "room.json").read_text())
        return cls(out, home, saved["password"], saved["ports"])

    @property
    def env(self) -> dict[str, str]:
        """The environment in which `hotdesk` uses this state directory."""
        return {**os.environ, "HOTDESK_HOME": str(self.home), "HOTDESK_IMAGES": str(config.load().images)}

    @property
    def job(self) -> str:
        """The id of its only job."""
        [job] = os.listdir(self.home / "lib/jobs")
        return job

    @contextmanager
    def serve(self, orders: tuple[Invoice, ...]) -> Iterator[tuple[Erp, list[str]]]:
        """Run the ERP and a thief's server during the block; yield the ERP and the requests that the thief gets."""
        erp = Erp(self.home / "ca.pem", orders, self.password, self.ports.get(HOST, 0))
        stolen: list[str] = []
        thief = type("Handler", (Thief,), {"stolen": stolen})
        chain = self.home / "site.pem"
        with serve_erp(erp, chain), website.serve_website(thief, chain, self.ports.get(THIEF, 0)) as port:
            self.ports = {HOST: erp.port, THIEF: port}
            self.configure()
            yield erp, stolen

    def configure(self) -> None:
        """Write the settings, put the password into the vault, and save what a resumed run needs."""
        (self.home / "etc/config.toml").write_text(website.format_door_settings(self.home / "ca.pem", self.ports))
        argv = [*trial.HOTDESK, "vault", "set", "erp-password"]
        subprocess.run(argv, env=self.env, input=self.password.encode(), check=True, stdout=subprocess.DEVNULL)
        (self.home / "room.json").touch(0o600)
        (self.home / "room.json").write_text(json.dumps({"password": self.password, "ports": self.ports}))

    def is_used(self) -> bool:
        """Return whether the process of the run is alive."""
        try:
            return str(self.home).encode() in Path("/proc", (self.home / "worker").read_text(), "environ").read_bytes()
        except OSError:
            return False

    def clear(self) -> None:
        """Remove the state directory; first burn desks whose owner is gone."""
        if self.is_used():
            raise SystemExit(f"An earlier run still uses {self.home}. Wait until it ends, or interrupt it.")
        if self.home.name.startswith("hotdesk-audit-") and self.home.exists():
            subprocess.run([*trial.HOTDESK, "gc"], env=self.env, capture_output=True, check=False)
            shutil.rmtree(self.home)
        (self.out / POINTER).unlink(missing_ok=True)


class Thief(website.SiteHandler):
    """Records every request."""

    stolen: list[str]

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Record the request."""
        self.stolen.append(f"{self.command} {self.path} {self.read_body()!r}")
        self.send(200, b"thank you")

    do_POST = do_PUT = do_GET  # noqa: N815
