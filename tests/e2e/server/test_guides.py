"""Tests of the server's guides: command lines, code, and the configuration of MCP clients work as written."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import indent
from typing import Any

import anyio
import httpx
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.e2e.conftest import PROGRAM, environment
from tests.e2e.server import job_template
from tests.e2e.server.conftest import Served
from tests.guides import ROOT, blocks, typed
from tests.mcp_served import connected, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.container]
SECONDS = 90
WRITTEN = "http://127.0.0.1:3700"
"""The server's address in the guides."""
SNIPPETS = [json.loads(code) for form, code in blocks("mcp") if form == "json"]
CLAUDE = [line for line in typed("mcp") if line.startswith("claude")]


def here(text: str, server: Served) -> str:
    found = re.sub(r"\be2b_…|\$KEY\b|\$E2B_API_KEY\b", server.key, text)
    return found.replace(WRITTEN, server.url)


def run(lines: str, server: Served) -> str:
    """Run lines in a shell that finds `hotdesk` and `python`; return their output."""
    env = {**environment(server.settings), "PATH": f"{Path(PROGRAM).parent}:/usr/bin:/bin"}
    argv = ["bash", "-euc", here(lines, server)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def readme() -> list[str]:
    section = (
        (ROOT / "README.md").read_text().replace("sudo ", "").partition("\n### E2B and MCP\n")[2].partition("\n## ")[0]
    )
    return re.findall("^    (.*)$", section, re.MULTILINE)


@pytest.fixture(scope="module")
def server(own_server: Served) -> Served:
    return own_server


@pytest.fixture(autouse=True)
def burnt(server: Served) -> Iterator[None]:
    yield
    with httpx.Client(base_url=f"{server.url}/api/v1", headers={"X-API-Key": server.key}, timeout=60) as api:
        for desk in api.get("/desks").raise_for_status().json()["items"]:
            api.delete(f"/desks/{desk['id']}")


@pytest.mark.parametrize("lines", [readme(), typed("e2b")], ids=["readme", "e2b"])
def test_a_program_written_for_e2b_runs_by_the_lines_of_the_guide(server: Served, lines: list[str]) -> None:
    [export] = [line for line in lines if line.startswith("export")]
    [program] = [line for line in lines if line.startswith("python -c")]
    assert run(f"{export}\n{program}", server).startswith("Linux ")


@pytest.mark.parametrize("lines", [readme(), typed("e2b"), typed("server")], ids=["readme", "e2b", "server"])
def test_the_first_command_creates_a_key_that_the_server_accepts(server: Served, lines: list[str]) -> None:
    key = run(lines[0], server).strip()
    assert httpx.get(f"{server.url}/api/v1/session", headers={"X-API-Key": key}, timeout=30).status_code == 200


def test_code_runs_as_the_guide_to_templates_says(server: Served) -> None:
    [code] = [code for form, code in blocks("e2b-templates") if form == "python" and "run_code" in code]
    [export] = [line for line in typed("e2b") if line.startswith("export")]
    value = code.rstrip().splitlines()[-1].strip()
    program = code.replace(value, f"print({value})")
    assert run(f"{export}\npython -c {shlex.quote(program)}", server) == "{'a': [1, 2]}\n"


def test_curl_opens_a_desk_and_lists_it(server: Served) -> None:
    made, listed = (json.loads(run(line, server)) for line in typed("api"))
    assert made["memory"] == 1 << 30
    assert made["id"] in [each["id"] for each in listed["items"]]


def test_a_body_without_a_json_content_type_gets_an_error_with_the_remedy(server: Served) -> None:
    told = httpx.post(f"{server.url}/api/v1/desks", content="{}", headers={"X-API-Key": server.key}, timeout=30)
    assert told.status_code == 422
    assert "`Content-Type: application/json`" in told.json()["message"]


async def test_the_python_of_the_guide_opens_a_desk_and_approves_a_job(
    server: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    job_template.install(server.settings.lib / "templates")
    [code] = [code for form, code in blocks("api") if form == "python"]
    names: dict[str, Any] = {}
    body = indent(here(code, server) + "    return client, job.id\n", "    ")
    exec(f"async def main(key):\n{body}", names)  # noqa: S102 - our own guide
    client, job = await names["main"](server.key)
    assert capsys.readouterr().out.startswith("Linux ")
    with anyio.fail_after(SECONDS):
        while [each.kind for each in await client.approvals() if each.job == job] != ["question"]:
            await anyio.sleep(0.1)
    await client.stop(job)


@asynccontextmanager
async def configured(snippet: dict[str, Any], server: Served) -> Any:
    """Connect as a client with this configuration would; the tests are root and need no sudo."""
    [desk] = (snippet.get("mcpServers") or snippet["servers"]).values()
    if "url" in desk:
        assert list(desk["headers"]) == ["Authorization"]
        url, key = (here(text, server) for text in (desk["url"], desk["headers"]["Authorization"]))
        async with connected(url.removesuffix("/mcp"), key.removeprefix("Bearer ")) as client:
            yield client
        return
    assert (desk["command"], desk["args"][:2]) == ("sudo", ["-n", "hotdesk"])
    told = StdioServerParameters(command=PROGRAM, args=desk["args"][2:], env=environment(server.settings))
    async with Client(stdio_client(told)) as client:
        yield client


@pytest.mark.sample(1)
@pytest.mark.parametrize("snippet", SNIPPETS, ids=["claude-desktop", "vs-code", "http"])
async def test_an_mcp_client_configured_by_the_guide_has_a_computer(server: Served, snippet: dict[str, Any]) -> None:
    async with configured(snippet, server) as client:
        assert "Linux" in text_of(await client.call_tool("run", {"argv": ["uname", "-a"]}))


def test_claude_code_is_configured_like_other_clients() -> None:
    stdio, http = map(shlex.split, CLAUDE)
    assert stdio[stdio.index("--") + 1 :] == ["sudo", "-n", "hotdesk", "mcp", "--allow", "pypi"]
    asked = SNIPPETS[2]["mcpServers"]["desk"]
    assert http[5:7] == ["desk", asked["url"]]
    assert http[-1].split()[:2] == [f"{next(iter(asked['headers']))}:", "Bearer"]
    [line] = [shlex.split(line) for line in readme() if line.startswith("claude")]
    assert line[:-1] == http[:-1]
