"""Fixture that runs the real `hotdesk` program in this session's state directory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hotdesk.config import Config

Hotdesk = Callable[..., "subprocess.CompletedProcess[bytes]"]
PROGRAM = str(Path(sys.executable).parent / "hotdesk")


def environment(settings: Config) -> dict[str, str]:
    places = {"HOTDESK_HOME": str(settings.run.parent), "HOTDESK_IMAGES": str(settings.images)}
    own = {"PATH": os.environ["PATH"], "HOME": "/root", "TMPDIR": tempfile.gettempdir()}
    return {**own, "HOTDESK_LINGER": "0.5", **places}


@pytest.fixture
def hotdesk(settings: Config) -> Hotdesk:
    """Return a function that runs `hotdesk` with arguments and returns its exit code and output."""

    def run(*argv: str, stdin: bytes = b"", timeout: float = 60, **env: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [PROGRAM, *argv],
            check=False,
            input=stdin,
            capture_output=True,
            timeout=timeout,
            env={**environment(settings), **env},
        )

    return run
