"""Tests of vault and journal in the keys process: chrooted into their folder, as a user of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotdesk.drive.journal_audit import AuditReport, verify
from hotdesk.drive.signing import load_own_public
from hotdesk.linux import private_files
from hotdesk.vault import Token, Vault

pytestmark = pytest.mark.container
UID = 70001
CHROOTED = """
import os, sys
from pathlib import Path
from hotdesk.drive.journal import Journal
from hotdesk.drive.signing import load_signer
from hotdesk.event import Burnt
from hotdesk.vault import Vault
os.chroot(sys.argv[1]); os.chdir("/"); os.setgroups([]); os.setresgid(UID, UID, UID); os.setresuid(UID, UID, UID)
assert Vault.open(Path("/")).reveal("erp").get_bytes() == b"a-very-secret-value"
journal = Journal(Path("/journal.db"), load_signer(Path("/")))
for number in range(100):
    journal.add("i1", "door", Burnt("i1", str(number)))
    journal.commit()
print(journal.find_head("i1").seq, flush=True)
sys.stdin.read()
journal.add("i1", "door", Burnt("i1", "after root looked"))
journal.commit()
print(journal.find_head("i1").seq)
""".replace("UID", str(UID))
FULL = """
import sys
from pathlib import Path
from hotdesk.linux import syscalls as kernel
from hotdesk.drive.journal_audit import verify
from hotdesk.drive.journal import Journal
from hotdesk.drive.signing import load_signer
from hotdesk.errors import HostError
from hotdesk.event import Burnt
kernel.unshare(kernel.CLONE_NEWNS)
kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
kernel.mount("tmpfs", sys.argv[1], "tmpfs", 0, "size=1m,mode=700")
folder = Path(sys.argv[1])
signer = load_signer(folder)
journal, told = Journal(folder / "journal.db", signer), 0
(folder / "ballast").write_bytes(b"x" * 300_000)
try:
    while told < 10_000:
        for _ in range(10):
            journal.add("i1", "door", Burnt("i1", "x" * 300))
        journal.commit()
        told += 10
except HostError as e:
    print(e)
report = verify(folder / "journal.db", signer.public)
assert (report.events, report.faults, journal.waiting) == (told, (), 10), (report, told)
(folder / "ballast").unlink()
journal.commit()
report = verify(folder / "journal.db", signer.public)
assert (report.events, report.faults) == (told + 10, ()), report
print("and on it goes")
"""


def python(script: str, folder: Path) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, sys.path))
    env = {**os.environ, "PYTHONPATH": path}
    argv = [sys.executable, "-c", script, str(folder)]
    return subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_vault_and_journal_work_in_a_chroot_while_root_reads_along(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    Vault.make(folder, owner=UID).put("erp", Token(), b"a-very-secret-value")
    program = python(CHROOTED, folder)
    assert program.stdout is not None
    assert program.stdout.readline() == "100\n"
    assert verify(folder / "journal.db", load_own_public(folder)) == AuditReport(1, 100, ())
    out, _ = program.communicate("go on", timeout=30)
    assert (program.returncode, out) == (0, "101\n")
    assert verify(folder / "journal.db", load_own_public(folder)) == AuditReport(1, 101, ())
    assert {file.stat().st_uid for file in folder.iterdir()} == {UID}


def test_a_disk_that_is_really_full_leaves_whole_commits_and_the_journal_continues_when_there_is_room(
    tmp_path: Path,
) -> None:
    private_files.make_folder(tmp_path / "small")
    program = python(FULL, tmp_path / "small")
    out, _ = program.communicate(timeout=60)
    assert program.returncode == 0, out
    assert "disk is full" in out
    assert "and on it goes" in out
