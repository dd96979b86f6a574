"""Tests of the example notebook in a real kernel: desks stay open across cells, and nothing is left of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hotdesk.config import Config
from tests.e2e.conftest import environment

pytestmark = [pytest.mark.container, pytest.mark.timeout(180)]
NOTEBOOK = Path(__file__).parents[2] / "examples/notebook/desk.ipynb"


def shown(cell: dict[str, Any]) -> str:
    texts = [each.get("text") or each.get("data", {}).get("text/plain", "") for each in cell["outputs"]]
    return "".join("".join(text) for text in texts)


def test_a_notebooks_desks_stay_open_across_its_cells(settings: Config, tmp_path: Path) -> None:
    jupyter = {
        name: str(tmp_path / name.lower()) for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR")
    }
    env = {**environment(settings), **jupyter, "HOME": str(tmp_path)}
    program = str(Path(sys.executable).parent / "jupyter-execute")
    argv = [program, "--kernel_name=python3", f"--output={tmp_path / 'done.ipynb'}", str(NOTEBOOK)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=170)
    assert done.returncode == 0, done.stderr[-4000:]
    cells = json.loads((tmp_path / "done.ipynb").read_text())["cells"]
    opened, sorted_, total, listed, burnt, started, fed, closed = (
        shown(cell) for cell in cells if cell["cell_type"] == "code"
    )
    assert opened.startswith("<Desk i")
    assert opened.endswith(" open image=base cpus=2 memory=512M>")
    assert (sorted_, total, listed) == ("chair,12\ndesk,7\nlamp,3\n", "total 22\n", "['orders.csv']\n")
    assert " gone" in burnt
    assert (started, fed) == ("", "hello\n")
    assert " gone" in closed
    assert not os.listdir(settings.run / "desks")


def test_the_notebook_in_the_repository_has_no_output() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in cells)
