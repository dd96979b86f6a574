"""Which guard stops which attack on a server; as in `guards.py`."""

from __future__ import annotations

from tests.security.guards import Guard, Removal

SERVER = "test_server_attacks.py::test_"
LISTENING, BODIES = "hotdesk/api/listening.py", "hotdesk/api/bodies.py"
FRONT, ORDERS = "hotdesk/api/front.py", "hotdesk/api/orders.py"

TARGET = f"{SERVER}a_target_that_names_a_host_beside_the_header_is_refused"
BODY = f"{SERVER}a_body_that_is_no_file_is_small"
NEVER = f"{SERVER}what_never_comes_or_drop_by_drop_is_not_waited_for"


def guard(name: str, file: str, old: str, new: str, *attacks: str) -> Guard:
    """Describe a guard that is one text in one file."""
    return Guard(name, (Removal(file, old, new),), attacks)


GUARDS_OF_SERVER: tuple[Guard, ...] = (
    guard(
        "names of a server",
        FRONT,
        "        if name not in own_names(self.serving):\n",
        "        if False:\n",
        *(f"{SERVER}a_request_for_another_name_goes_nowhere[{name}]" for name in ("evil.test", "xlocalhost")),
    ),
    guard(
        "headers that mean something, each once",
        FRONT,
        "        if len(headers.getlist(name)) > 1:\n",
        "        if False:\n",
        f"{SERVER}a_header_that_two_could_read_differently_is_refused",
    ),
    guard(
        "paths without dots",
        FRONT,
        "    if DOTTED & set(segments) or ",
        "    if False and ",
        f"{SERVER}a_path_that_leads_elsewhere_when_tidied_is_refused",
    ),
    guard(
        "a server without privileges",
        "hotdesk/api/server.py",
        "        privileges.give_up(settings)\n",
        "        pass\n",
        f"{SERVER}a_server_that_is_taken_over_has_no_capability_but_to_read",
    ),
    guard(
        "what a server gives up",
        "hotdesk/api/privileges.py",
        "    confine([*closed, *passable], reads_all=True, dials=dials)\n",
        "    pass\n",
        f"{SERVER}a_server_that_is_taken_over_writes_dials_and_signals_nothing_else",
    ),
    guard(
        "keys read again",
        "hotdesk/api/keys.py",
        "        self.look()\n        key = self.known.get(text[4:12])\n",
        "        self.known or self.look()\n        key = self.known.get(text[4:12])\n",
        f"{SERVER}a_revoked_key_lets_nobody_in_while_the_server_runs",
    ),
    guard(
        "words of a starter",
        ORDERS,
        "    if unknown := sorted(set(options) - known):\n",
        "    if unknown := []:\n",
        *(f"{SERVER}a_starter_takes_no_word_that_is_not_its_own[{case}]" for case in (0, 10)),
    ),
    guard(
        "names of tenants",
        "hotdesk/config.py",
        "    if not TENANT_SHAPE.fullmatch(name):\n",
        "    if False:\n",
        f"{SERVER}a_starter_starts_nothing_for_what_is_no_tenant",
    ),
    guard(
        "links in a job's folder",
        ORDERS,
        "os.O_CREAT | os.O_NOFOLLOW |",
        "os.O_CREAT |",
        f"{SERVER}a_starter_writes_through_no_link",
    ),
    guard(
        "one host a request",
        LISTENING,
        '        if not self.url.startswith(b"/"):\n',
        "        if False:\n",
        *(f"{TARGET}[http://{host}/sandboxes]" for host in ("evil.test", "127.0.0.1")),
    ),
    guard(
        "who answers, in plain letters",
        FRONT,
        '    if b"%" in ',
        '    if b"" == ',
        f"{SERVER}who_answers_is_not_hidden_by_an_encoding",
    ),
    guard(
        "headers by number",
        LISTENING,
        "        if len(self.headers) >= MOST_HEADERS:\n",
        "        if False:\n",
        f"{SERVER}a_flood_of_headers_is_refused",
    ),
    guard(
        "heads by size",
        LISTENING,
        "        if self.size > HEAD_LIMIT + len(data):\n",
        "        if False:\n",
        f"{SERVER}a_head_without_an_end_is_cut",
    ),
    Guard(
        "bodies by size",
        (
            Removal(BODIES, "    if length.isdecimal() and int(length[:20]) > most:\n", "    if False:\n"),
            Removal(BODIES, "            if len(data) > most:\n", "            if False:\n"),
        ),
        tuple(f"{BODY}[{how}-{path}]" for how in ("told", "chunked") for path in ("/api/v1/desks", "/web/x")),
    ),
    guard(
        "bodies of strangers",
        FRONT,
        "bodies.LARGEST if known else bodies.SMALL",
        "bodies.LARGEST",
        f"{SERVER}whoever_is_not_known_sends_next_to_nothing",
    ),
    guard(
        "patience with a connection",
        LISTENING,
        "        self.patience = self.loop.call_later(seconds, self.lose_patience)\n",
        "",
        NEVER,
    ),
    guard(
        "patience with a body",
        BODIES,
        "    with anyio.move_on_after(SECONDS):\n",
        "    with anyio.move_on_after(None):\n",
        NEVER,
    ),
    guard(
        "connections of one address",
        LISTENING,
        "        if is_full(self.connections, self.client):\n",
        "        if False:\n",
        f"{SERVER}one_address_does_not_use_up_all_connections",
    ),
    guard(
        "a log of what went wrong here",
        "hotdesk/api/server.py",
        'log_level="error"',
        'log_level="warning"',
        f"{SERVER}a_flood_of_what_is_no_request_does_not_fill_the_log",
    ),
    guard(
        "snapshots are no templates",
        "hotdesk/api/e2b/snapshots.py",
        " and not image.startswith(PREFIX):\n",
        ":\n",
        f"{SERVER}a_snapshot_is_opened_by_nobody_else_whatever_they_call_it",
        f"{SERVER}a_snapshot_is_seen_and_deleted_by_nobody_else",
    ),
    guard(
        "snapshots are no images",
        "hotdesk/api/native/images.py",
        "    if image.startswith(PREFIX):\n",
        "    if False:\n",
        f"{SERVER}a_snapshot_is_no_image_for_a_desk",
        f"{SERVER}a_snapshot_is_no_image_for_a_job",
    ),
    guard(
        "sandboxes of one tenant",
        "hotdesk/api/e2b/sandboxes.py",
        "if each.tenant.name == tenant and not has_ended(each))",
        "if not has_ended(each))",
        f"{SERVER}nobody_elses_sandbox_is_in_a_list_or_among_numbers",
    ),
    guard(
        "tokens of one sandbox",
        "hotdesk/api/e2b/signing.py",
        "    if not hmac.compare_digest(shown.encode(), token.encode()):\n",
        "    if False:\n",
        f"{SERVER}a_key_of_another_tenant_is_no_token_of_a_sandbox",
    ),
    guard(
        "signatures of one token",
        "hotdesk/api/e2b/signing.py",
        "hmac.compare_digest(self.by(token).encode(), self.signature.encode())",
        "True",
        f"{SERVER}a_signature_is_for_the_sandbox_whose_token_made_it",
    ),
)
PARSER = "httptools refuses it before anything of ours reads it"
NO_GUARD_OF_SERVER = {
    f"{SERVER}two_lengths_are_not_both_believed": PARSER,
    f"{SERVER}a_length_beside_chunks_is_refused": PARSER,
    **{f"{TARGET}[{target}]": PARSER for target in ("*", "evil.test:443")},
    f"{SERVER}an_encoded_slash_or_dot_in_an_id_leads_nowhere_else": "ids have a shape, and dots a guard of their own",
    **{
        f"{BODY}[{how}-{path}]": "whoever answers there has a bound of its own behind the front's"
        for how in ("told", "chunked")
        for path in ("/sandboxes", "/mcp")
    },
    f"{SERVER}a_flood_of_requests_without_a_key_does_not_make_a_server_grow": "nothing is kept of whom nobody knows",
    f"{SERVER}a_link_to_look_at_something_cannot_be_guessed_or_used_elsewhere": "a link is 256 random bits",
    f"{SERVER}no_key_or_token_is_in_the_log_or_the_state_directory": "nothing writes them: there is no access log",
    **{
        f"{SERVER}a_request_for_another_name_goes_nowhere[{name}]": "the names are exact; two cases have the guard"
        for name in ("127.0.0.1.evil.test", "localhost.evil.test", "")
    },
    **{
        f"{SERVER}a_starter_takes_no_word_that_is_not_its_own[{case}]": "each option has a shape of its own"
        for case in range(1, 10)
    },
}
