"""Which guard stops which attack on a server; as in `guards.py`."""

from __future__ import annotations

from tests.security.guards import Guard, Removal

SERVER = "test_server_attacks.py::test_"
LISTENING, BODIES = "hotdesk/api/http/protocol.py", "hotdesk/api/http/body_limits.py"
FRONT, ORDERS = "hotdesk/api/http/dispatch.py", "hotdesk/api/launch/job_command.py"

TARGET = f"{SERVER}a_target_that_names_a_host_beside_the_header_is_refused"
BODY = f"{SERVER}a_body_that_is_no_file_is_small"
SOCKET = f"{SERVER}a_socket_where_nobody_speaks_it_is_refused_without_a_word_in_the_log"
OFTEN = f"{SERVER}whoever_asks_too_often_is_refused_however_they_show_who_they_are"
NONSENSE = f"{SERVER}a_starter_that_hears_nonsense_ends_as_if_its_server_were_gone"
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
        "    confine_reader(",
        "    print(",
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
        "body_limits.LARGEST if known else body_limits.SMALL",
        "body_limits.LARGEST",
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
        "hotdesk/api/e2b/control/snapshots.py",
        " and not image.startswith(PREFIX):\n",
        ":\n",
        f"{SERVER}a_snapshot_is_opened_by_nobody_else_whatever_they_call_it",
        f"{SERVER}a_snapshot_is_seen_and_deleted_by_nobody_else",
    ),
    guard(
        "snapshots are no images",
        "hotdesk/api/native/desks/images.py",
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
        "hotdesk/api/e2b/envd/signing.py",
        "    if not hmac.compare_digest(shown.encode(), token.encode()):\n",
        "    if False:\n",
        f"{SERVER}a_key_of_another_tenant_is_no_token_of_a_sandbox",
    ),
    guard(
        "nothing but plain files of a server's",
        "hotdesk/linux/landlock.py",
        "    restrict(list(writable), FILES, ",
        "    restrict(list(writable), ~0, ",
        f"{SERVER}a_server_that_is_taken_over_writes_dials_and_signals_nothing_else",
    ),
    guard(
        "nothing but sockets where keepers keep their state",
        "hotdesk/linux/landlock.py",
        "*((each, SOCKETS) for each in sockets)",
        "*((each, ~0) for each in sockets)",
        f"{SERVER}a_server_that_is_taken_over_writes_dials_and_signals_nothing_else",
    ),
    guard(
        "a terminal's key",
        "hotdesk/api/native/desks/screens.py",
        "    await asked.native.keys.ended(asked.caller.key)\n",
        "    await anyio.sleep_forever()\n",
        f"{SERVER}what_goes_on_ends_with_the_key_it_began_with[a terminal]",
    ),
    guard(
        "a stream's key",
        "hotdesk/api/native/events.py",
        "    while asked.native.keys.still(asked.caller.key) is not None:\n",
        "    while True:\n",
        f"{SERVER}what_goes_on_ends_with_the_key_it_began_with[events]",
    ),
    guard(
        "sockets where somebody speaks them",
        FRONT,
        '        if scope["type"] == "websocket" and part is not self.parts.native:\n',
        "        if False:\n",
        *(f"{SOCKET}[{path}]" for path in ("/sandboxes", "/files", "/v2/sandboxes")),
    ),
    guard(
        "every way to show a key is counted",
        FRONT,
        "        for tenant in tenants:\n            self.quotas.ask(tenant)\n",
        "        if found[0] is not None:\n            self.quotas.ask(found[0].tenant)\n",
        *(f"{OFTEN}[{way}]" for way in ("header", "beside", "cookie")),
    ),
    guard(
        "a disk that is nearly full",
        "hotdesk/api/native/bodies.py",
        "    if shutil.disk_usage(folder).free < floor:\n",
        "    if False:\n",
        f"{SERVER}nobody_fills_the_disk_that_is_everybodys",
    ),
    guard(
        "nonsense for a starter",
        "hotdesk/api/launch/launcher.py",
        "        except (ValueError, RecursionError):\n",
        "        except ZeroDivisionError:\n",
        *(f"{NONSENSE}[{name}]" for name in ("nothing whole", "no end of depth", "no text")),
    ),
    guard(
        "what is no request for a starter",
        "hotdesk/api/launch/launcher.py",
        "            if not isinstance(message, dict):\n",
        "            if False:\n",
        f"{NONSENSE}[no request]",
    ),
    guard(
        "errands at once",
        "hotdesk/api/launch/launcher.py",
        "        if len(self.errands) >= MOST_ERRANDS:\n",
        "        if False:\n",
        f"{SERVER}a_starter_runs_a_bounded_number_of_errands",
    ),
    guard(
        "orders of a server's jobs",
        "hotdesk/cli/jobs/resume.py",
        "    if arguments.ordered is not None:\n",
        "    if False:\n",
        f"{SERVER}a_job_does_not_go_on_with_an_order_a_server_forged",
    ),
    guard(
        "models of a server's orders",
        "hotdesk/cli/job_request.py",
        "        if why := refusal(name, listed):\n",
        '        if why := "":\n',
        f"{SERVER}a_job_does_not_go_on_with_an_order_a_server_forged[a model at an address]",
        f"{SERVER}a_job_does_not_go_on_with_an_order_a_server_forged[a model of this machine]",
    ),
    guard(
        "models a starter takes",
        ORDERS,
        "        if why := refusal(each, listed):\n",
        '        if why := "":\n',
        *(f"{SERVER}a_starter_takes_no_word_that_is_not_its_own[{case}]" for case in (11, 12)),
    ),
    guard(
        "variables of jobs and errands",
        "hotdesk/api/launch/launcher.py",
        "if name in passed or name.startswith(PASSED_LIKE)}",
        "if name or passed}",
        f"{SERVER}what_a_starter_starts_gets_listed_variables_only",
    ),
    guard(
        "filters a keeper made",
        "hotdesk/desk/wall/container/filter_cache.py",
        "            if os.fstat(file.fileno()).st_uid != uids.KEEPER:\n",
        "            if False:\n",
        f"{SERVER}a_filter_that_a_server_wrote_is_not_taken",
    ),
    guard(
        "keys of one tenant",
        "hotdesk/api/keys.py",
        "            self.require_room(tenant)\n",
        "            assert len(self.known) < 2000\n",
        f"{SERVER}a_tenant_that_makes_keys_without_end_leaves_room_for_others",
    ),
    guard(
        "browsers of one tenant",
        "hotdesk/api/native/access/browsers.py",
        "        for name in own[: -MOST_OF_TENANT + 1]:\n",
        "        for name in list(self.known)[: -MOST_OF_TENANT + 1]:\n",
        f"{SERVER}a_tenant_that_signs_in_without_end_signs_nobody_else_out",
    ),
    guard(
        "numbers a journal can have",
        "hotdesk/api/native/events.py",
        "min(int(last), 1 << 53)",
        "int(last)",
        f"{SERVER}a_number_to_go_on_from_that_is_none_breaks_nothing",
    ),
    guard(
        "keys for sandboxes",
        "hotdesk/api/e2b/control/control.py",
        '        if caller is None or not caller.may("sandboxes"):\n',
        "        if caller is None:\n",
        f"{SERVER}no_route_of_e2bs_answers_whoever_has_no_key_for_it[one for something else]",
    ),
    guard(
        "known keys for sandboxes",
        "hotdesk/api/e2b/control/control.py",
        "        if caller is None or not ",
        "        if caller is not None and not ",
        f"{SERVER}no_route_of_e2bs_answers_whoever_has_no_key_for_it[no key]",
        f"{SERVER}no_route_of_e2bs_answers_whoever_has_no_key_for_it[one that never was]",
    ),
    guard(
        "signatures of one token",
        "hotdesk/api/e2b/envd/signing.py",
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
    **{f"{SOCKET}[{path}]": "its part refuses a socket, too" for path in ("/", "/web/x", "/mcp", "/api/v1/session")},
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
