"""Which guard keeps MCP's clients and desks in bounds; as in `guards.py`."""

from __future__ import annotations

from tests.security.guards import Guard, Removal

MCP = "test_mcp_attacks.py::test_"
HTTP, RESULTS, DELIVER = "hotdesk/api/mcp/http.py", "hotdesk/api/mcp/results.py", "hotdesk/api/mcp/deliver.py"
DRAWN = "seen.media in MEDIA and len(seen.image) <= LARGEST"


def guard(name: str, file: str, old: str, new: str, *attacks: str) -> Guard:
    """Describe a guard that is one text in one file."""
    return Guard(name, (Removal(file, old, new),), attacks)


GUARDS_OF_MCP: tuple[Guard, ...] = (
    guard(
        "a fence nobody can guess",
        RESULTS,
        "secrets.token_hex(8)",
        '"0" * 16',
        f"{MCP}a_desk_cannot_write_the_end_of_its_fence",
    ),
    guard(
        "what an MCP client is shown",
        RESULTS,
        'return "\\n".join("\\t".join(map(printable, line.split("\\t"))) for line in text.split("\\n"))',
        "return text",
        f"{MCP}what_steers_or_hides_is_shown_instead",
    ),
    guard(
        "the length of what an MCP client is told",
        RESULTS,
        "    if len(text) <= LONGEST:\n",
        "    if len(text) >= 0:\n",
        f"{MCP}what_is_long_is_cut",
    ),
    guard(
        "pictures an MCP client gets",
        RESULTS,
        DRAWN,
        "seen.media",
        f"{MCP}a_picture_that_is_none_is_not_passed_on",
    ),
    guard(
        "arguments a tool does not have",
        "hotdesk/tool.py",
        "for name in given if name not in known]",
        "for name in given if name is None]",
        f"{MCP}no_word_of_a_client_changes_what_its_desk_is",
    ),
    guard(
        "names of delivered files",
        DELIVER,
        "name = check_name(f\"{desk.id}/{text_of(arguments, 'name') or PurePosixPath(path).name}\")",
        "name = f\"{desk.id}/fixed\" + text_of(arguments, 'name')[:0]",
        f"{MCP}a_delivered_file_goes_nowhere_but_below_its_desks_name",
    ),
    guard(
        "checks of delivered files",
        DELIVER,
        "        if not all(each.passed for each in seen):\n",
        "        if not seen:\n",
        f"{MCP}a_file_that_runs_something_is_not_kept",
    ),
    guard(
        "keys of MCP's clients",
        HTTP,
        "caller = self.keys.find(bearer(request))",
        'caller = self.keys.find(bearer(request)) or Caller("default", "", "")',
        f"{MCP}nobody_is_let_in_without_a_key",
    ),
    guard(
        "powers of MCP's clients",
        HTTP,
        'if not caller.may("desks"):',
        "if not caller.key:",
        f"{MCP}a_key_for_something_else_opens_no_desk",
    ),
    guard(
        "whose an MCP session is",
        HTTP,
        "if live is None or live.key != caller.key:",
        "if live is None:",
        f"{MCP}a_session_is_its_keys_alone",
    ),
    guard(
        "origins of MCP's clients",
        HTTP,
        "if origin is not None and origin != ",
        "if origin is not None and not ",
        f"{MCP}a_page_elsewhere_cannot_call",
    ),
    guard(
        "how many sessions a key has",
        HTTP,
        ">= MOST_OF_KEY:",
        ">= MOST:",
        f"{MCP}a_key_cannot_have_sessions_without_end",
    ),
    guard(
        "how many sessions a tenant has",
        HTTP,
        "len(own) >= MOST_OF_TENANT",
        "len(own) >= MOST",
        f"{MCP}a_tenant_leaves_sessions_for_others_whatever_keys_it_makes",
    ),
    guard(
        "sessions of keys that are over",
        HTTP,
        "        await self.keys.ended(caller.key)\n",
        "        await anyio.sleep_forever()\n",
        f"{MCP}a_session_ends_with_its_key",
    ),
    guard(
        "sessions that never began",
        HTTP,
        "            if status >= 400:\n",
        "            if status >= 600:\n",
        f"{MCP}what_begins_no_session_leaves_none",
    ),
    guard(
        "what MCP on stdio runs as",
        "hotdesk/cli/machine/mcp.py",
        "            confine(writable)\n",
        "",
        f"{MCP}a_server_on_stdio_has_no_rights_of_root",
    ),
)
NO_GUARD_OF_MCP = {
    f"{MCP}no_text_of_a_desk_becomes_a_link_a_client_would_follow": "no code makes a link",
    f"{MCP}a_path_is_the_desks_whatever_it_says": "a client's path is opened by the desk's guest and by nobody else",
}
