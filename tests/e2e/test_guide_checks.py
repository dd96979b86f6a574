"""Test of the guide from the first brief to a custom check: every file in it is saved, every command run."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from hotdesk.config import Config
from tests.e2e.conftest import PROGRAM, environment

pytestmark = pytest.mark.container
GUIDE = Path(__file__).parents[2] / "docs/guide"
BLOCKS = re.compile(r"(?:^|[Ss]ave this as `([^`\n]+)`:\n\n)^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS = 100


class Reader:
    """Follows a page of the guide from its first line to its last, in a folder of its own."""

    def __init__(self, settings: Config, folder: Path) -> None:
        self.env = {**environment(settings), "PATH": f"{Path(PROGRAM).parent}:/usr/bin:/bin"}
        self.folder = folder
        self.said: dict[str, str] = {}
        """Output by command."""

    def do(self, page: str, codes: dict[str, int]) -> None:
        """Save each file, and run each command; `codes` has the exit codes that are not 0."""
        for name, form, text in BLOCKS.findall((GUIDE / page).read_text()):
            if name:
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            elif form == "sh":
                for line in text.splitlines():
                    self.run(line, codes.get(line, 0))

    def run(self, line: str, code: int) -> None:
        argv = ["bash", "-c", line]
        done = subprocess.run(argv, cwd=self.folder, env=self.env, capture_output=True, timeout=SECONDS, check=False)
        said = (done.stdout + done.stderr).decode()
        assert done.returncode == code, f"{line}: {done.returncode}\n{said}"
        self.said[line] = said
        if line == "hotdesk key show":
            self.env["SIGNER"] = re.findall(r"[0-9a-f]{32}", said)[0]


@pytest.fixture
def reader(settings: Config, home: Path, request: pytest.FixtureRequest) -> Reader:
    folder = home / request.node.name
    folder.mkdir()
    return Reader(settings, folder)


def test_the_first_brief_ends_with_a_signed_workbook(reader: Reader) -> None:
    reader.do("first-brief.md", {"hotdesk verify changed.xlsx results/Sales.xlsx.certificate.json": 1})
    said = reader.said["hotdesk work sales --script sales.py --out results"]
    assert "\nfailed   Sales.xlsx" in said
    assert "\npassed   Sales.xlsx: 4 columns, 3 rows; 1 formula" in said
    verified = reader.said["hotdesk verify results/Sales.xlsx"]
    assert "VERIFIED" in verified
    assert "NOT CHECKED" in verified
    assert {path.name for path in (reader.folder / "results").iterdir()} == {
        "Sales.xlsx",
        "Sales.xlsx.certificate.json",
        "report.html",
    }


@pytest.mark.long
def test_a_custom_check_sends_a_rota_back_and_then_certifies_it(reader: Reader) -> None:
    reader.do("custom-check.md", {})
    tried = json.loads(reader.said["echo '{\"rest\": 1}' | python3 rota/rested.py wrong.csv"])
    assert [fault["where"] for fault in tried["faults"]] == ["Tue", "Wed"]
    said = reader.said["hotdesk work rota --script rota.py --out results"]
    assert "\nfailed   rota.csv: Sun: expected somebody who rested for 1 day, found Cleo" in said
    assert "\npassed   rota.csv: 7 days, and everybody rests in between" in said
    assert "everybody rests in between" in reader.said["hotdesk verify results/rota.csv"]
