"""Which guard keeps strangers out of envd; as in `guards.py`."""

from __future__ import annotations

from tests.security.guards import Guard, Removal

ENVD, SERVER = "test_envd_attacks.py::test_", "test_envd_server_attacks.py::test_"
NAMES = (
    "envd/signing", "envd/connect", "envd/entries", "envd/files", "envd/guest_files", "sandboxes", "ports/traffic",
)  # fmt: skip
SIGNING, CONNECT, ENTRIES, FILES, INSIDE, SANDBOXES, TRAFFIC = (f"hotdesk/api/e2b/{name}.py" for name in NAMES)
BELIEVED = "a_guest_that_answers_for_the_program_is_not_believed_nor_waited_for"


def guard(name: str, file: str, old: str, new: str, *attacks: str, server: tuple[str, ...] = ()) -> Guard:
    """Describe a guard that is one text in one file, by the attacks on parts and those on a whole server."""
    named = (*(f"{ENVD}{attack}" for attack in attacks), *(f"{SERVER}{attack}" for attack in server))
    return Guard(name, (Removal(file, old, new),), named)


GUARDS_OF_ENVD: tuple[Guard, ...] = (
    guard(
        "envd's token",
        SIGNING,
        "    if not hmac.compare_digest(shown.encode(), token.encode()):\n",
        "    if shown == '?':\n",
        "a_token_that_is_not_the_sandboxes_opens_nothing",
        server=("one_sandboxes_token_opens_no_other",),
    ),
    guard(
        "the token of who wakes a sandbox",
        TRAFFIC,
        "            if sandbox.auto_resume and aim.port == envd.PORT:\n",
        "            if False:\n",
        server=("who_would_not_be_let_in_wakes_no_sandbox",),
    ),
    guard(
        "the token of who runs code",
        TRAFFIC,
        '        if (port, scope["path"].strip("/")) in RUNS:\n',
        "        if False:\n",
        server=("code_runs_only_for_who_may_run_commands",),
    ),
    guard(
        "the token of who runs code, however it is spelt",
        TRAFFIC,
        '        if (port, scope["path"].strip("/")) in RUNS:\n',
        '        if (port, scope["path"]) == (49999, "/execute"):\n',
        server=tuple(
            f"code_runs_only_for_who_may_run_commands[{path}]" for path in ("/execute/", "//execute", "/init")
        ),
    ),
    guard(
        "the token of who handles contexts",
        TRAFFIC,
        "        if port == INTERPRETER_PORT:\n",
        "        if False:\n",
        server=("contexts_are_for_who_shows_a_token_of_the_sandbox",),
    ),
    guard(
        "the signature of an address",
        SIGNING,
        "    if not found:\n",
        "    found = found or list(holders)\n    if not found:\n",
        "a_signature_opens_only_what_was_signed",
        "an_empty_token_signs_nothing",
        server=(
            "an_address_for_one_file_opens_no_other",
            "an_address_to_read_by_writes_nothing",
            "an_address_of_one_sandbox_opens_no_other",
        ),
    ),
    guard(
        "a token that is none",
        SIGNING,
        "return bool(token) and hmac",
        "return hmac",
        "an_empty_token_signs_nothing",
    ),
    guard(
        "the time of an address",
        SIGNING,
        "    if int(digits) < time.time():\n",
        "    if int(digits) < 0:\n",
        "an_address_that_expired_opens_nothing",
        server=("an_address_that_is_too_old_opens_nothing_by_whatever_way",),
    ),
    guard(
        "names without a colon",
        SIGNING,
        '    if ":" in told.username:\n',
        '    if ":::" in told.username:\n',
        "a_colon_cannot_move_where_a_signed_field_ends",
        server=("a_signed_path_with_colons_is_no_other_path_of_another_user",),
    ),
    guard(
        "wrong signatures are counted",
        SIGNING,
        "    if len(recent) >= TRIES:\n",
        "    if len(recent) > TRIES:\n",
        "an_address_that_guesses_is_refused",
    ),
    guard(
        "the size of a message",
        CONNECT,
        "    if size > LONGEST:\n",
        "    if size > LONGEST << 20:\n",
        "a_message_without_end_is_not_held",
    ),
    Guard(
        "descriptions are checked",
        (
            Removal(ENTRIES, "not all(isinstance(value.get(name), str) for name in TEXTS)", "False"),
            Removal(ENTRIES, "    if type(size) is not int or type(mode) is not int or ", "    if "),
            Removal(ENTRIES, "type(modified) is not int:\n", "modified is None:\n"),
            Removal(ENTRIES, "    if not isinstance(value, dict):\n", "    if value is None:\n"),
        ),
        (f"{ENVD}a_description_that_makes_no_sense_is_refused",),
    ),
    guard(
        "wrong signatures at one sandbox",
        FILES,
        '        with call.room.tries.counted(call.request.client.host if call.request.client else ""):\n',
        "        if True:\n",
        server=("who_guesses_at_one_sandbox_is_refused_there_and_nowhere_else",),
    ),
    guard(
        "whose a sandbox is",
        SANDBOXES,
        "found.tenant.name != tenant or has_ended(found)",
        "has_ended(found)",
        server=("another_tenants_sandbox_gives_its_token_to_nobody",),
    ),
    guard(
        "the size of what is said of files",
        INSIDE,
        "            if size > LONGEST or letter",
        "            if letter",
        server=tuple(f"{BELIEVED}[{case}]" for case in ("a frame too large", "an answer too large")),
    ),
)
OUTSIDE = "nothing outside opens a path of a desk: it is the wall that stops this, as in test_file_attacks.py"
NO_GUARD_OF_ENVD = {
    f"{SERVER}no_path_or_link_of_a_guests_leads_to_a_file_of_the_hosts": OUTSIDE,
    f"{SERVER}no_name_in_a_form_leads_to_a_file_of_the_hosts": OUTSIDE,
    f"{SERVER}what_the_kernel_reads_of_the_host_is_not_written": OUTSIDE,
    f"{SERVER}{BELIEVED}[no letter]": "whoever reads a frame refuses one that it does not expect, too",
}
