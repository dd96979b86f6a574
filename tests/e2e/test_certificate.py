"""Tests of certificates: the guide's commands, changed files, and jobs killed around certification."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.drive.certificate import SUFFIX, read
from hotdesk.drive.identity import OPERATOR
from hotdesk.drive.journal import FILE
from hotdesk.drive.journal import read as read_journal
from hotdesk.drive.keep import Drive
from hotdesk.drive.signing import compute_fingerprint, load_own_public
from hotdesk.event import Certified, Kept
from tests.e2e.conftest import PROGRAM, environment
from tests.e2e.killed import Errand, settings_at
from tests.e2e.test_killed import Nurseries, goes_on, history, job_of, nurseries

__all__ = ["nurseries"]
DOCS = Path(__file__).parents[2] / "docs/guide"
LINES = [line for text in re.findall(r"^```sh\n(.*?)^```$", (DOCS / "certificate.md").read_text(), re.M | re.S)
         for line in text.splitlines()]  # fmt: skip
SCRIPT = re.findall(r"^```python\n(.*?)^```$", (DOCS / "work.md").read_text(), re.M | re.S)[0]
PROVEN = Path(__file__).with_name("proven")
SECONDS = 60


@dataclass(frozen=True, slots=True)
class Guide:
    """The files and outputs of the guide's commands."""

    folder: Path
    env: dict[str, str]
    said: dict[str, str]
    settings: Config

    @property
    def signer(self) -> str:
        return compute_fingerprint(load_own_public(self.settings.lib / "keys"))

    def run(self, line: str, **env: str) -> tuple[int, str]:
        """Run a command line as a person does; return its exit code and all output."""
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env={**self.env, **env},
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        return done.returncode, (done.stdout + done.stderr).decode()

    def elsewhere(self, line: str, **env: str) -> tuple[int, str]:
        return self.run(line, HOTDESK_HOME=str(self.folder / "nothing"), **env)


@pytest.fixture(scope="module")
def guide(settings: Config, home: Path) -> Iterator[Guide]:
    folder = home / "certified"
    folder.mkdir()
    (folder / "report.py").write_text(SCRIPT)
    env = {**environment(settings), "PATH": f"{Path(PROGRAM).parent}:/usr/bin:/bin"}
    if "PYTHONPATH" in os.environ:
        env["PYTHONPATH"] = os.environ["PYTHONPATH"]
    made = Guide(folder, env, {}, settings)
    for line in LINES:
        begun = read_journal(settings.lib / "keys" / FILE, names=["JobBegun"]) if "$JOB" in line else ()
        code, said = made.run(line.replace("$JOB", "".join(row.chain for row in [*begun][-1:])))
        assert code == 0, f"{line}: {code}\n{said}"
        made.said[line] = said
    yield made
    shutil.rmtree(folder)


@pytest.mark.long
@pytest.mark.container
def test_the_guide_to_certificates_works(guide: Guide) -> None:
    results = guide.folder / "results"
    assert sorted(os.listdir(results)) == ["report.html", "report.xlsx", f"report.xlsx{SUFFIX}"]
    assert (guide.folder / "copy.json").read_bytes() == (results / f"report.xlsx{SUFFIX}").read_bytes()
    said = guide.said["hotdesk verify results/report.xlsx"]
    assert said.startswith("results/report.xlsx: VERIFIED\n")
    assert f" UTC by {guide.signer}, this machine's own\n" in said
    assert "a SCRIPT; its decisions were written in advance" in said
    assert "check        sheet, in a clean desk: 3 columns, 3 rows; 1 formula, recalculated\n" in said
    assert "NOT CHECKED  sheets after the first" in said
    whole = guide.said["hotdesk verify results/report.xlsx --all"]
    assert f"signed by    {guide.signer}, this machine's own" in whole
    assert re.search(r"check +sheet, in clean desk i\w+ without network, image office [0-9a-f]{16}\n", whole)
    assert re.search(r"wall +container \(crun [0-9.]+; the host's kernel\), as verified", whole)
    assert set(re.findall("NOT CHECKED.*", said)) == set(re.findall("NOT CHECKED.*", whole))
    assert guide.signer in guide.said["hotdesk key show"]
    told = json.loads(guide.said["hotdesk verify results/report.xlsx --signer signer.pub --json"])
    assert (told["verdict"], told["signer"], told["trusted"]) == ("verified", guide.signer, "trusted by --signer")
    assert told["certificate"]["plan"]["approvals"][0]["by"] == "policy auto"
    assert re.search(r"report.xlsx +1 .* yes ", guide.said["hotdesk drive ls"])
    assert "proof    report.xlsx.certificate.json, sha256" in guide.said[LINES[1]]


@pytest.mark.container
def test_on_another_machine_a_certificate_is_trusted_as_far_as_its_signer(guide: Guide) -> None:
    line = "hotdesk verify results/report.xlsx"
    code, said = guide.elsewhere(line)
    assert (code, "VERIFIED" in said) == (3, False)
    assert f"signed by an unknown key {guide.signer}; if you trust it, pass --signer" in said
    assert guide.elsewhere(f"{line} --signer {'0' * 32}")[0] == 3
    assert guide.run(f"{line} --signer {'0' * 32}")[0] == 3
    for known in (guide.signer, f"{guide.folder}/signer.pub"):
        code, said = guide.elsewhere(f"unshare -n {line} --signer {known}")
        assert (code, "VERIFIED" in said) == (0, True)
        assert guide.elsewhere(line, HOTDESK_SIGNERS=f"{'0' * 32} {known}")[0] == 0
    (guide.folder / "nothing/etc").mkdir(parents=True)
    (guide.folder / "nothing/etc/config.toml").write_text(f'[verify]\nsigners = ["{guide.signer}"]\n')
    code, said = guide.elsewhere(line)
    assert (code, "trusted by the settings" in said) == (0, True)
    shutil.rmtree(guide.folder / "nothing")


@pytest.mark.container
def test_a_file_that_was_changed_by_a_byte_fails(guide: Guide) -> None:
    file = guide.folder / "changed.xlsx"
    data = bytearray((guide.folder / "results/report.xlsx").read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    code, said = guide.run("hotdesk verify changed.xlsx copy.json")
    assert (code, said.splitlines()[0][:20]) == (1, "changed.xlsx: FAILED")
    code, said = guide.run("hotdesk verify changed.xlsx copy.json --json")
    assert (code, json.loads(said)["verdict"], json.loads(said)["certificate"]) == (1, "failed", None)
    assert guide.run("hotdesk verify changed.xlsx")[0] == 125
    assert guide.run("hotdesk verify nothing.xlsx copy.json")[0] == 125
    shutil.copy(guide.folder / "results/report.xlsx", file)
    code, said = guide.run("hotdesk verify changed.xlsx copy.json")
    assert (code, "it was certified under the name report.xlsx; this file is called changed.xlsx" in said) == (0, True)


@pytest.mark.container
def test_show_and_key_print_the_certificates_claims_and_signer(guide: Guide) -> None:
    told = json.loads((guide.folder / "copy.json").read_text())
    job = told["job"]["id"]
    assert f"report.xlsx{SUFFIX}, sha256" in guide.run(f"hotdesk show {job}")[1]
    told = json.loads(guide.run("hotdesk key show --json")[1])
    assert (told["fingerprint"], told["pem"]) == (guide.signer, (guide.folder / "signer.pub").read_text())
    assert guide.elsewhere("hotdesk key show")[0] == 125


# -- killed jobs ----------------------------------------------------------------------------------------------------


def check(errand: Errand) -> None:
    lib, job, events = settings_at(Path(errand.home)).lib, job_of(errand), history(errand)
    drive = Drive(lib / "drive")
    (kept,) = drive.list_history(f"{job}/stock.xlsx", who=OPERATOR)
    told, public = read(drive.read_certificate(kept))
    assert compute_fingerprint(public) == compute_fingerprint(load_own_public(lib / "keys"))
    assert (told["file"]["sha256"], told["job"]["id"], kept.number) == (kept.sha256, job, 1)
    counted = Counter(type(event) for event in events)
    assert kept.certificate in {event.certificate for event in events if isinstance(event, Certified)}
    assert {event.version for event in events if isinstance(event, Kept)} == {1}
    assert counted[Certified] <= 2
    assert len(drive.blobs.list_blobs()) == 2 or drive.sweep()
    assert drive.read_certificate(kept)


@pytest.mark.long
def test_killed_between_verified_certified_and_kept_a_job_has_one_certificate(nurseries: Nurseries) -> None:
    whole = replace(nurseries.new(), folder=str(PROVEN))
    said, killed = nurseries.live(whole)
    assert (said.split()[0], killed) == ("done", False), said
    check(whole)
    names = [type(event).__name__ for event in history(whole)]
    line = [name for name in names if name in ("Verified", "Certified", "Kept")]
    assert line == ["Verified", "Verified", "Certified", "Kept"]
    commits = int(said.split()[1])

    def die(life: int) -> None:
        errand = replace(nurseries.new(life=life), folder=str(PROVEN))
        assert nurseries.live(errand)[1]
        said, killed = nurseries.live(goes_on(errand))
        assert not killed
        assert "done" in said, said
        check(errand)

    nurseries.each(die, range(commits - 8, commits - 2))
