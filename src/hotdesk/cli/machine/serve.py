"""`hotdesk serve`: serve this machine's desks and jobs."""

from __future__ import annotations

import argparse
import json
import os
import socket
import ssl
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import anyio

from hotdesk import config
from hotdesk.api import settings as settings_of
from hotdesk.api.settings import PORT, SETTINGS, Serving
from hotdesk.api.walls import TenantWalls
from hotdesk.cli.shipped import find_shipped_file
from hotdesk.cli.terminal import run_interruptible
from hotdesk.config import Config
from hotdesk.desk.image import image
from hotdesk.desk.keeper import state
from hotdesk.desk.wall.registry import survey
from hotdesk.errors import BriefError, HostError, make_printable
from hotdesk.linux import private_files

LOOPBACK = "127.0.0.1"
ACME_FOLDER = "acme"
"""Folder of the account key and the certificate in the state directory, which the server only reads."""
OPTIONS = {
    "host": "host", "port": "port", "tls_port": "tls_port", "certificate": "certificate", "key_file": "private_key",
    "domain": "domain", "egress": "egress", "name": "names",
}  # fmt: skip
"""Options, and the settings in `[serve]` that they override."""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", metavar="ADDRESS", help="the address to listen on with TLS (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, metavar="N", help=f"the port on loopback, without TLS (default: {PORT})")
    parser.add_argument("--tls-port", type=int, metavar="N", help="the port with TLS (default: none)")
    parser.add_argument(
        "--certificate",
        metavar="FILE",
        help="a PEM file with the server's certificate and its chain; the certificate must cover each --name and all "
        "names below --domain",
    )
    parser.add_argument("--key-file", metavar="FILE", help="a PEM file with the certificate's private key")
    parser.add_argument("--name", action="append", metavar="NAME", help="a host name of this server; repeatable")
    parser.add_argument(
        "--domain", metavar="NAME", help="the domain under which ports of sandboxes get host names (default: localhost)"
    )
    parser.add_argument(
        "--egress", metavar="WHAT", help="network access of sandboxes: deny, packages or open (default: packages)"
    )
    parser.add_argument(
        "--ready",
        action="append",
        metavar="TEMPLATE=N",
        help="how many desks to keep ready for each tenant, by template (the image that sandboxes start from); "
        "repeatable (default: base=2)",
    )
    parser.add_argument("--json", action="store_true", help="also print the server's addresses as JSON")


def main(arguments: argparse.Namespace) -> int:
    """Serve this machine's desks and jobs to programs and people.

    For example:

      hotdesk key new --name ci
      hotdesk serve
      hotdesk serve --host 0.0.0.0 --tls-port 443 --certificate chain.pem --key-file key.pem \\
          --name desk.example.test --domain box.example.test --ready base=8

    Options override the settings of [serve] in config.toml. Without TLS the server listens on loopback only;
    other addresses need TLS and a key. Its desks end with it, unless `shutdown = "leave"` keeps sandboxes for the
    next server. On SIGHUP it reads certificate and settings again.
    With `nodes` in [serve] its desks are on other machines (`hotdesk node`), and it needs no privileges.
    """
    settings = config.load()
    serving = _merge_settings(settings, arguments)
    if serving.nodes and os.geteuid() != 0:
        _narrow_state(settings)
    if serving.acme:
        from hotdesk.api.acme.files import prepare

        prepare(settings.lib / ACME_FOLDER, serving.names)
    _require_certificate(serving)
    if not serving.nodes:
        _require_templates(settings, serving, named=bool(arguments.ready) or "ready" in settings.serve)
        require_desks(settings)
    has_keys = _has_valid_key(settings)
    serving = settings_of.check(serving, has_keys)
    import hotdesk.api.server  # noqa: F401  imported only now, after the settings were checked: it takes seconds

    plain = listen(LOOPBACK if not serving.is_local else serving.host, serving.port)
    tls = listen(serving.host, serving.tls_port, "--tls-port") if serving.tls_port else None
    challenges = listen(serving.host, serving.acme_port, "`[serve] acme_port`") if serving.acme else None
    serving = replace(serving, port=plain.getsockname()[1])
    announce(serving, as_json=arguments.json, has_keys=has_keys)
    if not serving.nodes:
        _warn_of_walls(settings, serving)
    return run(settings, serving, plain, tls, lambda: _reload_settings(arguments, has_keys=True), challenges)


def _narrow_state(settings: Config) -> None:
    """Close to the group again what a mount of the volume opened. Such a server has one user, who owns every file."""
    changed = sum(private_files.narrow(each) for each in (settings.lib, settings.run) if each.is_dir())
    if changed:
        print(
            f"hotdesk: {changed} files and folders below {settings.lib} and {settings.run} were open to the group of "
            "this process, as Kubernetes leaves them when it mounts a volume; now only their owner can access them",
            file=sys.stderr,
            flush=True,
        )


def _has_valid_key(settings: Config) -> bool:
    from hotdesk.api.keys import ApiKeys, is_valid

    keys = ApiKeys(settings.lib / "serve")
    keys.refresh()
    return any(is_valid(key, time.time()) for key in keys.by_id.values())


def _require_certificate(serving: Serving) -> None:
    """Refuse files that are missing, or are not a certificate with its private key."""
    files = [path for path in (serving.certificate, serving.private_key) if path is not None]
    for path in files:
        try:
            path.open("rb").close()
        except OSError as e:
            raise BriefError(f"{make_printable(str(path))} cannot be read: {e.strerror}") from e
    if serving.certificate is not None and serving.private_key is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(serving.certificate, serving.private_key)
        except (ssl.SSLError, ValueError) as e:
            names = " and ".join(make_printable(str(path)) for path in files)
            raise BriefError(f"{names} are not a certificate and its private key in PEM: {e}") from e


def _require_templates(settings: Config, serving: Serving, *, named: bool) -> None:
    """Refuse to keep desks of a missing template ready; unless `named`, a default template may be built later."""
    if not named:
        return
    from hotdesk.api.e2b.templates import parse_image_name

    there = sorted(each.name for each in image.ls(settings.images) if not each.name.startswith("snapshot-"))
    for template in serving.ready:
        if parse_image_name(template) not in there:
            raise BriefError(
                f"unknown template {make_printable(template[:64])!r} in --ready; the templates are {', '.join(there)}"
            )


def require_desks(settings: Config) -> None:
    if os.geteuid() != 0:
        raise HostError(
            "serving desks needs root (mounts, namespaces, cgroups); use sudo, or install the "
            f"systemd unit {find_shipped_file('hotdesk.service')}"
        )
    state.prepare(settings)


def _reload_settings(arguments: argparse.Namespace, *, has_keys: bool) -> Serving:
    """Read the settings again, and refuse invalid ones."""
    serving = _merge_settings(config.load(), arguments)
    _require_certificate(serving)
    return settings_of.check(serving, has_keys)


def run(
    settings: Config,
    serving: Serving,
    plain: socket.socket,
    tls: socket.socket | None,
    read: Callable[[], Serving],
    challenges: socket.socket | None = None,
) -> int:
    """Serve until a signal: the first ends it gracefully, the second at once; SIGHUP reloads the settings."""
    from hotdesk.api.reload import Reloading
    from hotdesk.api.server import serve

    stopping = anyio.Event()
    reloading = Reloading(serving, read)

    async def work() -> int:
        await serve(settings, reloading, plain, tls, stopping, challenges)
        return 0

    return run_interruptible(work, stopping.set, reloading.ask)


def _merge_settings(settings: Config, arguments: argparse.Namespace) -> Serving:
    """Return the effective settings: options override the file."""
    overrides = {name: getattr(arguments, option) for option, name in OPTIONS.items()}
    table = {**settings.serve, **{name: value for name, value in overrides.items() if value is not None}}
    if arguments.ready:
        table["ready"] = dict(_parse_ready_count(each) for each in arguments.ready)
    serving = settings_of.read(table)
    if not serving.acme:
        return serving
    if serving.certificate or serving.private_key:
        raise BriefError(
            "certificates come from ACME or from files, not both: remove `acme`, or `certificate` and `private_key`"
        )
    file = settings.lib / ACME_FOLDER / "server.pem"
    return replace(serving, certificate=file, private_key=file)


def _parse_ready_count(text: str) -> tuple[str, int]:
    name, _, count = text.partition("=")
    if not name or not count.isascii() or not count.isdecimal():
        raise BriefError(f"--ready must be TEMPLATE=N, such as base=4, not {text[:80]!r}")
    return name, int(count[:9])


def listen(host: str, port: int, option: str = "--port") -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as e:
        raise HostError(f"cannot listen on {host} port {port}: {e.strerror}; choose another with {option}") from e
    listener.setsockopt(
        socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
    )  # otherwise a response's body waits 40 ms for the ACK of its head
    return listener


def announce(serving: Serving, *, as_json: bool, has_keys: bool) -> None:
    host = serving.host if serving.is_local else LOOPBACK
    url = f"http://{f'[{host}]' if ':' in host else host}:{serving.port}"
    name = (*serving.names, serving.host)[0]
    tls = f"https://{name}:{serving.tls_port}" if serving.tls_port else None
    print(url, file=sys.stderr)
    if tls:
        print(tls, file=sys.stderr)
    if not has_keys:
        print("hotdesk: there are no API keys yet: `hotdesk key new --name NAME` creates one", file=sys.stderr)
    sys.stderr.flush()
    if as_json:
        print(json.dumps({"url": url, "tls": tls, "domain": serving.reached}), flush=True)


def _warn_of_walls(settings: Config, serving: Serving) -> None:
    """Warn at the start if no desk can be opened behind a wall that a tenant needs."""
    from hotdesk.api.keys import ApiKeys

    keys = ApiKeys(settings.lib / "serve")
    walls = TenantWalls(survey(settings), settings.limits.wall, serving.wall, serving.tenants, keys.count_tenants)
    for why in dict.fromkeys(walls.find_faults(("default", *serving.tenants))):
        print(f"hotdesk: {why}", file=sys.stderr, flush=True)


assert set(OPTIONS.values()) <= SETTINGS.keys()
