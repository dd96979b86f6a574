"""Test that the real keys process tries each grant before a job, without returning a secret."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.brief import Scope, parse_grant
from hotdesk.config import Config
from hotdesk.host import Host
from hotdesk.linux import uids
from hotdesk.vault import Command, Token, Totp, Vault, encode_argv

pytestmark = pytest.mark.container


@pytest.fixture
def own(settings: Config) -> Iterator[Config]:
    home = Path(tempfile.mkdtemp(prefix="preflight-", dir=settings.run.parent))
    home.chmod(0o755)
    vault = Vault.make(home / "lib" / "keys", owner=uids.KEYS)
    vault.put("token", Token(), b"the-token-itself")
    vault.put("code", Totp(), b"JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP")
    vault.put("printed", Command(), encode_argv(["/bin/echo", "printed-by-a-program"]))
    vault.put("broken", Command(), encode_argv(["/bin/false"]))
    yield replace(settings, run=home / "run", lib=home / "lib")
    shutil.rmtree(home)


async def test_the_keys_process_reports_which_grants_work(own: Config) -> None:
    names = ("token", "gold", "code", "printed", "broken")
    scope = Scope(grants=tuple(parse_grant(f"{name}@a.test header=X-Key") for name in names))
    async with Host(own, control=False) as host:
        why = await host.doors.try_grants(scope)
    assert [bool(each) for each in why] == [False, True, False, False, True], why
    assert "printed-by-a-program" not in "".join(why)
