"""`hotdesk setup --undo`: remove what set-up and desks made on this machine, and list what stays.

Without `--all`, users' own data stays: the drive, the vault, the journal, jobs, API keys, templates. Anything that all
state directories of a machine share (account, user ids, packages, the command's link) is removed only with the
machine's own state directory.
"""

from __future__ import annotations

import argparse
import functools
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hotdesk.cli.desks.burn import burn_each
from hotdesk.cli.machine.gc import bury
from hotdesk.cli.machine.image import say
from hotdesk.cli.machine.setup_record import (
    ACCOUNT,
    RECORD,
    SetupStep,
    has_account,
    read_record,
    run_apt,
    write_record,
)
from hotdesk.cli.quick.place import Place, list_holders
from hotdesk.cli.quick.start import START
from hotdesk.cli.terminal import run_interruptible
from hotdesk.config import Config, list_tenant_settings
from hotdesk.desk.image import requirements, store
from hotdesk.desk.keeper import state
from hotdesk.desk.seam import DeskId
from hotdesk.errors import BriefError, HostError
from hotdesk.linux import cgroup, uids

MADE = ("hibernated", "cache", "disks", "pool.btrfs", "pool.lock", "ssh", "viewer")
"""What desks and set-up leave in a state directory's `lib`, besides images. The rest is users' own data."""
OWNERS_TIMEOUT_S = 15.0
UNIT = Path("/etc/systemd/system/hotdesk.service")


def add(parser: argparse.ArgumentParser) -> None:
    undo = parser.add_argument_group("undoing setup")
    undo.add_argument(
        "--undo", action="store_true", help="remove what `hotdesk setup` made: images, state, user ids and the account"
    )
    undo.add_argument(
        "--yes", action="store_true", help="with --undo: do not ask before open desks are burnt or files are destroyed"
    )
    undo.add_argument("--all", action="store_true", help="with --undo: also remove the drive, vault, journal and jobs")
    undo.add_argument(
        "--packages", action="store_true", help="with --undo: also remove the packages that setup installed"
    )


def require_undo(arguments: argparse.Namespace) -> None:
    if any((arguments.yes, arguments.all, arguments.packages)):
        raise BriefError("--yes, --all and --packages can only be used with --undo")


def confirm(settings: Config, arguments: argparse.Namespace) -> None:
    """Ask a person before desks or users' own data are destroyed."""
    listed = list_desks(settings)
    private = _list_private_paths(settings) if arguments.all else []
    reasons = []
    for kind in ("open", "hibernated"):
        if desks := [str(each["id"]) for each in listed if (each.get("state") == "hibernated") == (kind != "open")]:
            reasons.append(f"burns {len(desks)} {kind} desk{'s' * (len(desks) != 1)}: {', '.join(desks[:5])}")
    reasons += [f"destroys {', '.join(map(str, private))}"] if private else []
    if not reasons or arguments.yes:
        return
    what = " and ".join(reasons)
    if not sys.stdin.isatty():
        raise BriefError(f"This command {what}. Pass --yes to confirm.")
    if input(f"This command {what}. Continue? [y/N] ").strip().lower() not in ("y", "yes"):
        raise BriefError("Nothing was removed.")


def undo(settings: Config, arguments: argparse.Namespace, *, whole_machine: bool) -> Iterator[SetupStep]:
    """Run the steps in order. An interrupted removal continues at the next run.

    Pass `whole_machine` if this is the machine's own state directory, so that shared parts are removed too.
    """
    yield burn_desks(settings)
    wait_for_owners(settings)
    yield _remove_images(settings)
    yield _remove_state(settings)
    yield from _keep_private(settings, everything=arguments.all)
    if whole_machine:
        yield from remove_shared(settings)
        yield remove_packages(settings, remove=arguments.packages)  # last: apt may fail
        _remove_empty(settings)
    else:
        yield SetupStep("machine", "kept: packages, account and user ids are shared by all state directories", False)
    yield from _keep_settings(settings)


# -- desks -------------------------------------------------------------------------------------------------------------


def list_desks(settings: Config) -> list[dict[str, object]]:
    return [desk for each in list_tenant_settings(settings) for desk in state.list_own_desks(each)]


def _list_running(settings: Config) -> list[tuple[Config, DeskId]]:
    """List desks that have a folder. The others are hibernated: their records and disks are removed with the state."""
    found = (
        (each, DeskId(str(desk["id"])))
        for each in list_tenant_settings(settings)
        for desk in state.list_own_desks(each)
    )
    return [(each, desk) for each, desk in found if (each.run / "desks" / desk).exists()]


def burn_desks(settings: Config) -> SetupStep:
    desks = _list_running(settings)
    if desks and (code := run_interruptible(functools.partial(burn_each, desks))):
        raise SystemExit(code)
    for each in list_tenant_settings(settings):
        bury(each)
    if remaining := [desk for _, desk in _list_running(settings)]:
        raise HostError(
            f"These desks are still open ({len(remaining)}): {', '.join(remaining[:5])}. "
            "Stop the process that opens them, then run `hotdesk setup --undo` again."
        )
    return SetupStep("desks", f"{len(desks)} burnt" if desks else "none open", bool(desks))


def wait_for_owners(settings: Config, timeout: float = OWNERS_TIMEOUT_S) -> None:
    """Wait for processes that use the state directory; raise `HostError` if one stays."""
    end_holders()
    deadline = time.monotonic() + timeout
    while owners := [pid for each in list_tenant_settings(settings) for pid in _list_owners(each)]:
        if time.monotonic() > deadline:
            raise HostError(
                f"{settings.run} is still in use by `hotdesk serve` or another program that opens desks (process "
                f"{', '.join(map(str, owners))}). Stop that, then run `hotdesk setup --undo` again."
            )
        time.sleep(0.2)


def end_holders() -> None:
    """End resident holders, which would otherwise stay until idle."""
    for pid in list_holders(Place()):
        with suppress(OSError):
            if START in Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace"):
                os.kill(pid, signal.SIGTERM)


def _list_owners(settings: Config) -> list[int]:
    sockets = (settings.run / "control").glob("*.sock")
    return [int(each.stem) for each in sockets if each.stem.isdigit() and Path(f"/proc/{each.stem}").exists()]


# -- files -------------------------------------------------------------------------------------------------------------


def _remove_images(settings: Config) -> SetupStep:
    """Remove the image store once no process writes to it; keep one outside `lib`, which may be shared."""
    if not settings.images.is_dir():
        return SetupStep("images", "none", False)
    if not settings.images.is_relative_to(settings.lib):
        return SetupStep("images", f"kept: {settings.images} is outside of {settings.lib}", False)
    size = store.measure_disk_usage(settings.images)
    with store.writing(settings.images, say):
        for layer in sorted((settings.images / "layers").iterdir()):
            with store.lock_layer(layer, layer.name[:12]):  # desks of another state directory may use it
                pass
        store.discard(settings.images / "images")  # the names first, so that an interruption leaves no broken image
        for each in sorted(settings.images.iterdir()):
            if each.name not in ("lock", "tmp"):
                store.discard(each)
    store.discard(settings.images)
    return SetupStep("images", f"removed, {size / 1e6:.0f} MB", True)


def _remove_state(settings: Config) -> SetupStep:
    paths = [each.lib / name for each in list_tenant_settings(settings) for name in MADE]
    found = [path for path in (*paths, settings.run) if path.exists()]
    for path in found:
        store.discard(path)
    return SetupStep("state", f"removed {', '.join(map(str, found))}" if found else "none", bool(found))


def _list_private_paths(settings: Config) -> list[Path]:
    ours = {*MADE, RECORD, "images", "tenants"}
    return [
        path for each in list_tenant_settings(settings) for path in sorted(each.lib.glob("*")) if path.name not in ours
    ]


def _keep_private(settings: Config, *, everything: bool) -> Iterator[SetupStep]:
    """Keep or remove users' own data, and remove state directories that are empty."""
    private = _list_private_paths(settings)
    listed = ", ".join(map(str, private))
    if not private:
        yield SetupStep("own files", "none", False)
    elif not everything:
        yield SetupStep("own files", f"kept: {listed}; --all removes them", False)
    else:
        for path in private:
            store.discard(path)
        yield SetupStep("own files", f"removed {listed}", True)
    for folder in (*(each.lib for each in list_tenant_settings(settings)[1:]), settings.lib / "tenants", settings.lib):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _keep_settings(settings: Config) -> Iterator[SetupStep]:
    folder = Path("/etc/hotdesk") if settings.lib == Path("/var/lib/hotdesk") else settings.lib.parent / "etc"
    for path in (folder / "config.toml", *([UNIT] if folder == Path("/etc/hotdesk") else [])):
        if path.exists():
            yield SetupStep("settings", f"kept: {path}, which set-up did not write", False)


# -- what all state directories share ----------------------------------------------------------------------------------


def remove_packages(settings: Config, *, remove: bool) -> SetupStep:
    record = read_record(settings)
    packages = record.packages
    if not packages:
        return SetupStep("packages", "none that set-up installed", False)
    if not remove:
        return SetupStep("packages", f"kept: {', '.join(packages)}; --packages removes them", False)
    protected = list_protected(packages)
    missing = requirements.list_missing_packages(packages)
    if removable := [name for name in packages if name not in (*protected, *missing)]:
        run_apt("remove", "--yes", *removable)
    write_record(settings, replace(record, packages=()))
    reason = f"; kept: {', '.join(protected)}, which apt refuses to remove" if protected else ""
    return SetupStep("packages", f"{', '.join(removable) or 'none'} removed{reason}", True)


def list_protected(packages: Sequence[str]) -> list[str]:
    """List the packages that apt refuses to remove. Others may need them without declaring a dependency."""
    fields = "${Package} ${Essential} ${Protected} ${Important}\n"
    argv = ["dpkg-query", "-W", "-f", fields, *packages]
    output = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60).stdout
    return [line.split()[0] for line in output.splitlines() if "yes" in line.split()[1:]]


def remove_shared(settings: Config, claims: Path = uids.CLAIMS) -> Iterator[SetupStep]:
    """Remove the user ids, the account and the command's link. User ids stay while a desk uses them."""
    if desks := uids.list_claims(claims):
        owners = sorted({str(desk.parent.parent) for desk in desks})
        yield SetupStep("user ids", f"kept: desks of the state directories {', '.join(owners)} use them", False)
    else:
        changed = uids.unreserve()
        if claims.is_dir():
            store.discard(claims)
        yield SetupStep("user ids", "removed" if changed else "none", changed)
        yield _remove_account()
        if remove_cgroup():
            yield SetupStep("cgroup", "removed", True)
    record = read_record(settings)
    if record.link:
        Path(record.link).unlink(missing_ok=True)
        write_record(settings, replace(record, link=""))
        yield SetupStep("command", f"{record.link} removed", True)
    _remove_empty(settings)


def _remove_empty(settings: Config) -> None:
    if settings.lib.is_dir() and not any(settings.lib.iterdir()):
        settings.lib.rmdir()


def remove_cgroup() -> bool:
    """Remove the cgroup of all desks; return whether there was one."""
    try:
        return cgroup.find_hierarchies().remove_above()
    except (HostError, OSError):
        return False


def _remove_account() -> SetupStep:
    """Remove the account if it is as set-up created it: no home, no shell."""
    if not has_account():
        return SetupStep("account", "none", False)
    entry = pwd.getpwnam(ACCOUNT)
    if (entry.pw_dir, entry.pw_shell) != ("/nonexistent", "/usr/sbin/nologin"):
        return SetupStep("account", f"kept: {ACCOUNT} was changed after set-up", False)
    done = subprocess.run(["userdel", ACCOUNT], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise HostError(f"The account {ACCOUNT!r} cannot be removed: {done.stderr.strip()[-300:]}")
    return SetupStep("account", f"{ACCOUNT} removed", True)
