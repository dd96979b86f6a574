"""Tests of `examples/agents`: agents of other frameworks work at a real desk, and leave none behind."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotdesk.config import Config
from tests.conftest import settings_in
from tests.e2e.conftest import PROGRAM, environment
from tests.e2e.server.agent_model import KEY, Model, Use, thinking
from tests.mcp_served import Here, open_desks, served_here

pytestmark = [pytest.mark.long, pytest.mark.container, pytest.mark.timeout(700)]
EXAMPLES = Path(__file__).parents[3] / "examples/agents"
PATIENCE = 30.0
OVER_MCP = {
    "pydantic_ai_mcp": ["pydantic-ai-slim[openai,mcp]==2.66.0"],
    "openai_agents_mcp": ["openai-agents==0.24.0"],
    "langchain_mcp": ["langchain-mcp-adapters==0.3.2", "langchain==1.4.7", "langchain-openai==1.7.3"],
}
"""Examples, and the packages that each tells its user to install."""
OVER_E2B = ["smolagents[e2b,openai]==1.26.0"]
WRITE = "echo $((6 * 7)) by $(id -un) > answer.txt; ls -d {home} || echo elsewhere >> answer.txt"
CODE = """
<code>
import subprocess
told = subprocess.run([{command!r}], shell=True, capture_output=True, text=True)
print("written", told.returncode)
</code>
"""
FINAL = '<code>\nfinal_answer(f"told {told.returncode}: " + open("answer.txt").read())\n</code>'
ANSWER = "42 by user\nelsewhere"


@pytest.fixture(scope="module")
def here(home: Path) -> Iterator[Here]:
    """Yield a server without ready desks and with a long idle time: desks exist only while a client uses them."""
    with served_here(home / "agents", mcp_grace=600) as found:
        yield found


@pytest.fixture(scope="module", params=OVER_MCP)
def example(request: pytest.FixtureRequest, home: Path) -> list[str]:
    return [str(installed(home / request.param, OVER_MCP[request.param])), str(EXAMPLES / f"{request.param}.py")]


def installed(folder: Path, packages: list[str]) -> Path:
    """Create a virtual environment with packages; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *packages], check=True, timeout=300)
    return folder / "bin/python"


def run(argv: list[str], model: Model, folder: Path, **env: str) -> str:
    """Run an example as a person would; return its output."""
    own = {"PATH": f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder)}
    own |= {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": model.url, **env}
    told = [*argv, "How", "much", "is", "it?"]
    done = subprocess.run(told, capture_output=True, text=True, timeout=200, check=False, env=own, cwd=folder)
    assert (done.returncode, model.refusals) == (0, []), done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout


class Watching:
    """A model that uses a desk twice, reports the results, and lists the desks that exist meanwhile."""

    def __init__(self, home: Path, settings: Config) -> None:
        self.uses = [WRITE.format(home=home), "cat answer.txt"]
        self.settings = settings
        self.desks: list[list[str]] = []
        """Desks before each use, and after the last."""

    def __call__(self, seen: list[str]) -> Use | str:
        self.desks.append(open_desks(self.settings))
        if len(seen) == len(self.uses):
            return f"The computer says: {seen[-1]}"
        return Use("shell", {"command": self.uses[len(seen)]})

    def check(self, said: str) -> None:
        assert said.startswith("The computer says: [desk ")
        assert ANSWER in said
        none, first, second = self.desks
        assert (none, len(first), second) == ([], 1, first)
        assert gone(self.settings)


def gone(settings: Config) -> bool:
    """Wait until every desk is burnt."""
    end = time.monotonic() + PATIENCE
    while open_desks(settings) and time.monotonic() < end:
        time.sleep(0.05)
    return not open_desks(settings)


def test_an_agent_has_a_desk_by_starting_hotdesk_mcp(example: list[str], home: Path, tmp_path: Path) -> None:
    settings = settings_in(home / f"mcp-{time.monotonic_ns()}")
    settings.run.parent.mkdir(mode=0o755)
    variables = [f"{name}={value}" for name, value in environment(settings).items()]
    (tmp_path / "hotdesk").write_text(f'#!/bin/sh\nexec {shlex.join(["env", *variables, PROGRAM])} "$@"\n')
    (tmp_path / "hotdesk").chmod(0o755)
    mind = Watching(home, settings)
    with thinking(mind) as model:
        mind.check(run(example, model, tmp_path))


def test_an_agent_has_a_desk_of_a_server(example: list[str], here: Here, home: Path, tmp_path: Path) -> None:
    mind = Watching(home, here.settings)
    with thinking(mind) as model:
        said = run(example, model, tmp_path, HOTDESK_URL=here.url, HOTDESK_KEY=here.keys.make("agent"))
    mind.check(said)


def test_an_agent_that_writes_code_has_a_sandbox(here: Here, home: Path, tmp_path: Path) -> None:
    desks: list[list[str]] = []
    codes = [CODE.format(command=WRITE.format(home=home)), FINAL]

    def mind(seen: list[str]) -> str:
        desks.append(open_desks(here.settings))
        return codes[len(seen)]

    argv = [str(installed(home / "smolagents_e2b", OVER_E2B)), str(EXAMPLES / "smolagents_e2b.py")]
    e2b = {"E2B_API_KEY": here.keys.make("smol"), "E2B_API_URL": here.url, "E2B_SANDBOX_URL": here.url}
    with thinking(mind) as model:
        said = run(argv, model, tmp_path, **e2b)
    assert said.endswith(f"told 0: {ANSWER}\n\n")
    first, second = desks
    assert (len(first), second) == (1, first)
    assert gone(here.settings)
