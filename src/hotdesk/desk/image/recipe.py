"""Recipes of images: short TOML files, checked before anything runs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import field, replace
from importlib import resources
from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.desk.image.image import NAME_SHAPE, as_name
from hotdesk.errors import BriefError, make_printable
from hotdesk.ipc.child import SOURCE

FORMAT = 1
"""Part of every digest; raise it when the same recipe would give a different tree."""

_SUITE_SHAPE = re.compile(r"[a-z][a-z0-9.-]{0,31}")
_PACKAGE_SHAPE = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+.](=[A-Za-z0-9.+:~-]+)?")
VERSION = r" ?(?:===?|>=|<=|~=|!=|<|>) ?[A-Za-z0-9.*+!_-]+"
_REQUIREMENT_SHAPE = re.compile(
    rf"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._,-]+\])?(?:{VERSION}(?: ?,{VERSION})*)?"
)
_OURS_SHAPE = re.compile(r"hotdesk_[a-z]+")
MACHINES = ("aarch64", "x86_64")
"""Architectures for which a recipe may list additional packages, as `apt_x86_64`."""
OURS = "/usr/local/lib/hotdesk"
"""The folder of hotdesk's own files in an image."""
_LINE_SHAPE = re.compile(r"[^\0]*\S[^\0]*")
_TEXT_SHAPE = re.compile(r"[^\0]*")
PATH_SHAPE = re.compile(r"(?!/(?:dev|proc|run|sys|tmp)(?:/|$))(?:/(?!\.\.?(?:/|$))[^/\0-\x1f\x7f]{1,255})+")
"""An absolute path without `.` or `..`, outside the folders that are mounts while an image is built."""
_EXPECTED = {
    "from": "the name of an image, such as base",
    "suite": "the name of a Debian release, such as trixie",
    "include": "the name of a package, such as curl",
    "apt": "the name of a package, such as curl",
    "pip": "the name of a package, such as numpy or numpy==2.2.4",
    "files": "an absolute path outside /dev, /proc, /run, /sys and /tmp, and a text without NUL characters",
}
"""What a value of each key must be, for error messages."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The recipe of one image."""

    name: str
    parent: str | None = None
    """The image it is based on (`from`), or `None` if it is built from packages alone."""
    suite: str | None = None
    """The Debian release of an image without a parent."""
    include: tuple[str, ...] = ()
    """The initial packages of an image without a parent."""
    apt: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    """Requirements by name and version; wheels only."""
    files: Mapping[str, str] = field(default_factory=dict)
    """File contents by path. Files belong to root and are readable by every user; executable if they begin with `#!`.
    """
    run: tuple[str, ...] = ()
    """Shell commands, run as root inside the image, without network. Trusted like a Makefile."""


def load(source: str, name: str | None = None) -> Recipe:
    """Return a recipe by its built-in name, or from a TOML file (a path with a `/` or ending in `.toml`)."""
    if "/" not in source and not source.endswith(".toml"):
        return load_builtin(source) if name is None else rename(load_builtin(source), name)
    path = Path(source)
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as e:
        raise BriefError(f"recipe {make_printable(source)!r} cannot be read: {e}") from e
    return parse(text, path.stem if name is None else name)


def load_builtin(name: str) -> Recipe:
    if as_name(name) not in list_builtin():
        raise BriefError(
            f"unknown recipe {name!r}; the built-in recipes are {', '.join(list_builtin())}. To build your "
            'own, write a TOML file with `from = "base"` and `apt = […]`, and run `hotdesk image build ./FILE.toml`'
        )
    return parse((resources.files("hotdesk.desk.image") / "recipes" / f"{name}.toml").read_text(), name)


def list_builtin() -> list[str]:
    names = [entry.name for entry in (resources.files("hotdesk.desk.image") / "recipes").iterdir()]
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def rename(recipe: Recipe, name: str) -> Recipe:
    return replace(recipe, name=as_name(name))


def parse(text: str, name: str) -> Recipe:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise BriefError(f"recipe {make_printable(name)!r} is not TOML: {e}") from e
    where = f"recipe {as_name(name)!r}"
    recipe = Recipe(
        name=name,
        parent=_take_text(table, "from", NAME_SHAPE, where),
        suite=_take_text(table, "suite", _SUITE_SHAPE, where),
        include=_read_list(table, "include", _PACKAGE_SHAPE, where),
        apt=_read_list(table, "apt", _PACKAGE_SHAPE, where) + _take_machine_packages(table, where),
        pip=_read_list(table, "pip", _REQUIREMENT_SHAPE, where),
        files=_take_files(table, where) | _take_own_files(table, where),
        run=_read_list(table, "run", _LINE_SHAPE, where),
    )
    if table:
        key = make_printable(sorted(table)[0])
        raise BriefError(f"{where} has an unknown key {key!r}; the keys are from, apt, pip, files and run")
    if (recipe.parent is None) == (recipe.suite is None):
        raise BriefError(f'{where} needs either `from` (an image, such as "base") or `suite` (a Debian release)')
    if recipe.parent is not None and recipe.include:
        raise BriefError(f"{where}: `include` cannot be combined with `from`; list the packages in `apt`")
    if recipe.parent == name:
        raise BriefError(f"{where} cannot be based on itself; give it another name with --name")
    return recipe


def _take_text(table: dict[str, object], key: str, shape: re.Pattern[str], where: str) -> str | None:
    value = table.pop(key, None)
    return None if value is None else check_text(value, key, shape, where)


def _read_list(table: dict[str, object], key: str, shape: re.Pattern[str], where: str) -> tuple[str, ...]:
    value = table.pop(key, [])
    if not isinstance(value, list):
        raise BriefError(f"{where}: `{key}` must be a list of strings")
    return tuple(check_text(each, key, shape, where) for each in value)


def _take_machine_packages(table: dict[str, object], where: str) -> tuple[str, ...]:
    """Remove the packages of every architecture from a table; return those of this machine."""
    found = {name: _read_list(table, f"apt_{name}", _PACKAGE_SHAPE, where) for name in MACHINES}
    return found.get(os.uname().machine, ())


def _take_files(table: dict[str, object], where: str) -> dict[str, str]:
    value = table.pop("files", {})
    if not isinstance(value, dict):
        raise BriefError(f"{where}: `files` must be a table of paths, each with the file's content")
    return {
        check_text(path, "files", PATH_SHAPE, where): check_text(text, "files", _TEXT_SHAPE, where)
        for path, text in value.items()
    }


def _take_own_files(table: dict[str, object], where: str) -> dict[str, str]:
    """Remove `ours`, the name of a Python package of hotdesk, from a table; return the package's files."""
    name = _take_text(table, "ours", _OURS_SHAPE, where)
    if name is None:
        return {}
    folder = SOURCE / name
    found = {f"{OURS}/{name}/{each.name}": each.read_text() for each in sorted(folder.glob("*.*")) if each.is_file()}
    if not found:
        raise BriefError(f"{where}: {name!r} is not a Python package of hotdesk")
    return found


def check_text(value: object, key: str, shape: re.Pattern[str], where: str) -> str:
    if not isinstance(value, str):
        raise BriefError(f"{where}: `{key}` must be a string, not {make_printable(repr(value))[:80]}")
    if not shape.fullmatch(value):
        remedy = f"; write {_EXPECTED[name]}" if (name := key.partition("_")[0]) in _EXPECTED else ""
        raise BriefError(f"{where}: {make_printable(value[:80])!r} is not a valid value of `{key}`{remedy}")
    return value


def compute_digest(recipe: Recipe, parent: str, arch: str, suite: str) -> str:
    parts: list[object] = [FORMAT, parent, arch, suite, recipe.include, recipe.apt, recipe.pip, recipe.run]
    if recipe.files:
        parts.append(sorted(recipe.files.items()))
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
