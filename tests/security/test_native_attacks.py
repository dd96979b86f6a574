"""Attacks on our own API: by other tenants, by foreign pages in a person's browser, and by names and paths."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, APIWebSocketRoute
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from hotdesk.api.keys import ApiKeys
from hotdesk.api.native import health
from hotdesk.api.native.access.auth import RequirePower
from hotdesk.api.native.app import NOUNS, PREFIX
from tests.e2e.server.conftest import Served, served
from tests.security.guards import STATE_SHARED, Removal, falls_without, no_guard

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
ROUTES = [route for noun in (*NOUNS, health) for route in noun.router.routes]
HTTP = [route for route in ROUTES if isinstance(route, APIRoute)]
SOCKETS = [route for route in ROUTES if isinstance(route, APIWebSocketRoute)]
[SCREEN] = [route for route in SOCKETS if route.path.endswith("/screen")]
OPEN = {("GET", "/health"), ("GET", "/ready"), ("POST", "/session")}
"""Routes that need no authentication; signing in is how a key is shown."""
FILE, SECRET, VALUE = "plans/theirs.txt", "their-token", "hunter2-of-theirs"
NEAR = ("http://127.0.0.1/*", "https://10.1.2.3", "192.168.0.0/16", "http://[::1]/x", "https://a.test private")
BRIEF = 'goal = "x"\nmodels = {plan = "anthropic:x"}\ndeliverables = [{path = "a.json", check = "json"}]\n'
RULED = """
goal = "x"
inputs = ["names.txt"]

[[deliverables]]
path = "a.json"
check = "custom"
expect = {file = "rule.py", beside = ["late.py", "late"]}
"""
RESERVED = (
    'names = {"a.test" = "127.0.0.1:1"}',
    'brain = "x.py"',
    'script = "x"',
    'command = ["sh"]',
    'wall = "local"',
)
ADDRESSED = (
    "chat:x@http://127.0.0.1:{port}/v1", "ollama:x", "openai:x@http://127.0.0.1:{port}/v1", "chat:x@//127.0.0.1:{port}",
    "script:x.py", "chat:x",
)  # fmt: skip
ELSEWHERE = ("../../../../escaped", "/tmp/escaped", "a/../../escaped", "a/./b", "a\\\x00b", "a//b")
ESCAPES = (*ELSEWHERE, "brief.json")


@dataclass(frozen=True, slots=True)
class Theirs:
    """What one tenant has, by the parameter names of routes."""

    ids: dict[str, str]
    api: httpx.Client


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    with served(home / "native-attacked") as found:
        yield found


def client(server: Served, **headers: str) -> httpx.Client:
    return httpx.Client(base_url=f"{server.url}{PREFIX}", headers=headers, timeout=60)


@pytest.fixture(scope="module")
def theirs(server: Served) -> Iterator[Theirs]:
    """Yield the objects under attack: desk, job, file, secret, key, upload; all of them must exist at the end."""
    with client(server, Authorization=f"Bearer {server.key}") as api:
        desk = api.post("/desks", json={"memory": "256M"}).raise_for_status().json()["id"]
        job = api.post("/jobs", json={"brief": BRIEF}).raise_for_status().json()["id"]
        while api.get(f"/jobs/{job}").json()["state"] == "starting":
            time.sleep(0.05)
        api.put(f"/drive/{FILE}", content=b"theirs").raise_for_status()
        api.put(f"/vault/{SECRET}", json={"value": VALUE}).raise_for_status()
        ids = {"desk": desk, "job": job, "act": "1", "id": "abc", "path": FILE, "name": SECRET, "key": server.key[4:12]}
        ids |= {"item": "line-000001", "place": "0"}
        yield Theirs(ids, api)
        assert api.get(f"/desks/{desk}").status_code == 200
        assert api.get(f"/jobs/{job}").status_code == 200
        assert api.get(f"/drive/{FILE}").content == b"theirs"
        assert [each["version"] for each in api.get("/vault").json()["items"]] == [1]
        api.delete(f"/desks/{desk}")


@pytest.fixture(scope="module")
def eve(server: Served, theirs: Theirs) -> Iterator[httpx.Client]:
    with client(server, Authorization=f"Bearer {ApiKeys(server.settings.lib / 'serve').make('eve', 'other')}") as made:
        yield made


def method_of(route: APIRoute) -> str:
    assert route.methods
    return next(iter(route.methods))


def ids(routes: list[APIRoute]) -> list[str]:
    return [f"{method_of(route)} {route.path}" for route in routes]


@falls_without(
    "routes that ask who is there",
    Removal(
        "access/auth.py",
        'ForVault = Annotated[RequestContext, Depends(RequirePower("vault"))]',
        "ForVault = Annotated[RequestContext, Depends(lambda: None)]",
    ),
    cases="GET /vault",
)
@no_guard("it reads the table of routes; one case shows that it can fail")
@pytest.mark.parametrize("route", HTTP, ids=ids(HTTP))
def test_every_route_authenticates(route: APIRoute) -> None:
    if (method_of(route), route.path) not in OPEN:
        assert any(isinstance(each.call, RequirePower) for each in dependencies(route.dependant))


def dependencies(found: Dependant) -> Iterator[Dependant]:
    for each in found.dependencies:
        yield each
        yield from dependencies(each)


OWN_STATE = "a tenant's state is its own: the cases that have the guard stand for all"


@falls_without("a tenant's state is its own", STATE_SHARED, cases="/desks | /jobs | /drive | /vault")
@falls_without(
    "whose keys are told",
    Removal("access/keys.py", "        if each.tenant == context.tenant.name\n", "        if each.tenant\n"),
    cases="/keys",
)
@no_guard(OWN_STATE, cases="/journal | /approvals | /events")
@pytest.mark.parametrize("path", ["/desks", "/jobs", "/drive", "/vault", "/keys", "/journal", "/approvals", "/events"])
def test_no_list_contains_anything_of_another_tenant(eve: httpx.Client, theirs: Theirs, path: str) -> None:
    text = eve.get(path, params={"follow": "false"} if path == "/events" else {}).raise_for_status().text
    assert [name for name in ("desk", "job", "path", "name", "key") if theirs.ids[name] in text] == []


@falls_without("a tenant's state is its own")
def test_another_tenants_objects_cannot_be_viewed_or_used(eve: httpx.Client, theirs: Theirs) -> None:
    upload = theirs.api.post("/uploads", params={"name": "a.txt"}, content=b"theirs").json()["id"]
    order = {"brief": f'{BRIEF}inputs = ["a.txt"]\n', "files": [{"upload": upload, "name": "a.txt"}]}
    orders = (
        {"kind": "file", "desk": theirs.ids["desk"], "path": "/etc/passwd"},
        {"kind": "drive", "path": FILE},
        {"kind": "report", "job": theirs.ids["job"]},
        {"kind": "frame", "job": theirs.ids["job"], "frame": 1},
    )
    assert eve.post("/jobs", json=order).status_code == 404
    assert [eve.post("/content", json=each).status_code for each in orders] == [404] * 4


@no_guard(OWN_STATE)
@pytest.mark.parametrize("route", SOCKETS, ids=[route.path for route in SOCKETS])
def test_no_websocket_opens_to_another_tenants_objects(
    server: Served, eve: httpx.Client, theirs: Theirs, route: APIWebSocketRoute
) -> None:
    assert not opens(server, theirs, route, {"Authorization": eve.headers["Authorization"]})


@falls_without(
    "the page a browser's changes come from",
    Removal(
        "access/browsers.py",
        '        if connection.headers.get("origin", "").partition("://")[2] != connection.headers.get("host", ""):\n',
        "        if False:\n",
    ),
    cases="""
    /desks/{desk}/terminal-http://evil.test | /desks/{desk}/terminal-null | /desks/{desk}/terminal- |
    /desks/{desk}/terminal-http://[ | /desks/{desk}/terminal-http://localhost |
    /desks/{desk}/stream-http://evil.test | /desks/{desk}/stream-null | /desks/{desk}/stream- |
    /desks/{desk}/stream-http://[ | /desks/{desk}/stream-http://localhost
    """,
)
@no_guard(
    "it asks as the terminal does, and this desk has no screen",
    cases="""
    /desks/{desk}/screen-http://evil.test | /desks/{desk}/screen-null | /desks/{desk}/screen- |
    /desks/{desk}/screen-http://[ | /desks/{desk}/screen-http://localhost
    """,
)
@pytest.mark.parametrize("page", ["http://evil.test", "null", "", "http://[", "http://localhost"])
@pytest.mark.parametrize("route", SOCKETS, ids=[route.path for route in SOCKETS])
def test_no_foreign_page_opens_a_websocket_in_a_signed_in_browser(
    server: Served, theirs: Theirs, route: APIWebSocketRoute, page: str
) -> None:
    cookie, _ = signed_in(server)
    headers = {"Cookie": cookie} | ({"Origin": page} if page else {})
    assert not opens(server, theirs, route, headers)


@falls_without(
    "a screen's key",
    Removal(
        "desks/screens.py",
        "name)\n            tasks.start_soon(cancel_on_key_end, context, tasks.cancel_scope)\n",
        "name)\n",
    ),
)
def test_viewing_a_screen_ends_when_the_key_is_revoked(server: Served, theirs: Theirs) -> None:
    order = {"image": "desktop", "memory": "1G"}
    desk = theirs.api.post("/desks", json=order).raise_for_status().json()["id"]
    keys = ApiKeys(server.settings.lib / "serve")
    key = keys.make("leaver")
    url = f"{server.url.replace('http', 'ws')}{PREFIX}/desks/{desk}/screen"
    try:
        with connect(url, additional_headers={"X-API-Key": key}) as line:
            assert bytes(line.recv(60)).startswith(b"RFB 003.")  # type: ignore[arg-type]
            keys.revoke(key[4:12])
            with pytest.raises(ConnectionClosed):
                line.recv(8)  # sooner than an idle connection would be cut
        assert not opens(server, Theirs({"desk": desk}, theirs.api), SCREEN, {"X-API-Key": key})
    finally:
        theirs.api.delete(f"/desks/{desk}")


def opens(server: Served, theirs: Theirs, route: APIWebSocketRoute, headers: dict[str, str]) -> bool:
    path = route.path.replace("{desk}", theirs.ids["desk"])
    try:
        with connect(f"{server.url.replace('http', 'ws')}{PREFIX}{path}", additional_headers=headers) as line:
            line.recv(10)
    except (InvalidStatus, ConnectionClosed):
        return False
    return True


def signed_in(server: Served) -> tuple[str, str]:
    """Sign in with a browser; return its cookie and its token."""
    with client(server, Origin=server.url) as browser:
        told = browser.post("/session", json={"key": server.key}).raise_for_status()
        return told.headers["set-cookie"].partition(";")[0], str(told.json()["csrf"])


@falls_without("the page a browser's changes come from")
@pytest.mark.parametrize("page", ["http://evil.test", "null", "", "http://[", "http://localhost"])
def test_no_foreign_page_changes_anything_in_a_signed_in_browser(server: Served, page: str) -> None:
    cookie, token = signed_in(server)
    headers = {"Cookie": cookie, "X-CSRF-Token": token} | ({"Origin": page} if page else {})
    with client(server, **headers) as browser:
        told = browser.put("/drive/forged.txt", content=b"x")
        assert (told.status_code, told.json()["code"]) == (403, "session.origin")


@falls_without(
    "the token a browser's changes show",
    Removal(
        "access/browsers.py",
        "        if found is None or not hmac.compare_digest(found.csrf.encode(), token.encode()):\n",
        "        if found is None:\n",
    ),
)
@pytest.mark.parametrize("token", ["", "x", "é"], ids=["none", "wrong", "strange"])
def test_a_change_without_the_token_is_refused(server: Served, token: str) -> None:
    cookie, _ = signed_in(server)
    headers = {"Cookie": cookie, "Origin": server.url, "X-CSRF-Token": token}
    told = httpx.put(f"{server.url}{PREFIX}/drive/forged.txt", content=b"x", headers={
        name.encode(): value.encode() for name, value in headers.items()
    })  # fmt: skip
    assert (told.status_code, told.json()["code"]) == (403, "session.token")


@falls_without("the page a browser's changes come from")
def test_no_foreign_page_signs_a_browser_in(server: Served) -> None:
    with client(server, Origin="http://evil.test") as browser:
        told = browser.post("/session", json={"key": server.key})
        assert (told.status_code, "set-cookie" in told.headers) == (403, False)


@falls_without(
    "names of a job's files",
    Removal("jobs/briefs.py", "        name = check_name(each.name)\n", "        name = each.name\n"),
    cases="0 | 1 | 2 | 3 | 4 | 5",
)
@falls_without(
    "the brief's own name",
    Removal("jobs/briefs.py", '        if name.partition("/")[0] in FILES:\n', "        if False:\n"),
    cases="6",
)
@pytest.mark.parametrize("name", ESCAPES, ids=range(len(ESCAPES)))
def test_a_file_for_a_job_is_stored_only_beside_its_brief(server: Served, theirs: Theirs, name: str) -> None:
    upload = theirs.api.post("/uploads", params={"name": "a.txt"}, content=b"x").json()["id"]
    order = {"brief": BRIEF, "files": [{"upload": upload, "name": name}]}
    before = len(theirs.api.get("/jobs").json()["items"])
    assert theirs.api.post("/jobs", json=order).status_code == 400
    assert len(theirs.api.get("/jobs").json()["items"]) == before
    assert list(server.settings.run.parent.rglob("escaped")) == []


AIMED = {
    "loopback": ("read https://{x}/orders", "127.0.0.1"),
    "a private range": ("read https://{x}", "10.0.0.0/8"),
    "a private address": ("read https://{x}", "192.168.0.1"),
    "what a cloud tells": ("read http://{x}/", "169.254.169.254"),
    "IPv6": ("read http://{x}/", "[::1]"),
    "a word more": ("read https://{x}", "erp.test private"),
    "another rule's host": ("read https://{x}.example.test/", "evil.test/x?"),
    "more of a host": ("read https://{x}.example.test/", "a.b"),
    "every host": ("read https://{x}/orders", "*"),
    "every host below": ("read https://*.{x}/", "co.uk"),
    "every host of a kind": ("read https://{x}/", "*.test"),
    "a preset": ("{x}", "pypi"),
    "more of a path": ("read https://a.test/{x}/orders", "../admin"),
    "any path": ("read https://a.test/{x}", "**"),
    "a parameter more": ("read https://a.test/x?m={x}", "1&admin=1"),
    "a port": ("read https://{x}/", "a.test:22"),
    "a line more": ("read https://{x}/", "a.test\nwrite https://b.test"),
    "a table's host": ("table", "127.0.0.1"),
    "where a name leads": ("names", "127.0.0.1:1"),
    "another image": ("image", "desktop"),
    "the check's own file": ("file", "drive:rule.py"),
    "a grant's host": ("grants", "evil.test bearer"),
    "a model": ("models", "chat:x@http://127.0.0.1:1/v1"),
}
"""Where a template has a parameter, and a value for it that the operator did not intend."""
FIELDS = {
    "table": 'egress = [{host = "{x}"}]', "names": 'names = {"a.test" = "{x}"}', "image": 'image = "{x}"',
    "file": "", "grants": 'egress = ["read https://a.test"]\ngrants = ["token@{x} bearer"]',
    "models": 'models = {plan = "{x}"}',
}  # fmt: skip


@falls_without(
    "one word of a rule",
    Removal(
        "jobs/template_values.py",
        "        if not WORD.fullmatch(parameters.values[name]):\n",
        "        if not parameters.values[name]:\n",
    ),
    cases="any path | a parameter more | a port",
)
@falls_without(
    "where a filled rule leads",
    Removal("jobs/template_values.py", "        require_public(read_rules(filled))\n", "        pass\n"),
    cases="loopback | a private address | what a cloud tells | a table's host",
)
@falls_without(
    "one host of a rule",
    Removal(
        "jobs/template_values.py", '            if whole != dotted or "*" in rule.host:\n', "            if not rule:\n"
    ),
    cases="more of a host | a preset",
)
@falls_without(
    "fields only an operator fills in",
    Removal(
        "jobs/template_values.py",
        "            require_none(key, value, parameters)\n        elif",
        "            pass\n        elif",
    ),
    cases="where a name leads | another image",
)
@falls_without(
    "checks only an operator fills in",
    Removal(
        "jobs/template_values.py",
        "            require_fixed(value, parameters)\n        filled",
        "            pass\n        filled",
    ),
    cases="the check's own file",
)
@no_guard(
    "what it would make cannot be read, or more than one guard stops it",
    cases="""
    more of a path | every host below | a private range | IPv6 | a word more | another rule's host | every host |
    every host of a kind | a line more | a grant's host | a model
    """,
)
@pytest.mark.parametrize("aim", AIMED)
def test_a_template_value_cannot_point_outside_what_the_template_allows(
    server: Served, theirs: Theirs, aim: str
) -> None:
    where, value = AIMED[aim]
    field = FIELDS.get(where, f'egress = ["{where}"]')
    told = theirs.api.post("/jobs", json={"template": aimed(server, aim, field), "values": {"x": value}})
    assert (told.status_code, told.json()["code"] in ("template.value", "brief")) == (400, True), told.text


def aimed(server: Served, aim: str, field: str) -> str:
    """Install a template with a parameter; return its name."""
    name = f"aimed-{list(AIMED).index(aim)}"
    folder = server.settings.lib / "templates" / name
    folder.mkdir(parents=True)
    file = "{x}" if aim == "the check's own file" else "rule.py"
    check = f'deliverables = [{{path = "a.json", check = "custom", expect = {{file = "{file}"}}}}]'
    (folder / "template.toml").write_text('title = "Aimed"\n[[values]]\nname = "x"\n')
    (folder / "brief.toml").write_text(f'goal = "{{x}}"\n{field}\n{check}\n')
    (folder / "brain.py").write_text("PLAN = ()\n")
    (folder / "rule.py").write_text("x")
    return name


REPLACED = {
    "ruled": ("rule.py", "brain.py", "template.toml", "lib/helper.py", "lib", "other.txt", "names.txt/x"),
    "open": ("rule.py", "brain.py", "lib/other.py", "late.py", "late/x.py"),
}
"""Files no client may put into a template's folder: one that takes only listed files, and one that takes more."""


@pytest.fixture(scope="module")
def ruled(server: Served) -> None:
    for name in REPLACED:
        folder = server.settings.lib / "templates" / name
        (folder / "lib").mkdir(parents=True)
        uploads = "true" if name == "open" else "false"
        (folder / "template.toml").write_text(f'title = "Rules"\nfiles = ["names.txt"]\nuploads = {uploads}\n')
        (folder / "brief.toml").write_text(RULED)
        (folder / "brain.py").write_text("PLAN = ()\n")
        (folder / "rule.py").write_text("the operator's")
        (folder / "lib/helper.py").write_text("the operator's")


@falls_without(
    "files of a template",
    Removal("jobs/briefs.py", '    if (template.folder / name.partition("/")[0]).exists():\n', "    if False:\n"),
    cases="open-brain.py | open-lib/other.py",
)
@falls_without(
    "files a template lists",
    Removal("jobs/briefs.py", "    if name not in expected and not template.shown.uploads:\n", "    if False:\n"),
    cases="ruled-other.txt",
)
@falls_without(
    "checks of a template",
    Removal("jobs/briefs.py", "        require_own_checks(template, job, files)\n", "        pass\n"),
    cases="open-late.py | open-late/x.py",
)
@no_guard(
    "more than one guard stops it; the cases that have one stand for all",
    cases="""
    open-rule.py | ruled-rule.py | ruled-brain.py | ruled-template.toml | ruled-lib/helper.py | ruled-lib |
    ruled-names.txt/x
    """,
)
@pytest.mark.parametrize(("template", "name"), [(each, name) for each in REPLACED for name in REPLACED[each]])
def test_no_file_of_a_client_replaces_one_of_the_template(
    server: Served, theirs: Theirs, ruled: None, template: str, name: str
) -> None:
    order = {"template": template, "files": [sent(theirs, "names.txt"), sent(theirs, name)]}
    told = theirs.api.post("/jobs", json=order)
    assert (told.status_code, told.json()["code"]) == (400, "brief.file")
    folder = server.settings.lib / "templates" / template
    assert {path.read_text() for path in (folder / "rule.py", folder / "lib/helper.py")} == {"the operator's"}


@falls_without("files sent twice", Removal("native/uploads.py", 'target.open("xb")', 'target.open("wb")'))
def test_a_file_is_not_sent_twice_under_one_name(theirs: Theirs) -> None:
    told = theirs.api.post("/jobs", json={"brief": BRIEF, "files": [sent(theirs, "a.txt"), sent(theirs, "a.txt")]})
    assert (told.status_code, told.json()["code"]) == (400, "brief.file")


def sent(theirs: Theirs, name: str) -> dict[str, str]:
    upload = theirs.api.post("/uploads", params={"name": "a.txt"}, content=b"the client's").json()["id"]
    return {"upload": upload, "name": name}


@falls_without("names of uploads", Removal("native/uploads.py", "    check_name(name)\n", ""))
@pytest.mark.parametrize("name", ELSEWHERE, ids=range(len(ELSEWHERE)))
def test_names_of_uploads_and_drive_files_cannot_lead_elsewhere(theirs: Theirs, name: str) -> None:
    assert theirs.api.post("/uploads", params={"name": name}, content=b"x").status_code == 400
    path = httpx.URL(f"{theirs.api.base_url}drive/x").copy_with(
        raw_path=f"{PREFIX}/drive/x/".encode() + "".join(f"%{byte:02x}" for byte in name.encode()).encode()
    )
    assert theirs.api.put(path, content=b"x").status_code == 400


@falls_without("where a client's desks go", Removal("desks/desks.py", "    require_public(scope.rules)\n", ""))
@pytest.mark.parametrize("rule", NEAR)
def test_a_desk_cannot_be_opened_with_rules_for_local_addresses(theirs: Theirs, rule: str) -> None:
    assert theirs.api.post("/desks", json={"memory": "256M", "allow": [rule]}).status_code == 400


@falls_without(
    "where a client's briefs go",
    Removal("jobs/briefs.py", "        require_public(job.scope.rules)\n", "        pass\n"),
)
@pytest.mark.parametrize("rule", NEAR)
def test_a_brief_cannot_have_rules_for_local_addresses(theirs: Theirs, rule: str) -> None:
    told = theirs.api.post("/jobs", json={"brief": f'egress = ["{rule}"]\n{BRIEF}'})
    assert (told.status_code, "is not a public internet host" in told.text) == (400, True)


@falls_without("what is allowed by one click", Removal("jobs/allow_rule.py", "    require_public([rule])\n", ""))
@pytest.mark.parametrize("rule", NEAR)
def test_a_job_cannot_be_allowed_local_addresses(theirs: Theirs, rule: str) -> None:
    assert theirs.api.post(f"/jobs/{theirs.ids['job']}/allow", json={"rule": rule}).status_code == 400


RESERVED_ALLOWED = Removal("jobs/briefs.py", "        refuse_reserved(text)\n", "        pass\n")


@falls_without("what only an operator's brief says", RESERVED_ALLOWED, cases="0 | 1 | 2 | 3")
@falls_without(
    "a wall around a client's job",
    RESERVED_ALLOWED,
    Removal("jobs/briefs.py", '    if job.wall == "local":\n', "    if False:\n"),
    cases="4",
)
@pytest.mark.parametrize("line", RESERVED, ids=range(len(RESERVED)))
def test_a_brief_cannot_set_the_operators_fields(theirs: Theirs, line: str) -> None:
    told = theirs.api.post("/jobs", json={"brief": f"{line}\n{BRIEF}"})
    assert (told.status_code, told.json()["code"]) == (400, "brief.reserved")


@falls_without(
    "models with an address",
    Removal("native/jobs/jobs.py", "        if why := explain_refusal(name, listed):\n", '        if why := "":\n'),
    cases="0 | 1 | 2 | 3 | 4 | 5",
)
@pytest.mark.parametrize("model", ADDRESSED, ids=range(len(ADDRESSED)))
def test_a_job_cannot_call_an_address_its_sender_chose(theirs: Theirs, model: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        name = model.format(port=listener.getsockname()[1])
        told = theirs.api.post("/jobs", json={"brief": BRIEF, "models": [name]})
        assert (told.status_code, told.json()["code"]) == (400, "brief.models")
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


@falls_without("fields an order has", Removal("native/schema.py", 'extra="forbid"', 'extra="ignore"'))
@pytest.mark.parametrize("field", ["names", "sterile", "tenant", "grants", "seed", "env_files"])
def test_a_request_cannot_set_the_operators_fields(theirs: Theirs, field: str) -> None:
    assert theirs.api.post("/desks", json={"memory": "256M", field: {}}).status_code == 422
    assert theirs.api.post("/jobs", json={"brief": BRIEF, field: {}}).status_code == 422


@falls_without(
    "walls a client may ask for",
    Removal("native/desks/desks.py", 'Literal["", "container", "gvisor", "microvm"],\n', "str,\n"),
)
@pytest.mark.parametrize("wall", ["local", "paper"])
def test_a_client_cannot_request_an_unknown_wall(theirs: Theirs, wall: str) -> None:
    assert theirs.api.post("/desks", json={"memory": "256M", "wall": wall}).status_code == 422


@falls_without(
    "kinds of secrets a client puts in",
    Removal("native/vault.py", 'Literal["token", "basic", "totp"],', "str,"),
)
@pytest.mark.parametrize("kind", ["command", "oauth2", "sigv4"])
def test_a_secret_cannot_be_a_command_or_an_address(theirs: Theirs, kind: str) -> None:
    told = theirs.api.put(f"/vault/x-{kind}", json={"kind": kind, "value": "/bin/touch /tmp/escaped"})
    assert told.status_code == 422


@falls_without(
    "powers a key gives",
    Removal(
        "access/keys.py",
        "    if beyond := sorted(set(order.powers) - context.caller.powers):\n",
        "    if beyond := []:\n",
    ),
)
def test_a_key_cannot_grant_more_than_it_has(server: Served, theirs: Theirs) -> None:
    weak = theirs.api.post("/keys", json={"name": "weak", "powers": ["admin"]}).json()["key"]
    with client(server, Authorization=f"Bearer {weak}") as api:
        assert api.post("/keys", json={"name": "strong", "powers": ["vault"]}).status_code == 403
        assert api.get("/vault").status_code == 403


@no_guard("nothing writes them: there is no access log")
def test_no_cookie_token_key_or_secret_is_written_to_disk(server: Served, theirs: Theirs) -> None:
    cookie, token = signed_in(server)
    made = theirs.api.post("/keys", json={"name": "seen", "powers": ["drive"]}).json()["key"]
    theirs.api.post("/desks", json={"memory": "256M", "env": {"A": VALUE}, "allow": ["no rule at all"]})
    theirs.api.put("/vault/UPPER", json={"value": VALUE})
    words = [each.encode() for each in (cookie.partition("=")[2], token, made, server.key, VALUE)]
    files: dict[Path, bytes] = {}
    for path in server.settings.run.parent.rglob("*"):
        with suppress(FileNotFoundError):  # the server replaces and removes files meanwhile
            if path.is_file() and not path.is_symlink() and path.name != "pool.btrfs":
                files[path] = path.read_bytes()
    assert server.log in files
    assert [path.name for path, data in files.items() for word in words if word in data] == []
