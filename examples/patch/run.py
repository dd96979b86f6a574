"""Run the example: make a repository with a red test, have it fixed by a patch, and try that patch with other tests.

sudo .venv/bin/python examples/patch/run.py [--out FOLDER] [--seed N]
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import anyio

from hotdesk import Host, Spec, config
from hotdesk.desk.owner.transfer import put

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import trial
from examples.patch import planted

HERE = Path(__file__).parent


def main() -> int:
    """Make the repository in a copy of the brief, carry the brief out, and judge the patch."""
    options = trial.parse_arguments("Write a patch for a red test: red before, green after.")
    with trial.state_directory("patch") as home:
        brief = home / "brief"
        brief.mkdir()
        for name in ("brief.toml", "brain.py"):
            shutil.copy(HERE / name, brief)
        bug = planted.make(brief / "repo", options.seed)
        planted.change(brief / "brief.toml", planted.BUGS[0].name, bug.name)
        trial.print_status(f"planted in billing/{bug.module}.py; red is {bug.test}")
        if code := trial.run_brief(home, brief, options):
            return code
        is_right = anyio.run(judge, home, brief / "repo", options.out / "fix.patch")
    trial.print_status(
        "the judge's own tests are green with the patch, and red without"
        if is_right
        else "the judge's own tests are NOT green with the patch"
    )
    return int(not is_right)


async def judge(home: Path, repository: Path, patch: Path) -> bool:
    """Run tests that the worker never got, without the patch and with it, at a desk of their own."""
    settings = replace(config.load(), run=home / "run", lib=home / "lib")
    tests = ["python3", "-B", "-m", "unittest", "tests.test_unseen"]
    async with Host(settings, control=False) as host, host.open_desk(Spec()) as desk:
        await put(desk, repository, "repo")
        await put(desk, HERE / "unseen/test_unseen.py", "repo/tests/test_unseen.py")
        await put(desk, patch, "fix.patch")
        before = await desk.run(tests, cwd="repo", timeout=60)
        applied = await desk.run(["git", "apply", "../fix.patch"], cwd="repo", timeout=60)
        after = await desk.run(tests, cwd="repo", timeout=60)
    return not before.ok and applied.ok and after.ok


if __name__ == "__main__":
    sys.exit(main())
