"""Build an image from its recipe, parents first, in namespaces of its own. An image is published complete or not at
all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hotdesk.desk.image import recipe as recipes
from hotdesk.desk.image import sources
from hotdesk.desk.image.chroot import BuildTask
from hotdesk.desk.image.image import Image, find
from hotdesk.desk.image.normalise import find_python, strip
from hotdesk.desk.image.recipe import Recipe
from hotdesk.desk.image.store import Progress, measure_disk_usage, publish, writing
from hotdesk.errors import HostError, ImageError, make_printable
from hotdesk.linux.openat2 import RootDirectory

TOOLS = {"mmdebstrap": "mmdebstrap", "unshare": "util-linux", "setpriv": "util-linux", "apt-get": "apt"}
PASSED = ("PATH", "HOME", "LANG", "PYTHONPATH", "XDG_CONFIG_HOME", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE")
PASSED_LIKE = ("PIP_", "SSL_CERT_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
"""The environment variables the tools get: how to reach mirrors and indexes, never a key."""
LAST_LINES = 12


def build(store: Path, recipe: Recipe, progress: Progress) -> Image:
    parent = _find_parent(store, recipe, progress)
    suite = _choose_suite(recipe)
    arch = os.uname().machine
    digest = recipes.compute_digest(recipe, parent.digest if parent else "", arch, suite)
    if there := _find_built_image(store, recipe.name, digest):
        return there
    _require_tools()
    began = time.monotonic()
    with writing(store, progress) as (work, lock):
        lowers = parent.layers if parent else ()
        tree = layer = store / "layers" / digest
        if not layer.exists():
            tree = _make_layer(recipe, suite, lowers, work, lock, progress)
        image = Image(
            name=recipe.name,
            digest=digest,
            layers=(layer, *lowers),
            python=_find_topmost_python((tree, *lowers), recipe.name),
            arch=arch,
            built=time.time(),
            size=measure_disk_usage(tree) + (parent.size if parent else 0),
            source=f"recipe on {recipe.parent or suite}",
        )
        publish(store, image, tree)
    progress(f"{recipe.name}: built in {time.monotonic() - began:.0f} s, {image.size / 1e6:.0f} MB")
    return image


def _make_layer(recipe: Recipe, suite: str, lowers: Sequence[Path], work: Path, lock: int, progress: Progress) -> Path:
    below = tuple(str(each) for each in lowers)
    task = BuildTask(
        name=recipe.name,
        work=str(work),
        lowers=below,
        suite=suite,
        include=recipe.include,
        apt=recipe.apt,
        pip=recipe.pip,
        files=dict(recipe.files),
        run=recipe.run,
    )
    carry_out(task, lock, progress)
    strip(work / "tree", whiteouts=bool(lowers))
    return work / "tree"


def _find_topmost_python(layers: Sequence[Path], name: str) -> str:
    for layer in layers[:-1]:
        with suppress(ImageError), RootDirectory(layer) as inside:
            return find_python(inside, name)
    with RootDirectory(layers[-1]) as inside:
        return find_python(inside, f"image {name!r}")


def _find_parent(store: Path, recipe: Recipe, progress: Progress) -> Image | None:
    """Find the recipe's parent image. Build it first if it is missing and has a built-in recipe."""
    if recipe.parent is None:
        return None
    try:
        return find(store, recipe.parent)
    except ImageError:
        if recipe.parent not in recipes.list_builtin():
            raise
        return build(store, recipes.load_builtin(recipe.parent), progress)


def _choose_suite(recipe: Recipe) -> str:
    """Return the release for an image without a parent: the recipe's on Debian, the machine's own on Ubuntu."""
    if recipe.suite is None:
        return ""
    distro, own = sources.find_distribution(sources.read())
    return recipe.suite if distro == "debian" else own


def _find_built_image(store: Path, name: str, digest: str) -> Image | None:
    try:
        image = find(store, name)
    except ImageError:
        return None
    return image if image.digest == digest else None


def _require_tools() -> None:
    require_root()
    for program, package in TOOLS.items():
        if shutil.which(program) is None:
            raise HostError(f"building an image needs {program}; run `apt-get install {package}`")


def require_root(act: str = "making an image") -> None:
    if os.geteuid() != 0:
        raise HostError(f"{act} needs root: use sudo")


def _wrap_command(argv: Sequence[str]) -> list[str]:
    """Wrap a command so that it dies with this process, along with everything it started and mounted."""
    namespaces = ["--mount", "--pid", "--ipc", "--fork", "--kill-child", "--propagation", "private"]
    return ["setpriv", "--pdeathsig", "KILL", "unshare", *namespaces, *argv]


def carry_out(task: BuildTask, lock: int, progress: Progress) -> None:
    """Run the task in its namespaces and report its progress. On failure, the last lines of its log are the message."""
    log = Path(task.work) / "log"
    argv = _wrap_command([sys.executable, "-P", "-m", "hotdesk.desk.image.chroot"])
    env = {key: value for key, value in os.environ.items() if is_passed_on(key)} | {"TMPDIR": task.work}
    with log.open("wb") as file:
        pipe = subprocess.PIPE
        child = subprocess.Popen(
            argv, stdin=pipe, stdout=pipe, stderr=file, env=env, cwd="/", pass_fds=(lock,), text=True
        )
    try:
        with child:
            follow(child, task, progress)
    finally:
        child.kill()
    if child.returncode != 0:
        raise ImageError(f"image {task.name!r} could not be built:\n{_read_log_tail(log)}")


def follow(child: subprocess.Popen[str], task: BuildTask, progress: Progress) -> None:
    """Send the task to the child, and report its progress until it ends."""
    try:
        if child.stdin is not None:
            child.stdin.write(task.dump())
            child.stdin.close()
        for line in child.stdout or ():
            progress(make_printable(line.rstrip("\n")))
        child.wait()
    except BaseException:
        child.kill()
        raise


def is_passed_on(key: str) -> bool:
    return key in PASSED or key.upper().startswith(PASSED_LIKE)


def _read_log_tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 16384))
        text = file.read().decode("utf-8", "replace")
    return "\n".join(f"  {make_printable(line)[:300]}" for line in text.splitlines()[-LAST_LINES:])
