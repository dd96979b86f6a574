"""`hotdesk setup`: make this machine fit for desks, one step after the other, each only where it is needed."""

from __future__ import annotations

import argparse
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.machine.image import find_image, say, seal
from hotdesk.config import Config
from hotdesk.desk.image import image as images
from hotdesk.desk.image import recipe, requirements
from hotdesk.desk.image.build import build, passes
from hotdesk.desk.image.image import Image
from hotdesk.desk.image.recipe import Recipe
from hotdesk.desk.image.requirements import HostMachine
from hotdesk.desk.keeper import state
from hotdesk.errors import HostError, ImageError, printable
from hotdesk.hands.page import novnc
from hotdesk.linux import uids

ACCOUNT = "hotdesk"
APT = ("apt-get", "-q", "-o", "DPkg::Lock::Timeout=300")
LAST_LINES = 8


@dataclass(frozen=True, slots=True)
class SetupStep:
    """One thing that is now so."""

    name: str
    outcome: str
    changed: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.outcome}"


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("--image", action="append", metavar="NAME", help="image to build; repeatable (default: base)")
    parser.add_argument("--no-image", action="store_true", help="build no image")
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Set this machine up: packages, an account, user ids, folders, a viewer, images. Safe to repeat and to interrupt.

    For example:

      hotdesk setup
      hotdesk setup --no-image
      hotdesk setup --image base --image ./figures.toml
    """
    here = requirements.look()
    if warning := requirements.require_supported(here, os.environ):
        say(warning)
    recipes = [] if arguments.no_image else [recipe.load(name) for name in arguments.image or ["base"]]
    settings = config.load()
    if os.geteuid() != 0:
        become_root(missing(here))
    steps = []
    for step in prepare(settings, here, recipes):
        steps.append(step)
        if not arguments.json:
            print(printable(str(step)), flush=True)
    if arguments.json:
        print(json.dumps([asdict(step) for step in steps], indent=1))
    return 0


def prepare(settings: Config, here: HostMachine, recipes: Sequence[Recipe]) -> Iterator[SetupStep]:
    """Take the steps in their order; any may be the last, and the next run goes on there."""
    yield _check_kernel()
    yield install(requirements.packages(here))
    yield _add_account()
    yield reserve()
    yield make_folders(settings)
    yield _bring_viewer(settings)
    for each in recipes:
        yield furnish(settings, here, each)


# -- who may ---------------------------------------------------------------------------------------------------


def missing(here: HostMachine) -> list[str]:
    """Say what an ordinary user can see is missing."""
    lacking = requirements.unfit()
    if packages := requirements.missing_packages(requirements.packages(here)):
        lacking.append(f"packages {', '.join(packages)}")
    if not _has_account():
        lacking.append(f"the account {ACCOUNT!r}")
    if not uids.is_reserved():
        lacking.append("hotdesk's user ids in /etc/subuid and /etc/subgid")
    return lacking


def become_root(lacking: Sequence[str]) -> None:
    """Run this command again with sudo; without sudo, say what an administrator has to do."""
    if shutil.which("sudo") is None:
        reasons = "; ".join(lacking) or "nothing that this user can see, but images are only root's to see"
        raise HostError(
            f"setting up needs root, and there is no sudo; missing here: {reasons}; run `hotdesk setup` as root"
        )
    say("this needs root: running it again with sudo")
    variables = [f"{name}={value}" for name, value in os.environ.items() if name.startswith("HOTDESK_") or passes(name)]
    argv = [
        "sudo",
        "--",
        "env",
        *variables,
        sys.executable,
        "-B",
        *sys.argv,
    ]  # -B: no files of root's in a user's checkout
    sys.stdout.flush()
    os.execvp(argv[0], argv)  # noqa: S606 - no shell


# -- the steps -------------------------------------------------------------------------------------------------


def _check_kernel() -> SetupStep:
    """Refuse a kernel on which no desk could open."""
    if lacking := requirements.unfit():
        raise HostError(f"no desk can open on this kernel: {'; '.join(lacking)}")
    return SetupStep("kernel", f"{os.uname().release}, fit", False)


def install(packages: Sequence[str]) -> SetupStep:
    """Install the Debian packages that are not there."""
    lacking = requirements.missing_packages(packages)
    if lacking or not requirements.has_apt_lists():
        say("packages: fetching lists")
        apt("update")
    if not lacking:
        return SetupStep("packages", "all there", False)
    say(f"packages: installing {', '.join(lacking)}")
    apt("install", "--yes", "--no-install-recommends", *lacking)
    if still := requirements.missing_packages(packages):
        raise HostError(f"apt-get installed, yet {', '.join(still)} are missing; look at `dpkg --audit`")
    return SetupStep("packages", f"{', '.join(lacking)} installed", True)


def apt(*argv: str, cwd: Path | None = None) -> None:
    """Run apt-get to its end: in a session of its own, because dpkg interrupted half-way needs mending by hand."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    child = subprocess.Popen(
        [*APT, *argv],
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = child.communicate()
    except KeyboardInterrupt:
        say("packages: letting apt-get finish first")
        child.communicate()
        raise
    if child.returncode != 0:
        lines = "\n".join(f"  {printable(line)}" for line in output.splitlines()[-LAST_LINES:])
        raise HostError(f"`apt-get {argv[0]}` failed; mend what it says, then `hotdesk setup` again:\n{lines}")


def _add_account() -> SetupStep:
    """Make the system account hotdesk's unprivileged parts run as."""
    if _has_account():
        return SetupStep("account", f"{ACCOUNT} there", False)
    argv = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    done = subprocess.run(
        [*argv, "--shell", "/usr/sbin/nologin", ACCOUNT], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode != 0 and not _has_account():
        raise HostError(f"the account {ACCOUNT!r} cannot be made: {done.stderr.strip()[-300:]}")
    return SetupStep("account", f"{ACCOUNT} made", True)


def _has_account() -> bool:
    """Say whether the account is there."""
    try:
        pwd.getpwnam(ACCOUNT)
    except KeyError:
        return False
    return True


def reserve() -> SetupStep:
    """Reserve the user ids desks get."""
    changed = uids.reserve()
    return SetupStep("user ids", f"from {uids.FIRST} {'reserved' if changed else 'there'}", changed)


def make_folders(settings: Config) -> SetupStep:
    """Make the state folders."""
    there = (settings.run / "runtime").is_dir() and settings.lib.is_dir()
    state.prepare(settings)
    settings.lib.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings.lib.chmod(0o700)
    return SetupStep("folders", f"{settings.run} and {settings.lib} {'there' if there else 'made'}", not there)


def _bring_viewer(settings: Config) -> SetupStep:
    """Have what shows a desk's screen in a browser: of a package only its JavaScript, without what it depends on."""
    if version := novnc.version(settings.lib):
        return SetupStep("viewer", f"noVNC {version} there", False)
    with tempfile.TemporaryDirectory() as folder:
        download(novnc.PACKAGE, Path(folder))
        version = novnc.publish(settings.lib, next(Path(folder).glob("*.deb")))
    return SetupStep("viewer", f"noVNC {version} fetched", True)


def download(package: str, folder: Path) -> None:
    """Fetch a package without installing it; apt checks its signature."""
    argv = ("download", "-o", "APT::Sandbox::User=root", package)
    try:
        apt(*argv, cwd=folder)
    except HostError:  # what the lists name may have been replaced since
        apt("update")
        apt(*argv, cwd=folder)


def furnish(settings: Config, here: HostMachine, spec: Recipe) -> SetupStep:
    """Build an image, and prove that a desk opens from it."""
    began = time.monotonic()
    built = ready(settings, here, spec)
    changed = built is None
    if built is None:
        before = find_image(settings, spec.name)
        built = build(settings.images, spec, say)
        changed = before is None or before.digest != built.digest
    sealed = seal(settings, built)
    what = f"{built.digest[:12]}, {built.size / 1e6:.0f} MB"
    if changed:
        return SetupStep(f"image {built.name}", f"{what}, built in {time.monotonic() - began:.0f} s", True)
    return SetupStep(f"image {built.name}", f"{what}, {'proven anew' if sealed else 'there'}", sealed)


def ready(settings: Config, here: HostMachine, spec: Recipe) -> Image | None:
    """Give the image a recipe asks for if it is there, without asking apt, which takes most of a second."""
    suite = "" if spec.suite is None else spec.suite if here.distro == "debian" else here.codename
    try:
        parent = images.find(settings.images, spec.parent).digest if spec.parent else ""
        there = images.find(settings.images, spec.name)
    except ImageError:
        return None
    return there if there.digest == recipe.digest(spec, parent, os.uname().machine, suite) else None
