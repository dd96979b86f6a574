"""Attacks on envd of a real server by other callers, neighbours and guests: tokens, signatures, paths, programs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from hotdesk.api.e2b.envd import signing
from tests.security.envd_room import Given, Street, street
from tests.security.guards import Removal, falls_without, no_guard

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]

CALLS = [
    ("GET", "/envs"), ("GET", "/metrics"), ("POST", "/process.Process/List"), ("POST", "/process.Process/Start"),
    ("POST", "/filesystem.Filesystem/Stat"), ("GET", "/files"), ("POST", "/files"),
]  # fmt: skip
CORE = Path("/proc/sys/kernel/core_pattern")


@pytest.fixture(scope="module")
def town(home: Path) -> Iterator[Street]:
    with street(home / f"envd-{time.monotonic_ns()}") as found:
        yield found


@pytest.fixture
def canary(town: Street) -> Iterator[Path]:
    """Yield a file of the host that no sandbox may read or change."""
    file = town.server.settings.lib / "canary"
    file.write_text("the host's own")
    yield file
    assert file.read_text() == "the host's own"
    assert [one.name for one in file.parent.iterdir() if "planted" in one.name] == []


@falls_without("envd's token")
@pytest.mark.parametrize(("method", "path"), CALLS, ids=[f"{method} {path}" for method, path in CALLS])
def test_one_sandboxes_token_gives_no_access_to_another(town: Street, method: str, path: str) -> None:
    query = {"path": "/etc/hostname"} if path == "/files" else None
    for target in (town.mine, town.theirs):
        answer = target.call(method, path, town.beside.token, query, b"{}")
        assert (answer.status_code, answer.json()["code"]) == (401, 401)


@falls_without(
    "whose a sandbox is",
    Removal("e2b/sandboxes.py", "found.tenant.name != tenant or has_ended(found)", "has_ended(found)"),
)
def test_no_caller_gets_the_token_of_another_tenants_sandbox(town: Street) -> None:
    for path in (f"/sandboxes/{town.mine.id}/connect", f"/v2/sandboxes/{town.mine.id}/connect"):
        answer = httpx.post(
            f"{town.server.url}{path}", json={"timeout": 60}, headers={"X-API-Key": town.their_key}, timeout=20
        )
        assert answer.status_code == 404
        assert town.mine.token not in answer.text


@falls_without(
    "the token of who wakes a sandbox",
    Removal(
        "ports/traffic.py", "            if sandbox.auto_resume and aim.port == envd.PORT:\n", "            if False:\n"
    ),
)
def test_unauthorised_traffic_wakes_no_sandbox(town: Street) -> None:
    asked = {"templateID": "base", "timeout": 300, "autoPause": True, "autoResume": {"enabled": True}}
    owner = {"X-API-Key": town.server.key}
    with httpx.Client(base_url=town.server.url, headers=owner, timeout=30) as api:
        sleeping = Given(api.post("/v2/sandboxes", json=asked).json()["sandboxID"], "guessed", town.server.url)
        assert api.post(f"/sandboxes/{sleeping.id}/pause").status_code == 204
        assert sleeping.call("GET", "/health", sleeping.token).status_code == 401
        assert sleeping.call("GET", "/health").status_code == 401
        assert api.get(f"/sandboxes/{sleeping.id}").json()["state"] == "paused"
        assert api.delete(f"/sandboxes/{sleeping.id}").status_code == 204


@falls_without(
    "the token of who runs code",
    Removal("ports/traffic.py", '        if (port, scope["path"].strip("/")) in RUNS:\n', "        if False:\n"),
)
@falls_without(
    "the token of who runs code, however it is spelt",
    Removal(
        "ports/traffic.py",
        '        if (port, scope["path"].strip("/")) in RUNS:\n',
        '        if (port, scope["path"]) == (49999, "/execute"):\n',
    ),
    cases="/execute/ | //execute | /init",
)
@pytest.mark.parametrize(
    "path", ["/execute", "/execute/", "//execute", "/%65xecute", "/execute?a=b", "/init", "/init/"]
)
def test_code_runs_only_for_callers_who_may_run_commands(town: Street, path: str) -> None:
    aim = {"E2b-Sandbox-Id": town.mine.id, "E2b-Sandbox-Port": "49999"}
    for shown in ({}, {"X-Access-Token": "guessed"}, {"X-Access-Token": town.beside.token}):
        told = httpx.post(f"{town.server.url}{path}", headers={**aim, **shown}, json={"code": "1"}, timeout=20)
        assert told.status_code == 401
    mine = {**aim, "X-Access-Token": town.mine.token}
    assert (
        httpx.post(f"{town.server.url}{path}", headers=mine, timeout=20).status_code == 502
    )  # no server listens there


@pytest.mark.sample(4)
@falls_without(
    "the token of who handles contexts",
    Removal("ports/traffic.py", "        if port == INTERPRETER_PORT:\n", "        if False:\n"),
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/contexts"), ("POST", "/contexts"), ("DELETE", "/contexts/python"), ("POST", "/contexts/python/restart"),
     ("GET", "/contexts/"), ("GET", "//contexts"), ("GET", "/health"), ("GET", "/ready")],
)  # fmt: skip
def test_code_contexts_require_the_sandboxes_token(town: Street, ran: Given, method: str, path: str) -> None:
    url, aim = f"{town.server.url}{path}", {"E2b-Sandbox-Id": ran.id, "E2b-Sandbox-Port": "49999"}
    tokens = ("X-Access-Token", "E2b-Traffic-Access-Token")
    for shown in ({}, *({name: value} for name in tokens for value in ("", "guessed", town.beside.token))):
        assert httpx.request(method, url, headers={**aim, **shown}, timeout=20).status_code == 401
    crossed = {"E2b-Traffic-Access-Token": ran.token}
    assert httpx.request(method, url, headers={**aim, **crossed}, timeout=20).status_code == 401
    mine = {**aim, "X-Access-Token": ran.token}
    assert httpx.request(method, url, headers=mine, timeout=20).status_code != 401


@pytest.fixture(scope="module")
def ran(town: Street) -> Iterator[Given]:
    owner = {"X-API-Key": town.server.key}
    asked = {"templateID": "code-interpreter-v1", "timeout": 300, "secure": True}
    with httpx.Client(base_url=town.server.url, headers=owner, timeout=60) as api:
        made = api.post("/v2/sandboxes", json=asked).json()
        yield Given(made["sandboxID"], made["envdAccessToken"], town.server.url)
        assert api.delete(f"/sandboxes/{made['sandboxID']}").status_code == 204


# -- signed addresses -------------------------------------------------------------------------------------------------


@falls_without("the signature of an address")
def test_an_address_signed_for_one_file_opens_no_other(town: Street) -> None:
    town.mine.write("/home/user/a", "a")
    town.mine.write("/home/user/b", "b")
    query = town.mine.signed("/home/user/a", "read")
    assert town.mine.call("GET", "/files", params=query).text == "a"
    assert town.mine.call("GET", "/files", params={**query, "path": "/home/user/b"}).status_code == 401


@falls_without("the signature of an address")
def test_an_address_signed_for_reading_writes_nothing(town: Street) -> None:
    town.mine.write("/home/user/a", "a")
    query = town.mine.signed("/home/user/a", "read")
    assert town.mine.call("POST", "/files", params=query, content="x").status_code == 401
    assert town.mine.read("/home/user/a").text == "a"


@falls_without("the signature of an address")
def test_an_address_of_one_sandbox_opens_no_other(town: Street) -> None:
    town.beside.write("/home/user/a", "not yours")
    query = town.mine.signed("/home/user/a", "read")
    assert town.beside.call("GET", "/files", params=query).status_code == 401


@falls_without("the time of an address")
def test_an_expired_address_is_refused_on_every_route(town: Street) -> None:
    town.mine.write("/home/user/a", "a")
    query = town.mine.signed("/home/user/a", "read", expiration=str(int(time.time()) - 2))
    for answer in (
        town.mine.call("GET", "/files", params=query),
        httpx.get(f"{town.server.url}/files", params=query, timeout=20),
    ):
        assert (answer.status_code, answer.json()["message"]) == (401, "signature is already expired")


@falls_without("names without a colon")
def test_a_signed_path_with_colons_is_not_another_users_path(town: Street) -> None:
    query = town.mine.signed("/etc/shadow:read:root", "read")
    split = {**query, "path": "/etc/shadow", "username": "root:read:"}
    answer = town.mine.call("GET", "/files", params=split)
    assert (answer.status_code, answer.json()["message"]) == (400, "a username must not contain a colon")


@falls_without(
    "wrong signatures at one sandbox",
    Removal(
        "envd/files.py",
        '        with sandbox.room.tries.limit_guesses(request.client.host if request.client else ""):\n',
        "        if True:\n",
    ),
)
def test_a_caller_that_guesses_tokens_is_refused_only_at_that_sandbox(town: Street) -> None:
    town.theirs.write("/home/user/a", "a")
    town.beside.write("/home/user/a", "a")
    wrong = {"path": "/home/user/a", "signature": "v1_guessed"}
    said = [town.theirs.call("GET", "/files", params=wrong).status_code for _ in range(signing.MAX_FAILURES + 3)]
    assert said == [401] * signing.MAX_FAILURES + [429] * 3
    assert town.beside.call("GET", "/files", params=town.beside.signed("/home/user/a", "read")).text == "a"
    assert town.theirs.read("/home/user/a").text == "a"


# -- paths ------------------------------------------------------------------------------------------------------------


WAYS = ["{}", "../../../../../../..{}", "/proc/1/root{}", "/proc/self/root{}", "/proc/1/cwd/../../..{}", "/link{}",
        "/proc/2/root{}", "/home/user/far{}"]  # fmt: skip


WALL_STOPS_IT = "nothing outside opens a path of a desk: it is the wall that stops this, as in test_file_attacks.py"


@pytest.mark.sample(4)
@no_guard(WALL_STOPS_IT)
@pytest.mark.parametrize("way", WAYS)
def test_no_path_or_link_of_a_guest_leads_to_a_file_of_the_host(town: Street, canary: Path, way: str) -> None:
    town.mine.run("ln -sfn /proc/1/root /link; ln -sfn ../../../../../../.. /home/user/far")
    path = way.format(canary)
    assert "the host's own" not in town.mine.read(path).text
    town.mine.write(path, "changed by a guest")
    town.mine.write(f"{path}-planted", "planted by a guest")
    named = json.dumps({"source": "/etc/hostname", "destination": f"{path}-planted-too"})
    town.mine.call("POST", "/filesystem.Filesystem/Move", town.mine.token, content=named)
    town.mine.call("POST", "/filesystem.Filesystem/Remove", town.mine.token, content=json.dumps({"path": path}))


@no_guard(WALL_STOPS_IT)
@pytest.mark.parametrize("name", ["../../../../../../..{}", "{}", "/link{}"])
def test_no_file_name_in_a_form_leads_to_a_file_of_the_host(town: Street, canary: Path, name: str) -> None:
    town.mine.run("ln -sfn /proc/1/root /link")
    head = 'Content-Disposition: form-data; name="file"; filename="'
    parts = [f'--e\r\n{head}{name.format(canary)}{end}"\r\n\r\nplanted\r\n' for end in ("", "-planted")]
    kind = "multipart/form-data; boundary=e"
    answer = town.mine.call("POST", "/files", town.mine.token, content="".join(parts) + "--e--\r\n", kind=kind)
    assert answer.status_code < 500


@no_guard(WALL_STOPS_IT)
def test_the_hosts_core_pattern_cannot_be_written(town: Street) -> None:
    before = CORE.read_bytes()
    assert town.mine.write(str(CORE), "|/tmp/run-me").status_code == 400
    town.mine.run(f"ln -sfn {CORE} /home/user/plain.txt")
    assert town.mine.write("/home/user/plain.txt", "|/tmp/run-me").status_code == 400
    assert CORE.read_bytes() == before


# -- the program for files --------------------------------------------------------------------------------------------


@falls_without(
    "the size of what is said of files",
    Removal("envd/guest_files.py", "            if size > MAX_FRAME_BYTES or letter", "            if letter"),
    cases="a frame too large | an answer too large",
)
@no_guard("whoever reads a frame refuses one that it does not expect, too", cases="no letter")
@pytest.mark.parametrize(
    "said",
    [r"D\377\377\377\377", r"\0\0\0\0\1x", r"R\0\040\0\0"],
    ids=["a frame too large", "no letter", "an answer too large"],
)
def test_a_guest_that_impersonates_the_file_program_is_neither_believed_nor_awaited(town: Street, said: str) -> None:
    guest = town.beside
    guest.run("test -e /python3 || cp -L /usr/bin/python3 /python3; pkill -f '[e]xec.sys.stdin.buffer' || true")
    guest.run(f"printf '#!/bin/sh\\nprintf %s\\nexec sleep 100\\n' \"'{said}'\" > /fake; chmod +x /fake")
    guest.run("rm /usr/bin/python3; cp /fake /usr/bin/python3")
    try:
        answer = guest.call("GET", "/files", guest.token, {"path": "/etc/hostname"})
    finally:
        guest.run("rm /usr/bin/python3; cp /python3 /usr/bin/python3")
    assert (answer.status_code, "malformed" in answer.text) == (502, True)
    assert guest.read("/etc/hostname").status_code == 200
