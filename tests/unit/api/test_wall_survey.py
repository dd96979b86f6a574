"""Tests of how a running server notices which walls its machine has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from hotdesk.api.wall_survey import WallSurvey
from hotdesk.api.walls import TenantWalls
from hotdesk.config import Config
from hotdesk.desk.wall.program import find_program, forget_silent, read_version
from hotdesk.desk.wall.registry import survey
from hotdesk.errors import WallError
from hotdesk.walls import TRAITS, WallCatalog, WallStatus

PLAIN = WallCatalog({"container": WallStatus("container", TRAITS["container"])})
SENTRY = WallCatalog({name: WallStatus(name, TRAITS[name]) for name in ("container", "gvisor")})
SETTINGS = Config(run=Path("/nowhere"), lib=Path("/nowhere"), images=Path("/nowhere"))


def script(path: Path, text: str) -> None:
    """Write a program whose identity differs from the previous one's."""
    fresh = path.with_suffix(".new")
    fresh.write_text(f"#!/bin/sh\n{text}\n")
    fresh.chmod(0o755)
    fresh.replace(path)


async def test_a_wall_set_up_while_the_server_runs_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    walls, changes = TenantWalls(PLAIN, usual="gvisor"), list[str]()
    surveyor = WallSurvey(SETTINGS, walls, lambda: changes.append("once"), lambda settings: SENTRY)
    with pytest.raises(WallError, match="the wall gvisor is not available here"):
        walls.of("acme")
    await surveyor.refresh()
    assert walls.of("acme") == "gvisor"
    assert "that this machine supports have changed available=container,gvisor" in capsys.readouterr().err
    await surveyor.refresh()
    assert (changes, capsys.readouterr().err) == (["once"], "")


async def test_walls_are_surveyed_on_request_and_periodically() -> None:
    counted: Iterator[int] = iter(range(100))
    looked = anyio.Event()

    def look(settings: Config) -> WallCatalog:
        if next(counted) == 3:
            anyio.from_thread.run_sync(looked.set)
        return PLAIN

    surveyor = WallSurvey(SETTINGS, TenantWalls(PLAIN), list[int], look, period=0.01)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(surveyor.run)
        with anyio.fail_after(30):
            await looked.wait()
        tasks.cancel_scope.cancel()
    asked = WallSurvey(SETTINGS, TenantWalls(PLAIN, usual="gvisor"), list[int], lambda settings: SENTRY, period=3600)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(asked.run)
        asked.ask()
        with anyio.fail_after(30):
            while asked.walls.catalog is not SENTRY:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


async def test_a_failed_survey_keeps_the_previous_result(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(settings: Config) -> WallCatalog:
        raise OSError("no such device")

    walls = TenantWalls(SENTRY)
    await WallSurvey(SETTINGS, walls, list[int], fail).refresh()
    assert walls.catalog is SENTRY
    assert "cannot determine which walls (isolation) this machine supports: no such device" in capsys.readouterr().err


def test_a_runsc_that_appears_is_found_by_the_next_survey(tmp_path: Path) -> None:
    program = tmp_path / "runsc"
    settings = Config(run=tmp_path, lib=tmp_path / "lib", images=tmp_path, gvisor_program=str(program))
    assert not survey(settings).find("gvisor").is_available
    script(program, "echo runsc version release-20990101.0")
    assert survey(settings).find("gvisor").is_available
    program.unlink()
    assert not survey(settings).find("gvisor").is_available


def test_only_a_program_without_a_known_version_is_run_again(tmp_path: Path) -> None:
    program, marks = tmp_path / "runsc", tmp_path / "asked"
    script(program, f"echo x >> {marks}; [ -e {tmp_path}/whole ] && echo runsc version release-20990101.0")
    found = find_program(str(program))
    assert found is not None
    assert read_version(found, tmp_path / "cache") == ""
    assert read_version(found, tmp_path / "cache") == ""
    assert marks.read_text() == "x\n"
    (tmp_path / "whole").touch()
    forget_silent()
    assert read_version(found, tmp_path / "cache") == "20990101.0"
    forget_silent()
    assert read_version(found, tmp_path / "cache") == "20990101.0"
    assert marks.read_text() == "x\nx\n"
