"""`hotdesk image`: build, save, list, remove, import and export the images desks are opened from."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import anyio

from hotdesk import __version__, config
from hotdesk.cli import options
from hotdesk.cli.holder.client import release_ready
from hotdesk.cli.ids import find_desk
from hotdesk.cli.parser import add_acts
from hotdesk.cli.signers import load_trusted_signers
from hotdesk.cli.terminal import align_columns, run_interruptible
from hotdesk.config import Config
from hotdesk.desk.image import guest_code, image, recipe, sterilize, store
from hotdesk.desk.image.build import build as build_image
from hotdesk.desk.image.build import require_root
from hotdesk.desk.image.fetch import is_url
from hotdesk.desk.image.image import Image
from hotdesk.desk.image.importer import import_image
from hotdesk.desk.keeper import state
from hotdesk.desk.keeper.outbox import Outbox, make_folder
from hotdesk.desk.seam import new_id
from hotdesk.drive.identity import describe_actor
from hotdesk.drive.image_archive import import_archive, is_signed_image, open_source, read_manifest, write_archive
from hotdesk.drive.image_manifest import sign
from hotdesk.drive.signing import compute_fingerprint, load_signer
from hotdesk.errors import BriefError, DeskError, HostError, ImageError, KeeperError, make_printable
from hotdesk.host import Host, borrow
from hotdesk.linux.landlock import confine


def add(parser: argparse.ArgumentParser) -> None:
    add_acts(parser, ACTS, ARGUMENTS)


def _add_build(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", nargs="?", default="base", help="the name of a recipe, or the path of a TOML file (default: base)"
    )
    parser.add_argument("--name", help="name of the image (default: the recipe's name)")


def add_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="FILE|URL",
        help="a signed image, as a path or https URL; or the path of a tar archive or of an OCI layout",
    )
    parser.add_argument("--name", help="name of the image; a signed image already has one")
    add_signer(parser)


def add_signer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--signer",
        action="append",
        metavar="KEY",
        help="trust images that this key signed: a fingerprint, or a file with a public key; repeatable",
    )


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the image's name")
    parser.add_argument("file", metavar="FILE", type=Path, help="the file to write; an existing file is replaced")


def _add_save(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("desk", metavar="DESK", help="the id of an open desk")
    parser.add_argument("name", metavar="NAME", help="name of the image; an existing image of that name is replaced")
    parser.add_argument("--snapshot", metavar="ID", help="save this snapshot of the desk (default: its current files)")


def add_rm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME", help="the images' names")
    parser.add_argument(
        "--yes",
        "--force",
        action="store_true",
        help="do not ask before removing an image that other images are built on",
    )


ARGUMENTS = {
    "build": _add_build,
    "save": _add_save,
    "ls": options.add_json,
    "rm": add_rm,
    "import": add_import,
    "export": _add_export,
}


def main(arguments: argparse.Namespace) -> int:
    """Build, save, list, remove, import and export the images that desks are opened from.

    For example:

      hotdesk image build ./figures.toml
      hotdesk image save $ID figures
      hotdesk image ls --json | jq -r '.[].name'
    """
    arguments.main(arguments)
    return 0


def build(arguments: argparse.Namespace) -> None:
    """Build an image from a recipe that comes with hotdesk, or from your own.

      hotdesk image build base
      hotdesk image build ./figures.toml --name figures

    Your own recipe is a short TOML file: `from = "base"`, `apt = ["figlet"]`, `pip = ["six"]`,
    `run = ["echo hi > /hi"]`. Its `run` lines run as root inside the image, without network;
    trust a recipe like a Makefile.
    """
    settings = config.load()
    spec = recipe.load(arguments.what, arguments.name)
    before = find_image(settings, spec.name)
    built = build_image(settings.images, spec, say)
    prove(settings, built, before)
    print(f"{built.name} {built.digest[:12]}")


def save(arguments: argparse.Namespace) -> None:
    """Save an open desk's files as an image.

      ID=$(hotdesk open --root --allow debian)
      hotdesk exec --user root $ID -- sh -c 'apt-get update && apt-get install -y figlet'
      hotdesk image save $ID figures
      hotdesk run --image figures -- figlet hello

    Files keep their modes, owners and times. Not saved are pipes, sockets, setuid bits, capabilities, and what every
    desk gets of its own: /etc/hostname, hosts, machine-id, resolv.conf, its door's certificates and settings, its sudo.
    """
    settings = config.load()
    desk = find_desk(settings, arguments.desk)
    before = find_image(settings, arguments.name)
    began = time.monotonic()
    say(f"{arguments.name}: saving desk {desk}")

    async def work() -> int:
        confine([])
        async with borrow(settings, desk) as lent:
            await lent.save(arguments.name, snapshot=arguments.snapshot)
        return 0

    _run_apart(work)
    saved = image.find(settings.images, arguments.name)
    say(f"{saved.name}: saved in {time.monotonic() - began:.0f} s, {saved.size / 1e6:.0f} MB")
    prove(settings, saved, before)
    print(f"{saved.name} {saved.digest[:12]}")


def _run_apart(work: Callable[[], Coroutine[Any, Any, int]]) -> None:
    """Run `work` in a child that drops its privileges to read from a desk; this process needs its own afterwards."""
    child = os.fork()
    if not child:
        sys.exit(run_interruptible(work))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        sys.exit(code if code > 0 else 128 - code)


def _import_(arguments: argparse.Namespace) -> None:
    """Import an image that `hotdesk image export` wrote, a root file system's tar, an OCI layout, or a `docker save`.

      hotdesk image import base.image --signer 0123456789abcdef0123456789abcdef
      hotdesk image import https://example.test/base.image
      hotdesk image import rootfs.tar.gz --name mine
      docker save debian:trixie -o d.tar && hotdesk image import d.tar --name debian

    A signed image is unpacked only after its signature was verified: by --signer, by `signers` in [verify] of the
    settings, or by this machine's own key. Only signed images are fetched from a URL, over https.
    """
    settings = config.load()
    path = Path(arguments.source)
    if is_url(arguments.source) or is_signed_image(path):
        imported = import_signed(settings, arguments.source, arguments.name, arguments.signer)[0]
    else:
        if not arguments.name or arguments.signer:
            raise BriefError("This archive is not signed: pass a name with --name, and leave out --signer.")
        before = find_image(settings, arguments.name)
        imported = import_image(settings.images, path, arguments.name, say)
        prove(settings, imported, before)
    print(f"{imported.name} {imported.digest[:12]}")


def import_signed(settings: Config, source: str, name: str | None, signers: list[str] | None) -> tuple[Image, bool]:
    """Import a signed image and test it with a desk; return it, and whether anything changed."""
    require_root()
    with open_source(source) as stream:
        manifest = read_manifest(stream, load_trusted_signers(signers))
        image.as_name(name or manifest.name)
        before = find_image(settings, name or manifest.name)
        if before is not None and before.digest == manifest.payload.sha256:
            return before, seal(settings, before)
        imported = import_archive(settings.images, stream, manifest, name, say, settings.disk_floor)
    prove(settings, imported, before)
    return imported, True


def _export(arguments: argparse.Namespace) -> None:
    """Export an image as one signed file, for `hotdesk image import` or `hotdesk setup --from` elsewhere.

      hotdesk image export base base.image
      hotdesk key show

    The same image gives the same bytes. It is signed with this machine's key, whose fingerprint `hotdesk key show`
    prints; the importing side passes it with --signer.
    """
    settings = config.load()
    require_root()
    image.find(settings.images, arguments.name)
    say(f"{arguments.name}: exporting")
    make_folder(settings.lib / "keys")
    signer = load_signer(settings.lib / "keys")

    def sign_noted(fields: Mapping[str, Any]) -> bytes:
        line = sign(fields, signer)
        event = {"job": new_id(), "name": fields["name"], "sha256": fields["payload"]["sha256"]}
        Outbox(settings.lib).record("owner", "ImageSigned", {**event, "by": describe_actor()})
        return line

    size = write_archive(settings.images, arguments.name, arguments.file, __version__, sign_noted)
    print(f"{arguments.file}: {size / 1e6:.0f} MB, signed by {compute_fingerprint(signer.public)}")


def ls(arguments: argparse.Namespace) -> None:
    """List the images on this machine.

    hotdesk image ls
    hotdesk image ls --json | jq -r '.[].name'
    """
    images = image.ls(config.load().images)
    if arguments.json:
        print(json.dumps([_image_to_dict(each) for each in images], indent=1))
    else:
        print("\n".join(format_table(images)))


def rm(arguments: argparse.Namespace) -> None:
    """Remove images, and their layers that no other image uses. Asks first if other images are built on an image.

    hotdesk image rm figures
    hotdesk image rm --yes base
    """
    settings = config.load()
    if not arguments.yes:
        for name in arguments.names:
            confirm(name, _list_dependents(settings, name, arguments.names))
    for name in arguments.names:
        anyio.run(release_ready, settings, image.as_name(name))
        store.rm(settings.images, name, {str(facts.get("image")) for facts in state.list_own_desks(settings)})


def _list_dependents(settings: Config, name: str, leaving: list[str]) -> list[str]:
    top = image.find(settings.images, name).layers[0]
    others = (each for each in image.ls(settings.images) if each.name not in (name, *leaving))
    return [each.name for each in others if top in each.layers]


def confirm(name: str, others: list[str]) -> None:
    if not others:
        return
    what = f"{', '.join(others)} {'is' if len(others) == 1 else 'are'} built on image {name}"
    if not sys.stdin.isatty():
        raise BriefError(f"{what}; add --yes to remove {name} anyway")
    question = (
        f"{what}: after this no desk can be opened from {name}; the other images keep its files. Remove {name}? [y/N] "
    )
    if input(question).strip().lower() not in ("y", "yes"):
        raise BriefError("nothing was removed")


def say(line: str) -> None:
    print(make_printable(line), file=sys.stderr, flush=True)


def find_image(settings: Config, name: str) -> Image | None:
    try:
        return image.find(settings.images, name)
    except ImageError:
        return None


def seal(settings: Config, built: Image) -> bool:
    """Make an image's sterile copy and compile the guest in a desk; return whether anything was done."""
    copied = sterilize.make(settings.images, built, say)
    place = guest_code.get_folder(settings.images, built.digest, guest_code.read_sources())
    if store.is_current_bytecode(place, settings.images, [built]):
        return copied
    if shutil.which(settings.runtime) is None:
        raise HostError(f"the container runtime {settings.runtime} is not installed; run `hotdesk setup`")
    store.discard(place)  # incomplete, left behind by a process that was killed

    async def work() -> int:
        async with Host(settings, control=False) as host:
            await host.seal(built.name)
        return 0

    if code := run_interruptible(work):
        sys.exit(code)
    return True


def prove(settings: Config, built: Image, before: Image | None) -> None:
    """Test a new image; if no desk can be opened from it, remove it and restore the one it replaced."""
    try:
        seal(settings, built)
    except (ImageError, DeskError, KeeperError) as e:
        if before is None or before.digest == built.digest:
            store.rm(settings.images, built.name)
        else:
            store.restore(settings.images, before)
        raise ImageError(
            f"the new image {built.name!r} was discarded, because a desk opened from it did not work: {e}"
        ) from e


def _image_to_dict(each: Image) -> dict[str, object]:
    return {
        "name": each.name,
        "digest": each.digest,
        "layers": [str(layer) for layer in each.layers],
        "python": each.python,
        "arch": each.arch,
        "built": each.built,
        "size": each.size,
        "source": each.source,
    }


def format_table(images: list[Image]) -> list[str]:
    rows = [("NAME", "DIGEST", "SIZE", "BUILT", "FROM")]
    for each in images:
        built = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.built))
        rows.append((each.name, each.digest[:12], f"{each.size / 1e6:.0f} MB", built, each.source))
    return align_columns(rows)


ACTS = {"build": build, "save": save, "ls": ls, "rm": rm, "import": _import_, "export": _export}
