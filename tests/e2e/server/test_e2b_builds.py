"""E2B's template builder against a real server: a sample of each kind here, all of it in `make test-long`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from e2b import AsyncTemplate, Template
from e2b.exceptions import BuildException, TemplateException

from tests.e2e.conftest import PROGRAM as PROGRAM_OF_SERVER
from tests.e2e.conftest import environment
from tests.e2e.server import template_program
from tests.e2e.server.conftest import Served, served, wait
from tests.e2e.server.template_program import api, build, sandbox

pytestmark = [pytest.mark.container, pytest.mark.timeout(300)]
PROGRAM = Path(__file__).with_name("template_program.py")
OLD = "2.45.1"
SAMPLES = (template_program.copies_files, template_program.names_failures)
"""What is tried in every run; the rest takes longer."""


@pytest.mark.parametrize("part", SAMPLES, ids=lambda part: part.__name__)
def test_a_template_is_built(server: Served, tmp_path: Path, part: Callable[[dict[str, Any], Path], None]) -> None:
    part(server.e2b, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    "part", [each for each in template_program.PARTS if each not in SAMPLES], ids=lambda part: part.__name__
)
def test_every_kind_of_template_is_built(
    server: Served, tmp_path: Path, part: Callable[[dict[str, Any], Path], None]
) -> None:
    if part is template_program.stands_on_templates:
        template_program.runs_steps(server.e2b, tmp_path)
        template_program.copies_files(server.e2b, tmp_path)
    part(server.e2b, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_program_with_an_older_sdk_builds_the_same(server: Served, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "old"], check=True, timeout=120)
    python = str(tmp_path / "old/bin/python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"e2b=={OLD}"], check=True, timeout=200)
    done = subprocess.run(
        [python, "-I", PROGRAM, server.key, server.url], capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert done.stdout.endswith(f"all of it, with {OLD}\n")


def test_a_template_is_listed_described_and_deleted(server: Served) -> None:
    build(Template().from_base_image().run_cmd("echo listed > x"), "listed", server.e2b)
    with httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}, timeout=30) as client:
        found = next(each for each in client.get("/templates").json() if each["aliases"] == ["listed"])
        assert found["buildStatus"] == "ready"
        assert client.get("/templates/listed").json()["builds"][0]["status"] == "ready"
        assert client.delete(f"/templates/{found['templateID']}").status_code == 204
        assert client.get("/templates/listed").status_code == 404
        assert client.delete("/templates/listed").status_code == 404
        assert client.post("/v2/sandboxes", json={"templateID": "listed"}).status_code == 404


MALFORMED: dict[str, tuple[str, str, Any, int]] = {
    "no name": ("POST", "/v3/templates", {}, 400),
    "an empty tag": ("POST", "/v3/templates", {"name": "x:"}, 400),
    "another's name": ("POST", "/v3/templates", {"name": "acme/x"}, 403),
    "an image's name": ("POST", "/v3/templates", {"name": "base"}, 409),
    "an odd size": ("POST", "/v3/templates", {"name": "x", "cpuCount": 0}, 400),
    "no template": ("GET", "/templates/never/tags", None, 404),
    "no build": ("GET", "/templates/never/builds/00000000-0000-4000-8000-000000000000/status", None, 404),
    "no id": ("GET", "/templates/never/builds/x/status", None, 400),
    "tags of nothing": ("POST", "/templates/tags", {"target": "never:x", "tags": ["y"]}, 404),
    "no tags": ("DELETE", "/templates/tags", {"name": "never", "tags": []}, 400),
}


@pytest.mark.parametrize(("method", "path", "body", "status"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_call_that_cannot_be_meant_is_refused(server: Served, method: str, path: str, body: Any, status: int) -> None:
    answer = httpx.request(method, server.url + path, json=body, headers={"X-API-Key": server.key}, timeout=30)
    assert answer.status_code == status, answer.text
    assert answer.json()["code"] == status


def test_calls_about_templates_that_are_not_there_fail(server: Served) -> None:
    options = api(server.e2b)
    with pytest.raises(TemplateException, match="not found"):
        Template.get_tags("never", **options)
    with pytest.raises(TemplateException, match="not found"):
        Template.remove_tags("never", ["x"], **options)
    with pytest.raises(BuildException, match="namespace"):
        Template.build_in_background(Template().from_base_image(), "acme/x", **options)

    async def work() -> None:
        with pytest.raises(TemplateException, match="not found"):
            await AsyncTemplate.get_tags("never", **options)
        with pytest.raises(TemplateException, match="not found"):
            await AsyncTemplate.remove_tags("never", ["x"], **options)

    asyncio.run(work())


@pytest.mark.long
def test_templates_are_there_after_a_restart(home: Path) -> None:
    template = Template().from_base_image().run_cmd("echo first > x")
    with served(home / "building", config='[serve]\nbuild_egress = "deny"\n') as first:
        build(template, "stays", first.e2b)
        first.process.terminate()
        first.process.wait(60)
        with (home / "again.log").open("wb") as log:
            source = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
            argv = [PROGRAM_OF_SERVER, "serve", "--port", "0"]
            process = subprocess.Popen(argv, stderr=log, env={**environment(first.settings), **source})
        try:
            options = {**first.e2b, "api_url": (url := wait(process, home / "again.log")), "sandbox_url": url}
            with sandbox("stays", options) as made:
                assert made.files.read("x") == "first\n"
            assert any("CACHED" in line for line in build(template, "stays", options))
        finally:
            process.terminate()
            process.wait(60)
