"""`hotdesk image`: build, list, remove and import the images desks are opened from."""

from __future__ import annotations

import json as text
import shutil
import sys
import time
from pathlib import Path

from cyclopts import App

from hotdesk import config
from hotdesk.cli.terminal import run_interruptible
from hotdesk.config import Config
from hotdesk.desk import guestlib, image, recipe, store
from hotdesk.desk.build import build as build_image
from hotdesk.desk.image import Image
from hotdesk.desk.unpack import import_image
from hotdesk.errors import DeskError, HostError, ImageError, KeeperError, printable
from hotdesk.host import Host

app = App(name="image", help="Build, list, remove and import the images desks are opened from.")


@app.command
def build(what: str = "base", *, name: str | None = None) -> None:
    """Build an image from a recipe: one that comes with hotdesk, or your own.

    hotdesk image build base

    hotdesk image build ./figures.toml --name figures

    Your own is a short TOML: `from = "base"`, `apt = ["figlet"]`, `pip = ["six"]`, `run = ["echo hi > /hi"]`.
    Its `run` lines run as root inside the image, without network; trust a recipe like a Makefile.

    Parameters
    ----------
    what
        A recipe's name, or the path of a TOML file.
    name
        What to call the image; the recipe's own name if not given.
    """
    settings = config.load()
    wanted = recipe.load(what, name)
    before = found(settings, wanted.name)
    made = build_image(settings.images, wanted, say)
    prove(settings, made, before)
    print(f"{made.name} {made.digest[:12]}")


@app.command(name="import")
def import_(path: Path, *, name: str) -> None:
    """Import an image: a root file system's tar, an OCI layout, or what `docker save` wrote.

    hotdesk image import rootfs.tar.gz --name mine

    docker save debian:trixie -o d.tar && hotdesk image import d.tar --name debian

    Parameters
    ----------
    path
        The archive, or an OCI layout's directory. It must have python3.
    name
        What to call the image.
    """
    settings = config.load()
    before = found(settings, name)
    made = import_image(settings.images, path, name, say)
    prove(settings, made, before)
    print(f"{made.name} {made.digest[:12]}")


@app.command
def ls(*, json: bool = False) -> None:
    """List the images on this machine.

    hotdesk image ls

    hotdesk image ls --json | jq -r '.[].name'

    Parameters
    ----------
    json
        Print JSON instead of a table.
    """
    images = image.ls(config.load().images)
    if json:
        print(text.dumps([described(each) for each in images], indent=1))
    else:
        print("\n".join(table(images)))


@app.command
def rm(*names: str) -> None:
    """Remove images, and their layers that no other image uses.

    hotdesk image rm figures

    Parameters
    ----------
    names
        The images' names.
    """
    settings = config.load()
    for name in names:
        store.rm(settings.images, name, in_use(settings.run))


def say(line: str) -> None:
    """Tell what goes on, apart from the result."""
    print(printable(line), file=sys.stderr, flush=True)


def found(settings: Config, name: str) -> Image | None:
    """Give the image of that name, if there is a whole one."""
    try:
        return image.find(settings.images, name)
    except ImageError:
        return None


def seal(settings: Config, made: Image) -> bool:
    """Open a desk from an image, and keep the guest as its Python compiles it; False when that was done."""
    place = guestlib.folder(settings.images, made.digest, guestlib.sources())
    if store.serves(place, settings.images, [made]):
        return False
    if shutil.which(settings.runtime) is None:
        raise HostError(f"{settings.runtime}, which opens desks, is not installed: `hotdesk setup`")
    store.discard(place)  # half of it, left by a process that was killed

    async def work() -> int:
        async with Host(settings, control=False) as host:
            await host.seal(made.name)
        return 0

    if code := run_interruptible(work):
        sys.exit(code)
    return True


def prove(settings: Config, made: Image, before: Image | None) -> None:
    """Seal a new image; one that desks do not open from is taken back, and what had its name before returns."""
    try:
        seal(settings, made)
    except (ImageError, DeskError, KeeperError) as e:
        if before is None or before.digest == made.digest:
            store.rm(settings.images, made.name)
        else:
            store.restore(settings.images, before)
        raise ImageError(f"image {made.name!r} was taken back, because no desk works from it: {e}") from e


def in_use(run: Path) -> set[str]:
    """Name the images of open desks."""
    names = set()
    for path in run.glob("desks/*/desk.json"):
        try:
            names.add(str(text.loads(path.read_bytes()).get("image")))
        except (OSError, ValueError, AttributeError):
            continue
    return names


def described(each: Image) -> dict[str, object]:
    """Give an image as JSON has it."""
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


def table(images: list[Image]) -> list[str]:
    """Lay images out in aligned columns."""
    rows = [("NAME", "DIGEST", "SIZE", "BUILT", "FROM")]
    for each in images:
        built = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.built))
        rows.append((each.name, each.digest[:12], f"{each.size / 1e6:.0f} MB", built, each.source))
    clean = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in clean) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in clean]
