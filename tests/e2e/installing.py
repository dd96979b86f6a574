"""A desk that installs packages from the sources this machine is configured with."""

from __future__ import annotations

import io
import json
import zipfile

from hotdesk.brief import Rule
from hotdesk.config import GIB, Config
from hotdesk.desk.seam import Desk, Spec
from hotdesk.door import canary
from hotdesk.door.policy.presets import build_preset_environment, parse_rules
from hotdesk.drive.journal import FILE, read
from hotdesk.event import Event, Exchange, Proven

PRESETS = ("pypi", "npm", "debian")
NPM = "10.9.2"
"""A version that runs on Debian's Node."""
SPEC = Spec(root=True, memory=3 * GIB, env=build_preset_environment(PRESETS))


def rules() -> tuple[Rule, ...]:
    return tuple(rule for name in PRESETS for rule in parse_rules(name))


async def done(desk: Desk, line: str, timeout: float = 100) -> str:
    """Run a shell command that must succeed; return its output."""
    told = await desk.run(["sh", "-c", line], timeout=timeout)
    assert told.ok, f"{line}: {told.text[-2000:]}{told.stderr.decode()[-2000:]}"
    return told.text + told.stderr.decode()


async def apt_install(desk: Desk, *names: str, timeout: float = 100) -> str:
    return await done(desk, f"sudo apt-get update && sudo apt-get install -y {' '.join(names)}", timeout)


async def install_node(desk: Desk) -> None:
    """Install Node by apt, and npm from its registry: Debian's npm has 363 packages."""
    await apt_install(desk, "nodejs")
    registry = SPEC.env.get("npm_config_registry", f"https://{parse_rules('npm')[0].host}").rstrip("/")
    found = json.loads(await done(desk, f"curl -sSf {registry}/npm/{NPM}"))
    await done(desk, f"mkdir npm && curl -sSf {found['dist']['tarball']} | tar xz -C npm --strip-components=1")
    await done(desk, "sudo ln -s /home/user/npm/bin/npm-cli.js /usr/local/bin/npm")


def events(settings: Config, desk: str) -> list[Event]:
    """Return a desk's journal events since it was handed over; the last event of a canary may come after that."""
    told = [row.read_event() for row in read(settings.lib / "keys" / FILE, desk=desk)]
    proven = next(place for place, event in enumerate(told) if isinstance(event, Proven))
    return [event for event in told[proven + 1 :] if not (isinstance(event, Exchange) and event.host == canary.HOST)]


def python_index(folder: str) -> dict[str, bytes]:
    data, name = io.BytesIO(), "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(data, "w") as wheel:
        wheel.writestr("tiny.py", "")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    return {
        f"{folder}/simple/tiny/": f'<a href="../../{name}">{name}</a>'.encode(),
        f"{folder}/{name}": data.getvalue(),
    }
