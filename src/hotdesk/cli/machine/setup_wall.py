"""`hotdesk setup --wall gvisor|microvm`: install what a stronger wall needs, and test that a desk opens behind it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hotdesk.cli.machine.image import say
from hotdesk.cli.machine.setup_record import SetupStep, note_packages, run_apt
from hotdesk.cli.terminal import run_interruptible
from hotdesk.config import Config
from hotdesk.desk.image import requirements, sources
from hotdesk.desk.image.requirements import HostMachine
from hotdesk.desk.image.sources import PackageIndex
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.gvisor.status import OLDEST, find_release
from hotdesk.desk.wall.program import ask_version, find_program
from hotdesk.desk.wall.registry import look_at
from hotdesk.errors import HostError
from hotdesk.host import Host

WALLS = ("gvisor", "microvm")
PACKAGE = "runsc"
_DATE = re.compile(r"\b(20[0-9]{6})\b")
_FAILED = 1


def install_gvisor(settings: Config, machine: HostMachine) -> SetupStep:
    """Install gVisor's runtime from the machine's package sources, unless a new enough one exists."""
    if release := find_installed(settings.gvisor_program):
        return SetupStep("wall gvisor", f"{settings.gvisor_program}, release {release}, exists", False)
    if settings.gvisor_program != PACKAGE:
        raise HostError(
            f"[wall.gvisor] program = {settings.gvisor_program!r} is missing, or older than {OLDEST}; correct the "
            "setting, or remove it to install the Debian package"
        )
    if not requirements.has_apt_lists():
        run_apt("update")
    if version := choose_version(sources.ask("apt-cache", "madison", PACKAGE)):
        say(f"wall gvisor: installing {PACKAGE} {version}")
        _install(settings, f"{PACKAGE}={version}")
    else:
        _install_backport(settings, machine)
    if not (release := find_installed(PACKAGE)):
        raise HostError(
            f"apt-get installed a release of {PACKAGE} that is older than {OLDEST}, the oldest supported one; install "
            "a newer one, and set `program` in [wall.gvisor] of config.toml to its path"
        )
    return SetupStep("wall gvisor", f"{PACKAGE}, release {release}, installed", True)


def find_installed(name: str) -> int:
    """Return the release of a runtime that is new enough, or 0."""
    program = find_program(name)
    release = find_release(ask_version(program.path)) if program else 0
    return release if release >= OLDEST else 0


def choose_version(madison: str) -> str:
    """Return the newest suitable version in the output of `apt-cache madison`, or `""`."""
    versions = [fields[1].strip() for line in madison.splitlines() if len(fields := line.split("|")) > 1]
    dated = [(date.group(1), version) for version in versions if (date := _DATE.search(version))]
    return next((version for date, version in sorted(dated, reverse=True) if int(date) >= OLDEST), "")


def _install(settings: Config, source: str) -> None:
    """Install a package that was found; it is recorded as set-up's own unless an older release was installed."""
    note_packages(settings, requirements.list_missing_packages([PACKAGE]))
    run_apt("install", "--yes", "--no-install-recommends", source)


def _install_backport(settings: Config, machine: HostMachine) -> None:
    """Install the package from the distribution's backports, which this machine's apt does not use yet.

    The mirrors are the machine's own; its list of sources is not changed.
    """
    lines = list_backport_sources(sources.read(), machine)
    say(f"wall gvisor: looking for {PACKAGE} in {machine.codename}-backports")
    with tempfile.TemporaryDirectory() as folder:
        options = make_private_apt(Path(folder), lines)
        run_apt("update", *options)
        try:
            run_apt("download", *options, PACKAGE, cwd=Path(folder))
        except HostError as e:
            raise HostError(_describe_missing_package(machine)) from e
        _install(settings, str(next(Path(folder).glob("*.deb"))))


def list_backport_sources(targets: Sequence[PackageIndex], machine: HostMachine) -> list[str]:
    found = {
        target.uri: target
        for target in targets
        if (target.origin or machine.distro).lower() == "debian" == machine.distro
        and target.pocket == ""
        and target.component == "main"
    }
    if not found:
        raise HostError(_describe_missing_package(machine))
    keys = sources.list_keyrings("debian")
    return [
        f"deb {sources.format_options(target, keys)}{uri} {machine.codename}-backports main"
        for uri, target in found.items()
    ]


def _describe_missing_package(machine: HostMachine) -> str:
    return (
        f"{machine.name} has no package {PACKAGE} of release {OLDEST} or newer; install gVisor's runsc yourself "
        'and name it in the settings: `[wall.gvisor]` with `program = "/path/to/runsc"`'
    )


def make_private_apt(folder: Path, lines: Sequence[str]) -> list[str]:
    """Return the options that make apt use only these sources, and store their lists in a folder."""
    (folder / "lists/partial").mkdir(parents=True)
    (folder / "sources.list").write_text("".join(f"{line}\n" for line in lines))
    settings = {
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache::PkgCache": "",
        "Dir::Cache::SrcPkgCache": "",
        "APT::Sandbox::User": "root",
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def prove_wall(settings: Config, wall: str, image: str = "base") -> SetupStep:
    versions: list[str] = []

    async def work() -> int:
        async with Host(settings, control=False) as host:
            desk = await host.open(Spec(image=image, wall=wall))
            done = await desk.run(["uname", "-r"])
            versions.append(done.text.strip())
            await desk.burn()
            return 0 if done.ok else _FAILED

    if run_interruptible(work):
        raise HostError(
            f"a desk behind the wall {wall} opened, but no program ran in it; `hotdesk doctor --wall {wall}` says more"
        )
    platform = look_at(wall, settings).platform
    return SetupStep(f"wall {wall}", f"a desk opened, its kernel says {versions[0]}, platform {platform}", False)
