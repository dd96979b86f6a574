"""Which guard stops which attack on our own API; as in `guards.py`."""

from __future__ import annotations

from tests.security.guards import Guard, Removal

NATIVE = "test_native_attacks.py::test_"
API = "hotdesk/api/native"
ANOTHERS = f"{NATIVE}what_is_anothers_is_as_unknown_as_what_never_was"
BESIDE = f"{NATIVE}a_file_for_a_job_goes_nowhere_but_beside_its_brief"
RESERVED = f"{NATIVE}a_brief_says_nothing_that_is_the_operators"
SOCKET = f"{NATIVE}no_other_page_opens_a_socket_in_a_browser_that_signed_in"
LISTS = f"{NATIVE}no_list_has_anything_of_anothers"
PAGES = ("http://evil.test", "null", "", "http://[", "http://localhost")
AIMED = f"{NATIVE}what_is_filled_in_leads_nowhere_but_where_the_template_says"
REPLACED = f"{NATIVE}no_file_of_a_client_takes_the_place_of_a_templates"
REFUSED = Removal(f"{API}/jobs/briefs.py", "        refuse_reserved(text)\n", "        pass\n")


def guard(name: str, file: str, old: str, new: str, *attacks: str) -> Guard:
    """Describe a guard that is one text in one file."""
    return Guard(name, (Removal(file, old, new),), attacks)


GUARDS_OF_NATIVE: tuple[Guard, ...] = (
    guard(
        "a tenant's state is its own",
        "hotdesk/api/tenants.py",
        "        settings = settings_of(self.settings, name)\n",
        "        settings = self.settings\n",
        *(f"{ANOTHERS}[{case}]" for case in ("GET /desks/{desk}", "GET /jobs/{job}", "GET /drive/{path:path}")),
        *(f"{LISTS}[{case}]" for case in ("/desks", "/jobs", "/drive", "/vault")),
        f"{NATIVE}nobody_looks_at_or_starts_anything_with_what_is_anothers",
    ),
    guard(
        "whose keys are told",
        f"{API}/access/keys.py",
        "        if each.tenant == asked.tenant.name\n",
        "        if each.tenant\n",
        f"{ANOTHERS}[DELETE /keys/{{key}}]",
        f"{LISTS}[/keys]",
    ),
    guard(
        "routes that ask who is there",
        f"{API}/access/auth.py",
        'ForVault = Annotated[RequestContext, Depends(RequirePower("vault"))]',
        "ForVault = Annotated[Asked, Depends(lambda: None)]",
        f"{NATIVE}every_route_asks_who_is_there[GET /vault]",
    ),
    guard(
        "the page a browser's changes come from",
        f"{API}/access/browsers.py",
        '        if connection.headers.get("origin", "").partition("://")[2] != connection.headers.get("host", ""):\n',
        "        if False:\n",
        f"{NATIVE}no_other_page_changes_anything_in_a_browser_that_signed_in",
        f"{NATIVE}no_other_page_signs_a_browser_in",
        *(f"{SOCKET}[/desks/{{desk}}/terminal-{page}]" for page in PAGES),
    ),
    guard(
        "the token a browser's changes show",
        f"{API}/access/browsers.py",
        "        if found is None or not hmac.compare_digest(found.csrf.encode(), token.encode()):\n",
        "        if found is None:\n",
        f"{NATIVE}a_change_without_the_token_is_none",
    ),
    guard(
        "names of a job's files",
        f"{API}/jobs/briefs.py",
        "        name = check_name(each.name)\n",
        "        name = each.name\n",
        *(f"{BESIDE}[{case}]" for case in range(6)),
    ),
    guard(
        "the brief's own name",
        f"{API}/jobs/briefs.py",
        '        if name.partition("/")[0] in FILES:\n',
        "        if False:\n",
        f"{BESIDE}[6]",
    ),
    guard(
        "one word of a rule",
        f"{API}/jobs/template_values.py",
        "        if not WORD.fullmatch(parameters.values[name]):\n",
        "        if not parameters.values[name]:\n",
        *(f"{AIMED}[{case}]" for case in ("any path", "a parameter more", "a port")),
    ),
    guard(
        "where a filled rule leads",
        f"{API}/jobs/template_values.py",
        "        require_public(read_rules(filled))\n",
        "        pass\n",
        *(f"{AIMED}[{case}]" for case in ("loopback", "a private address", "what a cloud tells", "a table's host")),
    ),
    guard(
        "one host of a rule",
        f"{API}/jobs/template_values.py",
        '            if whole != dotted or "*" in rule.host:\n',
        "            if not rule:\n",
        *(f"{AIMED}[{case}]" for case in ("more of a host", "a preset")),
    ),
    guard(
        "fields only an operator fills in",
        f"{API}/jobs/template_values.py",
        "            require_none(key, value, parameters)\n        elif",
        "            pass\n        elif",
        *(f"{AIMED}[{case}]" for case in ("where a name leads", "another image")),
    ),
    guard(
        "checks only an operator fills in",
        f"{API}/jobs/template_values.py",
        "            require_fixed(value, parameters)\n        made",
        "            pass\n        made",
        f"{AIMED}[the check's own file]",
    ),
    guard(
        "files of a template",
        f"{API}/jobs/briefs.py",
        '    if (template.folder / name.partition("/")[0]).exists():\n',
        "    if False:\n",
        *(f"{REPLACED}[open-{name}]" for name in ("brain.py", "lib/other.py")),
    ),
    guard(
        "files a template lists",
        f"{API}/jobs/briefs.py",
        "    if name not in asked_for and not template.shown.uploads:\n",
        "    if False:\n",
        f"{REPLACED}[ruled-other.txt]",
    ),
    guard(
        "checks of a template",
        f"{API}/jobs/briefs.py",
        "        require_own_checks(template, job, files)\n",
        "        pass\n",
        *(f"{REPLACED}[open-{name}]" for name in ("late.py", "late/x.py")),
    ),
    guard(
        "files sent twice",
        f"{API}/uploads.py",
        'target.open("xb")',
        'target.open("wb")',
        f"{NATIVE}a_file_is_not_sent_twice_under_one_name",
    ),
    guard(
        "names of uploads",
        f"{API}/uploads.py",
        "    check_name(name)\n",
        "",
        f"{NATIVE}an_upload_or_a_file_of_the_drive_has_no_name_that_leads_elsewhere",
    ),
    guard(
        "where a client's desks go",
        f"{API}/desks/desks.py",
        "    require_public(scope.rules)\n",
        "",
        f"{NATIVE}a_desk_is_opened_towards_nothing_that_is_near_the_machine",
    ),
    guard(
        "where a client's briefs go",
        f"{API}/jobs/briefs.py",
        "        require_public(job.scope.rules)\n",
        "        pass\n",
        f"{NATIVE}a_brief_goes_to_nothing_that_is_near_the_machine",
    ),
    guard(
        "what is allowed by one click",
        f"{API}/jobs/allow_rule.py",
        "    require_public([rule])\n",
        "",
        f"{NATIVE}a_job_is_allowed_nothing_that_is_near_the_machine",
    ),
    Guard("what only an operator's brief says", (REFUSED,), tuple(f"{RESERVED}[{case}]" for case in range(4))),
    Guard(
        "a wall around a client's job",
        (REFUSED, Removal(f"{API}/jobs/briefs.py", '    if job.wall == "local":\n', "    if False:\n")),
        (f"{RESERVED}[4]",),
    ),
    guard(
        "models with an address",
        f"{API}/jobs/jobs.py",
        "        if why := refusal(name, listed):\n",
        '        if why := "":\n',
        *(f"{NATIVE}a_job_calls_no_address_its_sender_chose[{case}]" for case in range(6)),
    ),
    guard(
        "fields an order has",
        f"{API}/schema.py",
        'extra="forbid"',
        'extra="ignore"',
        f"{NATIVE}an_order_has_no_field_that_is_the_operators",
    ),
    guard(
        "kinds of secrets a client puts in",
        f"{API}/vault.py",
        'Literal["token", "basic", "totp"], Field(',
        "str, Field(",
        f"{NATIVE}a_secret_is_nothing_this_machine_would_run_or_call",
    ),
    guard(
        "a screen's key",
        f"{API}/desks/screens.py",
        "name)\n            tasks.start_soon(while_admitted, asked, tasks.cancel_scope)\n",
        "name)\n",
        f"{NATIVE}a_screen_that_is_looked_at_is_dark_once_its_key_is_revoked",
    ),
    guard(
        "powers a key gives",
        f"{API}/access/keys.py",
        "    if beyond := sorted(set(told.powers) - asked.caller.powers):\n",
        "    if beyond := []:\n",
        f"{NATIVE}a_key_gives_no_power_it_has_not",
    ),
)
OWN = "a tenant's state is its own: the cases that have the guard stand for all"
NO_GUARD_OF_NATIVE = {
    ANOTHERS: OWN,
    **{f"{LISTS}[{path}]": OWN for path in ("/journal", "/approvals", "/events")},
    f"{NATIVE}no_socket_opens_to_what_is_anothers": OWN,
    **{
        f"{SOCKET}[/desks/{{desk}}/screen-{page}]": "it asks as the terminal does, and this desk has no screen"
        for page in PAGES
    },
    **{
        f"{AIMED}[{case}]": "what it would make cannot be read, or more than one guard stops it"
        for case in (
            "more of a path",
            "every host below",
            "a private range",
            "IPv6",
            "a word more",
            "another rule's host",
            "every host",
            "every host of a kind",
            "a line more",
            "a grant's host",
            "a model",
        )
    },
    **{
        f"{REPLACED}[{case}]": "more than one guard stops it; the cases that have one stand for all"
        for case in (
            "open-rule.py",
            "ruled-rule.py",
            "ruled-brain.py",
            "ruled-template.toml",
            "ruled-lib/helper.py",
            "ruled-lib",
            "ruled-names.txt/x",
        )
    },
    f"{NATIVE}every_route_asks_who_is_there": "it reads the table of routes; one case shows that it can fail",
    f"{NATIVE}no_cookie_token_key_or_secret_is_written_anywhere": "nothing writes them: there is no access log",
}
