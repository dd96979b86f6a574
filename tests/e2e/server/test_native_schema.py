"""Our OpenAPI is true: whatever it describes is answered as it says, and nothing breaks the server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.e2e.server.conftest import Served

pytestmark = [pytest.mark.container, pytest.mark.long, pytest.mark.timeout(900)]
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
    "response_headers_conformance", "negative_data_rejection", "ignored_auth", "unsupported_method",
)  # fmt: skip
STREAMS = ("/events", "/jobs/{job}/events")
"""What never ends; tested by hand."""


def test_schemathesis_finds_nothing(server: Served, tmp_path: Path) -> None:
    program = str(Path(sys.executable).parent / "schemathesis")
    left_out = [word for path in STREAMS for word in ("--exclude-path", f"/api/v1{path}")]
    command = [
        program, "run", f"{server.url}/api/openapi.json", "-H", f"Authorization: Bearer {server.key}",
        "--checks", ",".join(CHECKS), "--max-examples", "15", "--phases", "examples,coverage,fuzzing",
        "--request-timeout", "30", "--seed", "1", "--workers", "1", "--no-color", *left_out,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=800, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_every_route_is_described_with_its_errors(server: Served) -> None:
    told = httpx.get(f"{server.url}/api/openapi.json").json()
    for path, acts in told["paths"].items():
        for method, act in acts.items():
            assert act["summary"], (path, method)
            if path.startswith("/api/"):
                assert {"401", "403", "422", "429"} <= set(act["responses"]), (path, method)
    assert json.dumps(told)
