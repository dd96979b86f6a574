"""`hotdesk setup`: prepare this machine for desks, step by step, skipping steps that are done."""

from __future__ import annotations

import argparse
import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.machine import setup_wall, undo
from hotdesk.cli.machine.image import add_signer, find_image, import_signed, say, seal
from hotdesk.cli.machine.setup_record import (
    ACCOUNT,
    SetupStep,
    has_account,
    note_packages,
    read_record,
    run_apt,
    write_record,
)
from hotdesk.cli.machine.setup_root import SYSTEM_PATH, VARIABLES, become_root, take_variables, widen_path
from hotdesk.cli.shipped import ROOT
from hotdesk.config import GIB, Config
from hotdesk.desk.image import image as images
from hotdesk.desk.image import recipe, requirements
from hotdesk.desk.image.build import build
from hotdesk.desk.image.image import Image
from hotdesk.desk.image.recipe import Recipe
from hotdesk.desk.image.requirements import HostMachine
from hotdesk.desk.keeper import state
from hotdesk.doctor import host_needs
from hotdesk.errors import BriefError, HostError, ImageError, make_printable
from hotdesk.hands.page import novnc
from hotdesk.linux import uids
from hotdesk.linux.landlock import find_existing
from hotdesk.walls import TRAITS

_IMAGE_ROOM = GIB
"""Bytes needed for the image `base` and its sterile copy, including temporary files."""
LINK = Path("/usr/local/bin/hotdesk")


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--image", action="append", metavar="NAME", help="the image to build; repeatable (default: base)"
    )
    parser.add_argument("--no-image", action="store_true", help="do not build an image")
    parser.add_argument(
        "--wall", action="append", choices=setup_wall.WALLS, help="also install what this wall needs; repeatable"
    )
    parser.add_argument(
        "--from",
        dest="sources",
        action="append",
        metavar="FILE|URL",
        help="import a signed image, from a path or https URL, instead of building base; repeatable",
    )
    add_signer(parser)
    undo.add(parser)
    options.add_json(parser)
    parser.add_argument(VARIABLES, type=Path, help=argparse.SUPPRESS)


def main(arguments: argparse.Namespace) -> int:
    """Set this machine up: packages, an account, user ids, folders, a viewer, images. Safe to repeat and to interrupt.

    For example:

      hotdesk setup
      hotdesk setup --no-image
      hotdesk setup --wall gvisor
      hotdesk setup --wall microvm
      hotdesk setup --image base --image ./figures.toml
      hotdesk setup --from base.image --signer 0123456789abcdef0123456789abcdef
      hotdesk setup --undo
    """
    if arguments.variables_from is not None:
        take_variables(arguments.variables_from)
    widen_path()
    if arguments.undo:
        return report(_undo_setup(arguments), arguments)
    undo.require_undo(arguments)
    here = requirements.look()
    if warning := requirements.require_supported(here, os.environ):
        say(warning)
    if arguments.signer and not arguments.sources:
        raise BriefError("--signer applies to an image that --from imports; add --from, or leave out --signer.")
    names = arguments.image or ([] if arguments.sources else ["base"])
    recipes = [] if arguments.no_image else [recipe.load(name) for name in names]
    settings = config.load()
    if os.geteuid() != 0:
        become_root(_list_missing(here))
    walls = arguments.wall or []
    return report(prepare(settings, here, recipes, arguments.sources or [], arguments.signer, walls), arguments)


def report(steps: Iterator[SetupStep], arguments: argparse.Namespace) -> int:
    done = []
    for step in steps:
        done.append(step)
        if not arguments.json:
            print(make_printable(str(step)), flush=True)
    if arguments.json:
        print(json.dumps([asdict(step) for step in done], indent=1))
    return 0


def _undo_setup(arguments: argparse.Namespace) -> Iterator[SetupStep]:
    """Remove what set-up made, after a person has agreed."""
    if arguments.image or arguments.no_image or arguments.sources or arguments.wall:
        raise BriefError("--undo removes all images and walls; leave out --image, --no-image, --from and --wall.")
    settings = config.load()
    if os.geteuid() != 0:
        become_root([])
    undo.confirm(settings, arguments)
    return undo.undo(settings, arguments, whole_machine=_is_machines_own())


def _is_machines_own() -> bool:
    """Return whether the state directory is the machine's own, not one chosen by a user."""
    return not os.environ.get("HOTDESK_HOME")


def prepare(
    settings: Config,
    here: HostMachine,
    recipes: Sequence[Recipe],
    sources: Sequence[str] = (),
    signers: list[str] | None = None,
    walls: Sequence[str] = (),
) -> Iterator[SetupStep]:
    """Run the steps in order. An interrupted set-up continues at the next run."""
    try:
        yield from _take_steps(settings, here, recipes, sources, signers, walls)
    except OSError as e:
        raise HostError(explain_failure(e, settings)) from e


def explain_failure(error: OSError, settings: Config) -> str:
    """Explain a file system error during set-up, with a remedy."""
    if error.errno == errno.EROFS:
        return (
            f"Setup cannot write {error.filename}: the file system is read-only. Setup changes /etc (account, user "
            f"ids), /usr (only Debian packages that are missing) and {settings.lib}. Make them writable while it runs, "
            "or run it when the system's image is built."
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"Setup ran out of disk space at {error.filename or settings.lib}. Free some, or set HOTDESK_HOME to a "
            "folder on a larger disk."
        )
    return f"Setup failed: {error}"


def _take_steps(
    settings: Config,
    here: HostMachine,
    recipes: Sequence[Recipe],
    sources: Sequence[str],
    signers: list[str] | None,
    walls: Sequence[str],
) -> Iterator[SetupStep]:
    yield _check_host(settings)
    yield install(settings, requirements.list_packages(here))
    if "gvisor" in walls:
        yield setup_wall.install_gvisor(settings, here)
    yield _add_account()
    yield reserve()
    yield make_folders(settings)
    yield _bring_viewer(settings)
    if step := link_command(settings):
        yield step
    for source in sources:
        yield import_image(settings, source, signers)
    for each in recipes:
        yield furnish(settings, here, each)
    if "microvm" in walls:
        yield furnish(settings, here, recipe.load_builtin(TRAITS["microvm"].stage))
    if find_image(settings, "base") is not None:
        for wall in walls:
            yield setup_wall.prove_wall(settings, wall)


# -- privileges ------------------------------------------------------------------------------------------------


def _list_missing(here: HostMachine) -> list[str]:
    lacking = requirements.list_host_flaws()
    if packages := requirements.list_missing_packages(requirements.list_packages(here)):
        lacking.append(f"packages {', '.join(packages)}")
    if not has_account():
        lacking.append(f"the account {ACCOUNT!r}")
    if not uids.is_reserved():
        lacking.append("hotdesk's user ids in /etc/subuid and /etc/subgid")
    return lacking


# -- the steps -------------------------------------------------------------------------------------------------


def _check_host(settings: Config) -> SetupStep:
    """Refuse a kernel that cannot open desks, and a container that lacks what desks need."""
    if lacking := requirements.list_host_flaws():
        raise HostError(f"desks cannot be opened on this kernel: {'; '.join(lacking)}")
    host = host_needs.require(settings).host
    return SetupStep("kernel", f"{os.uname().release}, fit, on {host.describe()}", False)


def _check_room(settings: Config, free: int) -> None:
    """Refuse to make an image if too little disk space would remain to open a desk."""
    needed = settings.disk_floor + _IMAGE_ROOM
    if free < needed:
        raise HostError(
            f"Only {free / GIB:.1f} GiB are free below {settings.lib}; an image and its copy take about "
            f"{_IMAGE_ROOM / GIB:.1f} GiB, and desks open only while {settings.disk_floor / GIB:.1f} GiB are free. "
            "Free some space, set HOTDESK_HOME to a folder on a larger disk, or lower `disk_floor` in config.toml."
        )


def install(settings: Config, packages: Sequence[str]) -> SetupStep:
    lacking = requirements.list_missing_packages(packages)
    if lacking or not requirements.has_apt_lists():
        say("packages: updating the lists of available packages")
        run_apt("update")
    if not lacking:
        return SetupStep("packages", "all installed", False)
    say(f"packages: installing {', '.join(lacking)}")
    note_packages(settings, lacking)
    run_apt("install", "--yes", "--no-install-recommends", *lacking)
    if still := requirements.list_missing_packages(packages):
        raise HostError(f"apt-get succeeded, but {', '.join(still)} are still missing; see `dpkg --audit`")
    return SetupStep("packages", f"{', '.join(lacking)} installed", True)


def _add_account() -> SetupStep:
    if has_account():
        return SetupStep("account", f"{ACCOUNT} exists", False)
    argv = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    done = subprocess.run(
        [*argv, "--shell", "/usr/sbin/nologin", ACCOUNT], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode != 0 and not has_account():
        raise HostError(f"cannot create the account {ACCOUNT!r}: {done.stderr.strip()[-300:]}")
    return SetupStep("account", f"{ACCOUNT} created", True)


def reserve() -> SetupStep:
    changed = uids.reserve()
    return SetupStep("user ids", f"from {uids.FIRST} {'reserved' if changed else 'exist'}", changed)


def make_folders(settings: Config) -> SetupStep:
    there = (settings.run / "runtime").is_dir() and settings.lib.is_dir()
    state.prepare(settings)
    settings.lib.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings.lib.chmod(0o700)
    return SetupStep("folders", f"{settings.run} and {settings.lib} {'exist' if there else 'created'}", not there)


def _bring_viewer(settings: Config) -> SetupStep:
    """Install the screen viewer: only the JavaScript of its package, without dependencies."""
    if version := novnc.read_version(settings.lib):
        return SetupStep("viewer", f"noVNC {version} exists", False)
    with tempfile.TemporaryDirectory() as folder:
        download(novnc.PACKAGE, Path(folder))
        version = novnc.publish(settings.lib, next(Path(folder).glob("*.deb")))
    return SetupStep("viewer", f"noVNC {version} fetched", True)


def download(package: str, folder: Path) -> None:
    """Download a package without installing it; apt verifies its signature."""
    argv = ("download", "-o", "APT::Sandbox::User=root", package)
    try:
        run_apt(*argv, cwd=folder)
    except HostError:  # the listed version may have been replaced since
        run_apt("update")
        run_apt(*argv, cwd=folder)


def link_command(
    settings: Config, link: Path = LINK, command: Path | None = None, search: str = SYSTEM_PATH
) -> SetupStep | None:
    """Link the command into a system folder if it is not on `sudo`'s path; return `None` if nothing is to be done."""
    command = command or _find_installed_command()
    if command is None or shutil.which("hotdesk", path=search) is not None or link.is_symlink():
        return None
    record = read_record(settings)
    write_record(settings, replace(record, link=str(link)))  # first, so that an interruption leaves no unknown link
    try:
        link.symlink_to(command)
    except OSError as e:
        write_record(settings, record)
        if e.errno != errno.EROFS:
            raise
        return SetupStep("command", f"{link} cannot be created, {link.parent} is read-only; use {command}", False)
    return SetupStep("command", f"{link} created, a link to {command}", True)


def _find_installed_command() -> Path | None:
    """Return the command of this environment; `None` in a checkout or with a state directory chosen by a user."""
    command = Path(sys.prefix) / "bin/hotdesk"
    if not _is_machines_own() or (ROOT / "pyproject.toml").exists() or not command.is_file():
        return None
    return command


def import_image(settings: Config, source: str, signers: list[str] | None) -> SetupStep:
    began = time.monotonic()
    if find_image(settings, "base") is None:
        _check_room(settings, shutil.disk_usage(find_existing(settings.images)).free)
    image, changed = import_signed(settings, source, None, signers)
    how = f"imported in {time.monotonic() - began:.0f} s" if changed else "exists"
    return SetupStep(f"image {image.name}", f"{image.digest[:12]}, {image.size / 1e6:.0f} MB, {how}", changed)


def furnish(settings: Config, here: HostMachine, spec: Recipe) -> SetupStep:
    began = time.monotonic()
    built = find_ready_image(settings, here, spec)
    changed = built is None
    if built is None:
        _check_room(settings, shutil.disk_usage(find_existing(settings.images)).free)
        before = find_image(settings, spec.name)
        built = build(settings.images, spec, say)
        changed = before is None or before.digest != built.digest
    sealed = seal(settings, built)
    what = f"{built.digest[:12]}, {built.size / 1e6:.0f} MB"
    if changed:
        return SetupStep(f"image {built.name}", f"{what}, built in {time.monotonic() - began:.0f} s", True)
    return SetupStep(f"image {built.name}", f"{what}, {'tested again' if sealed else 'exists'}", sealed)


def find_ready_image(settings: Config, here: HostMachine, spec: Recipe) -> Image | None:
    """Return the image of a recipe if it is up to date. Asking apt is avoided, because it takes most of a second."""
    suite = "" if spec.suite is None else spec.suite if here.distro == "debian" else here.codename
    try:
        parent = images.find(settings.images, spec.parent) if spec.parent else None
        there = images.find(settings.images, spec.name)
    except ImageError:
        return None
    machine = os.uname().machine
    if there.digest == recipe.compute_digest(spec, parent.digest if parent else "", machine, suite):
        return there
    origin = (parent.built_from or parent.digest) if parent else ""  # as on the machine that exported both
    return there if there.recipe and there.recipe == recipe.compute_digest(spec, origin, machine, suite) else None
