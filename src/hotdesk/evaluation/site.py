"""A task's web site, served by a process of its own while the job runs, and the door's settings for it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import anyio
from anyio.abc import Process

from hotdesk.config import Ceiling, Config, Price
from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError
from hotdesk.evaluation.command import StateDirectory, read_all, read_lines
from hotdesk.evaluation.task import SITE, EvalTask
from hotdesk.strict import Length, Range, StrictError, parse_json, read

_PROGRAM, _LOG = "hotdesk.evaluation.site_process", "site"
_START_TIMEOUT_S, _STOP_TIMEOUT_S = 30.0, 30.0
_MAX_ADDRESS_BYTES, _MAX_STATE_BYTES = 1 << 20, 16 << 20
_OVERRIDDEN = ("approve",)
"""Limits that an evaluation ignores: no person attends it, so it approves plans itself. It also ignores the ceiling of
hosts, because the names of its sites are on no operator's list, and lead to this machine."""


@dataclass(frozen=True, slots=True)
class SiteAddress:
    """The address of a served site, and the secrets for it."""

    port: Annotated[int, Range(1, 65535)]
    ca: str
    hosts: Annotated[tuple[Annotated[str, re.compile(r"[a-z0-9.-]{1,253}")], ...], Length(20, 1)]
    secrets: dict[str, str]


@asynccontextmanager
async def serve_site(task: EvalTask, state: StateDirectory, settings: Config, data: Path) -> AsyncIterator[None]:
    """Serve a task's site for the length of a block; write its state to `site.json` in `data` at the end.

    For a task without a site, only the operator's settings are written.
    """
    if not task.has_site:
        write_settings(state, settings, None)
        yield
        return
    arguments = (str(task.folder), str(data / "hidden"), str(state.folder))
    async with state.start(*arguments, module=_PROGRAM, log_name=_LOG) as process:
        address = await _read_address(process, state)
        write_settings(state, settings, address)
        await _store_secrets(state, address.secrets)
        yield
        (data / "site.json").write_bytes(await _read_state(process, state))


async def _read_address(process: Process, state: StateDirectory) -> SiteAddress:
    assert process.stdout is not None
    with anyio.move_on_after(_START_TIMEOUT_S):
        async for line in read_lines(process.stdout, _MAX_ADDRESS_BYTES, SITE):
            return _parse(line)
        raise BriefError(f"{SITE} failed: {state.read_last_error(_LOG, is_own=False)}. Correct it.")
    raise BriefError(
        f"{SITE} did not start within {_START_TIMEOUT_S:g} s. Its `talk` and `secrets` must return without waiting."
    )


def _parse(line: bytes) -> SiteAddress:
    try:
        return read(SiteAddress, parse_json(line))
    except StrictError as e:
        raise BriefError(f"HOSTS or `secrets` in {SITE} is not valid: {e}. Correct it.") from None


async def _store_secrets(state: StateDirectory, secrets: dict[str, str]) -> None:
    for name, value in secrets.items():
        done = await state.run("vault", "set", name, stdin=value.encode(), seconds=60)
        if done.exit_code:
            raise BriefError(f"{SITE}: the secret {name!r} cannot be stored: {done.complaint}")


async def _read_state(process: Process, state: StateDirectory) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    await process.stdin.aclose()
    with anyio.move_on_after(_STOP_TIMEOUT_S):
        data = await read_all(process.stdout, _MAX_STATE_BYTES, SITE)
        if not data:
            raise BriefError(
                f"{SITE} failed while the job ran: {state.read_last_error(_LOG, is_own=False)}. Correct it."
            )
        return data
    raise BriefError(
        f"{SITE} did not end within {_STOP_TIMEOUT_S:g} s after the job. Its `state` must return without waiting."
    )


def write_settings(state: StateDirectory, settings: Config, site: SiteAddress | None) -> None:
    (state.folder / "etc").mkdir(exist_ok=True)
    (state.folder / "etc/config.toml").write_text(render_settings(settings, site))


def render_settings(settings: Config, site: SiteAddress | None) -> str:
    """Return settings as TOML: the operator's prices, limits of jobs and models, and the addresses of a site."""
    lines = []
    if site is not None:
        names = ", ".join(f"{json.dumps(host)} = {json.dumps(f'127.0.0.1:{site.port}')}" for host in site.hosts)
        lines += ["[door]", f"ca = {json.dumps(site.ca)}", f"names = {{{names}}}"]
    lines += _render_table("[ceiling]", settings.limits, without=_OVERRIDDEN)
    for name, price in settings.prices.items():
        lines += _render_table(f"[prices.{json.dumps(name)}]", price)
    for name, capabilities in settings.models.items():
        lines += [
            f"[models.{json.dumps(name)}]",
            *(f"{key} = {json.dumps(each)}" for key, each in capabilities.items()),
        ]
    return "\n".join([*lines, ""])


def _render_table(title: str, settings: Ceiling | Price, without: Collection[str] = ()) -> list[str]:
    """Return a table with the settings that are not the default; nothing if all of them are."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings) if each.name not in without}
    usual = {each.name: each.default for each in fields(settings)}
    chosen = [f"{name} = {json.dumps(value)}" for name, value in values.items() if value != usual[name]]
    return [title, *chosen] if chosen else []
