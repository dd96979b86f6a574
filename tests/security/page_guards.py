"""Which guard keeps whoever uses the page from what desks, other pages and other tenants would do to them."""

from __future__ import annotations

from tests.security.guards import Guard, Removal

PAGE = "test_page_attacks.py::test_"
SERVED, CONTENT, SESSION = (
    "hotdesk/api/web/page.py",
    "hotdesk/api/web/content.py",
    "hotdesk/api/native/access/session.py",
)
DOM = "hotdesk/api/web/static/dom.js"
TEXT = "document.createTextNode(clean(value))"


def guard(name: str, file: str, old: str, new: str, *attacks: str) -> Guard:
    """Describe a guard that is one text in one file."""
    return Guard(name, (Removal(file, old, new),), tuple(f"{PAGE}{attack}" for attack in attacks))


GUARDS_OF_PAGE: tuple[Guard, ...] = (
    guard(
        "rules of the page",
        SERVED,
        'return {**ALWAYS, "content-security-policy": policy(scope["scheme"], host, self.content.domain)}',
        "return dict(ALWAYS)",
        "every_answer_of_the_page_is_bound_by_rules",
        "no_other_page_frames_it",
    ),
    guard(
        "bytes that links hold",
        CONTENT,
        "sum(own.values()) + len(data) > LARGEST",
        "False",
        "links_hold_a_bounded_part_of_memory_and_end_nobody_elses",
    ),
    guard(
        "the cookie of who signs in",
        SESSION,
        'response.set_cookie(COOKIE, cookie, secure=True, httponly=True, samesite="strict", path="/")',
        'response.set_cookie(COOKIE, cookie, secure=True, samesite="strict", path="/")',
        "no_cookie_is_one_that_scripts_read_or_other_pages_send[signing-in]",
    ),
    guard(
        "the cookie of who signs out",
        SESSION,
        'response.delete_cookie(COOKIE, secure=True, httponly=True, samesite="strict", path="/")',
        'response.delete_cookie(COOKIE, secure=True, httponly=True, path="/")',
        "no_cookie_is_one_that_scripts_read_or_other_pages_send[signing-out]",
    ),
    guard(
        "names of the page",
        "hotdesk/api/http/dispatch.py",
        "        if name not in own_names(self.serving):\n",
        "        if False:\n",
        "a_name_that_was_bound_anew_to_this_machine_is_another_name",
    ),
    guard(
        "one name to sign in at",
        SERVED,
        "elif name in ELSEWHERE:",
        "elif False:",
        "nobody_signs_in_at_the_name_desks_write_below",
    ),
    guard(
        "only links at the second origin",
        SERVED,
        "        if name == content_name(self.content.domain):\n",
        "        if False:\n",
        "at_the_second_origin_there_is_nothing_but_links",
    ),
    guard(
        "the sandbox of what desks wrote",
        CONTENT,
        "\"sandbox; default-src 'none'; ",
        "\"default-src 'none'; ",
        "what_a_desk_wrote_is_no_page",
    ),
    guard(
        "downloads where people sign in",
        "hotdesk/api/native/bodies.py",
        "f\"attachment; filename*=UTF-8''",
        "f\"inline; filename*=UTF-8''",
        "what_a_desk_wrote_is_saved_not_shown_where_people_sign_in",
    ),
    guard(
        "names in headers",
        CONTENT,
        "{quote(link.name, safe='')}",
        "{link.name}",
        "a_files_name_writes_no_header",
    ),
    guard(
        "the end of a link",
        CONTENT,
        "link.until > self.clock()",
        "link.until > 0",
        "a_link_lasts_a_minute",
    ),
    guard(
        "links nobody guesses",
        CONTENT,
        "key = secrets.token_urlsafe(32)",
        'key = f"{len(self.links):043d}"',
        "no_link_is_like_another",
    ),
    guard(
        "links for those with a key",
        "hotdesk/api/native/access/auth.py",
        '        raise Problem(401, "key.unknown", UNKNOWN, CHALLENGE)\n',
        '        caller = Caller("default", "", "")\n',
        "nobody_gets_a_link_without_a_key",
    ),
    Guard(
        "texts are texts",
        (
            Removal(DOM, TEXT, "document.createRange().createContextualFragment(String(value))"),
            Removal(SERVED, "\"require-trusted-types-for 'script'\",", ""),
            Removal(SERVED, "\"trusted-types 'none'\",", ""),
        ),
        tuple(
            f"{PAGE}{attack}"
            for attack in (
                "a_task_is_text",
                "a_question_of_a_model_is_text",
                "a_name_of_a_file_is_text",
                "a_request_to_the_door_is_text",
                "what_happened_is_text",
                "what_an_act_was_used_with_and_answered_is_text",
                "a_plan_in_sentences_is_text",
                "a_certificate_is_text",
            )
        ),
    ),
    guard(
        "texts that hide nothing",
        DOM,
        TEXT,
        "document.createTextNode(value)",
        "a_name_of_a_file_is_text",
    ),
    guard(
        "words of desks are bounded",
        "hotdesk/api/native/jobs/stories.py",
        "    if len(text) > longest:\n",
        "    if False:\n",
        "nothing_a_desk_answers_makes_a_story_endless",
    ),
    guard(
        "pages are pictures",
        "hotdesk/api/native/jobs/pages.py",
        "[number - 1][1]), 200, RULES,",
        "[number - 1][1]), 200, {},",
        "a_page_of_a_file_is_a_picture_whatever_it_shows",
    ),
    guard(
        "pages of these very bytes",
        "hotdesk/api/native/jobs/pages.py",
        " if sha256 == version.sha256:",
        ":",
        "pages_of_other_bytes_are_not_shown_for_a_file",
    ),
    guard(
        "attributes that hide nothing",
        DOM,
        "SHOWN.has(name) ? clean(value) : value",
        "value",
        "what_is_read_aloud_or_saved_under_hides_nothing",
    ),
    guard(
        "a terminal that hides nothing",
        "hotdesk/api/web/static/vt.js",
        'SEEN.test(character) ? "\\ufffd" : ',
        "",
        "what_a_program_writes_to_a_terminal_is_text",
    ),
)
NO_GUARD_OF_PAGE = {
    f"{PAGE}nobody_gets_a_link_to_what_another_tenant_has": "a tenant is a folder of its own: no code looks elsewhere",
    f"{PAGE}nobody_is_told_what_another_tenants_job_did": "a tenant is a folder of its own: no code looks elsewhere",
    f"{PAGE}nobody_sees_pages_of_another_tenants_file": "a tenant is a folder of its own: no code looks elsewhere",
    f"{PAGE}a_report_runs_nothing": "three hold at once: its texts are escaped, its origin and frame have no script",
}
