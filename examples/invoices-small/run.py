"""Run the example: start the ERP, put its password into a vault, and carry out the brief.

sudo .venv/bin/python examples/invoices-small/run.py [--out FOLDER]
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hotdesk import config

sys.path.insert(0, str(Path(__file__).parents[2]))

from erp import HOST, Erp, serve_erp

HERE = Path(__file__).parent
HOTDESK = [sys.executable, "-c", "from hotdesk.cli import main; main()"]


@contextmanager
def prepare(home: Path, password: str) -> Iterator[tuple[Erp, dict[str, str]]]:
    """Run an ERP and put its password into the vault; yield both the ERP and the environment for `hotdesk`."""
    images = str(config.load().images)
    env = {**os.environ, "HOTDESK_HOME": str(home), "HOTDESK_IMAGES": images}
    with serve_erp(home, password) as erp:
        (home / "etc").mkdir(exist_ok=True)
        settings = f'[door]\nca = "{erp.ca}"\nnames = {{"{HOST}" = "127.0.0.1:{erp.port}"}}\n'
        (home / "etc/config.toml").write_text(settings)
        argv = [*HOTDESK, "vault", "set", "erp-password"]
        subprocess.run(argv, env=env, input=password.encode(), check=True, stdout=subprocess.DEVNULL)
        yield erp, env


def main() -> int:
    """Carry out the brief in a temporary state directory."""
    home = Path(tempfile.mkdtemp(prefix="hotdesk-invoices-"))
    home.chmod(0o711)  # desks' own users must be able to reach their rooms
    out = ["--out", "."] if len(sys.argv) == 1 else sys.argv[1:]
    if out[:1] == ["--out"] and len(out) == 2:  # results of an earlier run: `hotdesk work` would not overwrite them
        for name in ("Discrepancy_Report.xlsx", "Discrepancy_Report.xlsx.certificate.json"):
            (Path(out[1]) / name).unlink(missing_ok=True)
    try:
        print("Five invoices: a worker signs in with a browser, and never holds the password.", file=sys.stderr)
        with prepare(home, secrets.token_urlsafe(32)) as (erp, env):
            argv = [*HOTDESK, "work", str(HERE), "--script", str(HERE / "brain.py"), *out]
            done = subprocess.run(argv, env=env, check=False)
            print(f"the ERP got {len(erp.requests)} requests", file=sys.stderr)
            return done.returncode
    except KeyboardInterrupt:
        return 130  # `hotdesk work` got the signal, too, and burns its desks
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    sys.exit(main())
