"""Tests of scenarios D, E and F, and an order that a person must approve: each runs as a person would run it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from examples.contract import contract, evidence
from examples.order import storeroom
from examples.patch import brain, planted

from hotdesk.config import Config

EXAMPLES = Path(__file__).parents[2] / "examples"
LONG = pytest.mark.long


def run(name: str, seed: int, out: Path, settings: Config, *more: str) -> str:
    """Run an example that must succeed; check that its state directory is gone, and return its output."""
    home = settings.run.parent
    env = {**os.environ, "HOTDESK_IMAGES": str(settings.images), "TMPDIR": str(home)}
    argv = [sys.executable, str(EXAMPLES / name / "run.py"), "--out", str(out), "--seed", str(seed), *more]
    done = subprocess.run(argv, env=env, capture_output=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert not list(home.glob(f"hotdesk-{name}-*"))
    return done.stderr.decode()


def certified(file: Path) -> dict[str, Any]:
    told = json.loads(file.with_name(f"{file.name}.certificate.json").read_bytes())
    return {seen["check"]: seen for seen in told["checks"]}


# -- F: a patch -----------------------------------------------------------------------------------------------


@pytest.mark.container
@LONG  # test_recordings.py does the same with a recorded model
@pytest.mark.parametrize("seed", [0, 1, 2, 12, 29])
def test_a_red_test_becomes_a_patch_that_is_red_before_and_green_after(
    seed: int, settings: Config, tmp_path: Path
) -> None:
    told = run("patch", seed, tmp_path, settings)
    assert "the judge's own tests are green with the patch, and red without" in told
    assert (tmp_path / "fix.patch").read_text().startswith("diff --git a/billing/")
    seen = certified(tmp_path / "fix.patch")["patch"]
    assert {"red before", "green after", "tests unchanged"} <= set(seen["looked_for"])
    assert (seen["values"]["exit code before"], seen["values"]["exit code after"]) == (1, 0)


@pytest.mark.parametrize("bug", planted.BUGS, ids=[bug.module for bug in planted.BUGS])
def test_the_workers_first_fix_is_wrong_and_fails_the_tests(bug: planted.Bug, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "patch/repo", tmp_path / "repo")
    path = tmp_path / f"repo/billing/{bug.module}.py"
    planted.change(path, bug.right, bug.wrong)
    wrong, first, second = brain.FIXES[bug.module]
    assert wrong == bug.wrong
    assert red(path.parents[1]) == {bug.name}
    for old, new, are_red in ((wrong, first, True), (first, second, False)):
        planted.change(path, old, new)
        assert bool(red(path.parents[1])) is are_red


def red(repository: Path) -> set[str]:
    argv = [sys.executable, "-B", "-m", "unittest", "-v"]
    done = subprocess.run(argv, cwd=repository, capture_output=True, timeout=60, check=False)
    return {name for name, _ in brain.RED.findall(done.stderr.decode())}


# -- an order -------------------------------------------------------------------------------------------------


@pytest.mark.container
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=LONG) for seed in (1, 7, 23))])
def test_an_order_is_placed_once_after_a_persons_approval(seed: int, settings: Config, tmp_path: Path) -> None:
    told = run("order", seed, tmp_path, settings)
    assert "the shop has SO-5001" in told
    assert told.count("another process: hotdesk approve") == 2
    assert json.loads((tmp_path / "confirmation.json").read_bytes())["order"] == "SO-5001"
    assert "json" in certified(tmp_path / "confirmation.json")


@pytest.mark.container
@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 7])
def test_a_refused_order_is_never_placed_and_the_job_says_so(seed: int, settings: Config, tmp_path: Path) -> None:
    told = run("order", seed, tmp_path, settings, "--refuse")
    assert "the shop has no order" in told
    assert told.count("another process: hotdesk refuse") == 1
    assert "failed, step place failed" in told
    assert [path.name for path in tmp_path.iterdir()] in ([], ["report.html"])


# -- D: a contract --------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.container
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=LONG) for seed in (2, 7, 16, 41))])
def test_every_quoted_clause_is_on_its_page_of_the_contract(seed: int, settings: Config, tmp_path: Path) -> None:
    told = run("contract", seed, tmp_path, settings)
    assert "every clause is as in the contract" in told
    assert "which stands on no page" in told
    assert (told.count("failed   clauses.json"), told.count("by custom: passed")) == (1, 1)
    assert certified(tmp_path / "clauses.json")["custom"]["held"] == ["6 quotes stand on their pages, of 3"]


@pytest.mark.parametrize(
    ("page", "quote", "found"),
    [
        (2, "The law of Austria applies to all of it.", ""),
        (1, "The law of Austria applies to all of it.", "page [2]"),
        (2, "The law of Australia applies to all of it.", "no page"),
        (2, "The law of Austria applies ...", "no page"),
        (1, "This stands on more than one page.", "page [1, 3]"),
        (2, "The law", "The law"),
    ],
)
def test_a_quote_counts_only_where_it_is_unambiguous(page: int, quote: str, found: str) -> None:
    twice = "This stands on more than one page."
    pages = [f"One. {twice}", "Two. The law of Austria applies to all of it.", twice]
    told = evidence.looked_up({"clause": "law", "page": page, "quote": quote}, pages)
    assert [found in fault["found"] for fault in told] == ([True] if found else [])


# -- inputs -----------------------------------------------------------------------------------------------------


def test_the_inputs_match_their_generators(tmp_path: Path) -> None:
    storeroom.write(tmp_path / "storeroom.csv", 0)
    contract.write(tmp_path / "contract.pdf", 0)
    for name in ("order/storeroom.csv", "contract/contract.pdf"):
        assert (tmp_path / Path(name).name).read_bytes() == (EXAMPLES / name).read_bytes()


@pytest.mark.parametrize("seed", range(40))
def test_every_contract_states_its_true_terms_on_one_of_several_pages(seed: int, tmp_path: Path) -> None:
    thought = contract.thought(seed)
    text = " ".join(told for _, told in contract.paragraphs(seed))
    assert all(text.count(sentence) == 1 for _, sentence in thought.values())
    contract.write(tmp_path / "contract.pdf", seed)
    assert (tmp_path / "contract.pdf").read_bytes().count(b"/Type /Page ") >= 3
