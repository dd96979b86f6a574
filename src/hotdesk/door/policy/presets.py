"""Rules for the usual package sources, from the hosts that this machine itself is configured for."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

from hotdesk.brief.data import Rule
from hotdesk.brief.rules import check_rule, parse_rule, parse_rule_table
from hotdesk.dataclass import dataclass
from hotdesk.desk.image import sources
from hotdesk.door.policy.lookups import LOOKUPS, Lookups
from hotdesk.errors import BriefError, HostError, HotdeskError, make_printable

GITHUB = (
    "read https://github.com",
    "read https://api.github.com",
    "read https://codeload.github.com",
    "read https://raw.githubusercontent.com",
    "read https://objects.githubusercontent.com",
    "read https://release-assets.githubusercontent.com",
    "POST https://github.com/*/*/git-upload-pack",
)
"""The last rule is git's request for the objects it reads; a push would use `git-receive-pack`."""
_PIP_SECTIONS = ("global", "install", "download")
_PIP_NAMES = ("index_url", "extra_index_url")
_NPM_LINE = re.compile(r"\s*(@[^\s=:]+:)?registry\s*=\s*(\S+)\s*")


@dataclass(frozen=True, slots=True)
class PackageSources:
    """The package sources that this machine's own programs use; empty if none are configured."""

    pip: tuple[str, ...] = ()
    """Package indexes, as URLs of their `simple` page."""
    npm: tuple[str, ...] = ()
    """Registries, as URLs."""
    apt: tuple[str, ...] = ()
    """Archives, as URLs."""
    default_pip: bool = True
    """Whether pip uses the public index as well."""
    default_npm: bool = True
    """Whether npm uses the public registry as well."""
    public_npm: str = ""
    """The public registry, as npm itself reports it."""


def parse_rules(entry: str | Mapping[str, object], machine: PackageSources | None = None) -> tuple[Rule, ...]:
    """Parse an entry of a brief or the command line: a rule, a table, or the name of a preset."""
    if isinstance(entry, Mapping):
        return (parse_rule_table(entry),)
    if entry.strip() in PRESETS:
        name = entry.strip()
        return get_preset_rules(name, machine) if machine else as_reached(get_preset_rules(name, read_machine(name)))
    return (parse_rule(entry),)


def get_preset_rules(name: str, machine: PackageSources) -> tuple[Rule, ...]:
    if name not in PRESETS:
        shown = make_printable(name[:80])
        raise BriefError(f"unknown preset {shown!r}; the presets are {', '.join(PRESETS)}, as in --allow pypi")
    return tuple(dict.fromkeys(PRESETS[name](machine)))


def build_preset_environment(names: Iterable[str], machine: PackageSources | None = None) -> dict[str, str]:
    """Return the variables that make a desk's pip and npm use this machine's sources; never a password.

    apt needs none: its sources were written into the image.
    """
    tell = {"pypi": _build_pip_variables, "npm": _build_npm_variables}
    found: dict[str, str] = {}
    for name in names:
        if name in tell:
            found |= tell[name](machine or read_machine(name))
    return found


def list_password_hosts(names: Iterable[str], machine: PackageSources | None = None) -> tuple[str, ...]:
    """List the hosts whose configured user and password are not passed to a desk: it needs a grant to use them."""
    machines = [machine or read_machine(name) for name in names]
    parts = [urlsplit(url) for own in machines for url in _list_web_urls((*own.pip, *own.npm, *own.apt))]
    return tuple(dict.fromkeys(str(part.hostname) for part in parts if "@" in part.netloc))


def _build_pip_variables(machine: PackageSources) -> dict[str, str]:
    """Return the variables for pip, and for uv, which has its own; pip must also be told to trust plain HTTP."""
    urls = [_strip_credentials(url) for url in _list_web_urls(machine.pip)]
    index, extra = ([], urls) if machine.default_pip else (urls[:1], urls[1:])
    plain = [urlsplit(url).netloc for url in urls if url.startswith("http:")]
    variables = {
        "PIP_INDEX_URL": index,
        "PIP_EXTRA_INDEX_URL": extra,
        "PIP_TRUSTED_HOST": plain,
        "UV_DEFAULT_INDEX": index,
        "UV_INDEX": extra,
    }
    return {name: " ".join(values) for name, values in variables.items() if values}


def _build_npm_variables(machine: PackageSources) -> dict[str, str]:
    """Return the variables for npm, without registries of scopes: a shell would not pass on such variable names."""
    return {} if machine.default_npm else {"npm_config_registry": _strip_credentials(_list_web_urls(machine.npm)[0])}


def _strip_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def as_reached(rules: Iterable[Rule], lookups: Lookups = LOOKUPS) -> tuple[Rule, ...]:
    """Mark rules private for hosts that this machine itself reaches on a private network.

    It may wait for the resolver: call it in a thread if an event loop is running.
    """
    found = tuple(rules)
    for rule in found:
        if not rule.private:
            lookups.begin(rule.host)  # start all lookups at once
    return tuple(
        replace(rule, private=True) if not rule.private and lookups.leads_inside(rule.host) else rule for rule in found
    )


def _build_pypi_rules(machine: PackageSources) -> tuple[Rule, ...]:
    """Return the rules for the machine's Python indexes; files are beside the index, in its parent folder."""
    own = tuple(rule for url in machine.pip for rule in _build_source_rules(url, above=True))
    return own if own and not machine.default_pip else own + _parse_public_rules(_list_public_index())


def _build_npm_rules(machine: PackageSources) -> tuple[Rule, ...]:
    own = tuple(rule for url in machine.npm for rule in _build_source_rules(url))
    if own and not machine.default_npm:
        return own
    if not (host := urlsplit(machine.public_npm).hostname):
        raise BriefError(
            "npm is not installed, so its registry is unknown; install it, set npm_config_registry, or use --allow HOST"
        )
    return own + _parse_public_rules((f"read {host}",))


def _build_debian_rules(machine: PackageSources) -> tuple[Rule, ...]:
    own = tuple(rule for url in machine.apt for rule in _build_source_rules(url))
    if not own:
        raise BriefError("this machine's apt sources have no http or https archive; allow an archive with --allow HOST")
    return own


def _list_public_index() -> tuple[str, ...]:
    index = import_module("pip._internal.models.index").PyPI
    return f"read {index.netloc}", f"read {index.file_storage_domain}"


def _build_github_rules(machine: PackageSources) -> tuple[Rule, ...]:
    return _parse_public_rules(GITHUB)


PRESETS: dict[str, Callable[[PackageSources], tuple[Rule, ...]]] = {
    "pypi": _build_pypi_rules,
    "npm": _build_npm_rules,
    "debian": _build_debian_rules,
    "github-read": _build_github_rules,
}


def _parse_public_rules(texts: tuple[str, ...]) -> tuple[Rule, ...]:
    return tuple(parse_rule(text) for text in texts)


def _build_source_rules(url: str, above: bool = False) -> tuple[Rule, ...]:
    """Return the rule for a configured source, or none for a source that is not on the web.

    The host may be on a private network, because the operator of this machine configured it.
    """
    try:
        parts = urlsplit(url)
        folders = [each for each in parts.path.split("/") if each]
        path = "/".join(["", *(folders[:-1] if above else folders), "**"])
        rule = Rule(parts.hostname or "", scheme=parts.scheme, port=parts.port, path=path, private=True)  # type: ignore[arg-type]
        return (check_rule(rule),)
    except (ValueError, BriefError):
        return ()


def read_machine(
    name: str, env: Mapping[str, str] | None = None, root: Path = Path("/"), prefix: Path = Path(sys.prefix)
) -> PackageSources:
    if env is None and name in REMEMBERED:
        return REMEMBERED[name]
    environ = os.environ if env is None else env
    match name:
        case "pypi":
            return _read_pip(environ, root, prefix)
        case "npm":
            found = _read_npm(environ, root)
            return replace(found, public_npm=_ask_npm()) if env is None and found.default_npm else found
        case "debian":
            return PackageSources(apt=_read_apt())
    return PackageSources()


REMEMBERED: dict[str, PackageSources] = {}
"""Package sources by preset, read while this process could still start programs."""


def remember() -> None:
    """Read what every preset needs, for a process that will soon be unable to start apt or npm; ignore errors."""
    for name in PRESETS:
        with suppress(HotdeskError, OSError):
            REMEMBERED[name] = read_machine(name)


def _get_home(env: Mapping[str, str], root: Path) -> Path:
    return root / env.get("HOME", "/root").lstrip("/")


def _read_pip(env: Mapping[str, str], root: Path, prefix: Path) -> PackageSources:
    home = _get_home(env, root)
    own = root / env["XDG_CONFIG_HOME"].lstrip("/") if env.get("XDG_CONFIG_HOME") else home / ".config"
    files = [root / "etc/xdg/pip/pip.conf", root / "etc/pip.conf", home / ".pip/pip.conf", own / "pip/pip.conf"]
    files += [prefix / "pip.conf", *([Path(env["PIP_CONFIG_FILE"])] if env.get("PIP_CONFIG_FILE") else [])]
    if env.get("PIP_CONFIG_FILE") == os.devnull:
        files = []  # this is how pip is told to read no configuration file
    settings: dict[str, str] = {}
    for file in files:
        settings |= _read_pip_settings(file)
    settings |= {name: value for name in _PIP_NAMES if (value := env.get(f"PIP_{name.upper()}"))}
    index, extra = (settings.get(name, "").split() for name in _PIP_NAMES)
    return PackageSources(pip=tuple(index[:1] + extra), default_pip=not _list_web_urls(index[:1]))


def _read_pip_settings(file: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(file.read_text("utf-8"))
    except (OSError, ValueError, configparser.Error):
        return {}
    found: dict[str, str] = {}
    for section in _PIP_SECTIONS:
        options = dict(parser.items(section)) if parser.has_section(section) else {}
        plain = {name.replace("-", "_"): value for name, value in options.items()}
        found |= {name: plain[name] for name in _PIP_NAMES if plain.get(name)}
    return found


def _read_npm(env: Mapping[str, str], root: Path) -> PackageSources:
    home = _get_home(env, root)
    files = [root / "usr/etc/npmrc", root / "usr/local/etc/npmrc", root / "etc/npmrc", home / ".npmrc"]
    found = [line for file in files for line in _read_npm_lines(file)]
    scoped = [url for scope, url in found if scope]
    default = next((url for scope, url in reversed(found) if not scope), "")
    default = env.get("npm_config_registry") or env.get("NPM_CONFIG_REGISTRY") or default
    return PackageSources(npm=tuple(filter(None, [default, *scoped])), default_npm=not _list_web_urls([default]))


def _ask_npm() -> str:
    """Ask this machine's npm for its registry; return an empty string if there is no npm."""
    try:
        done = subprocess.run(
            ["npm", "config", "get", "registry"], capture_output=True, text=True, timeout=30, check=False, cwd="/"
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _read_npm_lines(file: Path) -> list[tuple[str, str]]:
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [(line[1] or "", line[2].strip("\"'")) for line in map(_NPM_LINE.fullmatch, lines) if line]


def _read_apt() -> tuple[str, ...]:
    """List apt's archives; a machine without apt has none."""
    try:
        return tuple(dict.fromkeys(target.uri for target in sources.read()))
    except HostError:
        return ()


def _list_web_urls(urls: Iterable[str]) -> list[str]:
    return [url for url in urls if _build_source_rules(url)]
