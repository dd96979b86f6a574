"""Tests of a job request made from the command line and the operator's settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.providers.behind import behind

from hotdesk.brain.models.seam import ModelRequest, OurMessage, Reply
from hotdesk.cli.job_request import JobRequest, make_brain, require_ordered
from hotdesk.config import Config, Price
from hotdesk.errors import BriefError

BRIEF = 'goal = "x"\n[[deliverables]]\npath = "a.txt"\nchecks = []\n'


@pytest.mark.parametrize("kind", ["anthropic", "openai", "chat"])
async def test_the_operators_prices_apply_to_every_provider(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with behind(kind, lambda asked: Reply("Hello.")) as server:
        monkeypatch.setenv(f"{kind.upper()}_BASE_URL", server.base_url)
        monkeypatch.setenv(f"{kind.upper()}_API_KEY", "key-of-mine")
        name = f"chat:m@{server.base_url}" if kind == "chat" else f"{kind}:m"
        chosen = JobRequest(BRIEF, str(tmp_path), "toml", plan=(name,))
        settings = Config(run=tmp_path, lib=tmp_path, images=tmp_path, prices={name: Price(1e6, 0.0, 0.0)})
        brain = make_brain(chosen, chosen.build_job(), settings)
        try:
            reply = await brain.planners[0].ask(ModelRequest("", (OurMessage("Hello?"),)))
        finally:
            await brain.close()
    assert reply.usage.dollars is not None
    assert reply.usage.dollars >= reply.usage.input > 0


OWN = {
    "plan": 'models = {plan = "NAME"}\n',
    "act": 'models = {plan = "openai:gpt-5", act = ["NAME"]}\n',
    "look": 'look = "NAME"\n',
}


@pytest.mark.parametrize("line", OWN.values(), ids=OWN)
def test_a_servers_job_continues_only_with_models_of_the_list_or_of_a_template(line: str, tmp_path: Path) -> None:
    installed, listed = tmp_path / "templates", ("openai:gpt-5", "anthropic:claude-sonnet-5")
    (installed / "audit").mkdir(parents=True)
    (installed / "audit/brief.toml").write_text(line.replace("NAME", "openai:ours") + BRIEF)

    def require(name: str) -> None:
        brief = line.replace("NAME", name) + BRIEF
        request = JobRequest(brief, str(tmp_path / "brief"), "toml", out=str(tmp_path / "out"))
        require_ordered(request, tmp_path, [installed], listed)

    require("anthropic:claude-sonnet-5")
    require("openai:ours")
    with pytest.raises(BriefError, match="does not offer the model 'anthropic:claude-opus-5'"):
        require("anthropic:claude-opus-5")


def test_a_job_does_not_import_the_machine_without_a_wall_and_its_certificates() -> None:
    code = "import sys, hotdesk.cli.job_runner; print({'hotdesk.job.local', 'cryptography.x509'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "set()\n"
