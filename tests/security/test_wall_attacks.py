"""Attacks by a runtime that leaves out a part of a wall: no desk is handed over before its walls are proven."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.desk.seam import Spec
from hotdesk.errors import KeeperError
from tests.security.conftest import Owning
from tests.security.guards import WALLS_UNPROVEN, falls_without

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

WRAPPER = """#!{python} -IS
import json, os, sys
bundle = [text for text in sys.argv if text.startswith("--bundle=")]
if bundle:
    file = bundle[0].removeprefix("--bundle=") + "/config.json"
    with open(file) as opened:
        whole = json.load(opened)
    {change}
    with open(file, "w") as opened:
        json.dump(whole, opened)
os.execv("{crun}", ["crun", *sys.argv[1:]])
"""
SPACES = "whole['linux']['namespaces'] = [each for each in whole['linux']['namespaces'] if each['type'] != {!r}]"
CHANGES = {
    "privileges to come": "whole['process']['noNewPrivileges'] = False",
    "a capability": "[each.append('CAP_KILL') for each in whole['process']['capabilities'].values()]",
    "no filter": "whole['linux'].pop('seccomp')",
    "another user": "whole['process']['user'] = {'uid': 0, 'gid': 0}",
    "another group": "whole['process']['user']['additionalGids'] = [5]",
    "the host's memory": SPACES.format("ipc"),
    "the host's name": "whole.pop('hostname'); " + SPACES.format("uts"),
    "the host's cgroups": SPACES.format("cgroup"),
    "the host's network": SPACES.format("network"),
    "another network": "[each.pop('path', 0) for each in whole['linux']['namespaces'] if each['type'] == 'network']",
}
SAMPLE = ("a capability", "no filter", "another network")


@pytest.mark.sample(1)
@falls_without("the proof before a desk is handed over", WALLS_UNPROVEN)
@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=() if what in SAMPLE else pytest.mark.long) for what in CHANGES]
)
async def test_a_desk_behind_an_incomplete_wall_is_not_handed_over(
    settings: Config, owning: Owning, tmp_path: Path, what: str
) -> None:
    wrapper = tmp_path / "half-a-crun"
    wrapper.write_text(WRAPPER.format(python=sys.executable, crun=shutil.which("crun"), change=CHANGES[what]))
    wrapper.chmod(0o755)
    async with owning(replace(settings, runtime=str(wrapper))) as runtime:
        with pytest.raises(KeeperError, match="the wall failed its test"):
            await runtime.open(Spec())
