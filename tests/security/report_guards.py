"""Which guard keeps a report harmless; as in `guards.py`."""

from __future__ import annotations

from tests.security.guards import Guard, Removal, cases

REPORT = "test_report_attacks.py::test_"
MARKUP, PICTURES = "hotdesk/job/report/markup.py", "hotdesk/job/report/pictures.py"
RUNS = f"{REPORT}nothing_in_a_hostile_jobs_report_runs_or_asks_for_anything"
KNOWN = f"{REPORT}a_report_is_made_of_known_elements_whatever_its_job_said"
ANY = f"{REPORT}any_text_stays_text_in_an_element_and_in_an_attribute"
ODD = f"{REPORT}a_picture_that_is_not_as_we_write_it_is_not_opened"
ESCAPED = "    return html.escape(unstacked(printable(text)), quote=True)\n"
LINES = "    if len(lines) != size or any(lines[:: 3 * width + 1]):\n"


def guard(name: str, file: str, old: str, new: str, *attacks: str) -> Guard:
    """Describe a guard that is one text in one file."""
    return Guard(name, (Removal(file, old, new),), attacks)


GUARDS_OF_REPORTS: tuple[Guard, ...] = (
    guard(
        "escaped text in reports",
        MARKUP,
        ESCAPED,
        "    return unstacked(printable(text))\n",
        *(RUNS, KNOWN, ANY),
    ),
    guard(
        "escaped quotes in reports",
        MARKUP,
        ESCAPED,
        "    return html.escape(unstacked(printable(text)), quote=False)\n",
        ANY,
    ),
    guard(
        "characters that cannot be seen in reports",
        MARKUP,
        ESCAPED,
        "    return html.escape(unstacked(text), quote=True)\n",
        *(KNOWN, ANY),
    ),
    guard(
        "marks that pile up in reports",
        MARKUP,
        "character if run <= MARKS else escaped(character)",
        "character",
        f"{REPORT}marks_do_not_pile_up_over_the_lines_around_them",
    ),
    guard(
        "the policy of a report",
        "hotdesk/job/report/page.py",
        '        tag("meta", http_equiv="Content-Security-Policy", content=policy),\n',
        "",
        f"{REPORT}even_what_were_not_escaped_could_not_run_or_ask",
    ),
    guard(
        "pictures of a desk's making",
        "hotdesk/job/report/story.py",
        "            act.has_picture = act.tool.startswith(DRAWN_HERE)\n",
        "            act.has_picture = True\n",
        f"{REPORT}a_picture_that_was_made_in_a_desk_is_not_opened",
    ),
    guard(
        "pictures as we write them",
        PICTURES,
        "    if tuple(kind) != RGB or not sized or ",
        "    if ",
        *cases(ODD, "many pixels | interlaced"),
    ),
    guard("lines without a filter", PICTURES, LINES, "    if len(lines) != size:\n", *cases(ODD, "a filter")),
    guard(
        "as many lines as announced",
        PICTURES,
        LINES,
        "    if False:\n",
        *cases(ODD, "a bomb | too few lines | a filter"),
    ),
    guard(
        "links to files beside a report",
        MARKUP,
        '    return link.startswith("#") or (',
        "    return True or (",
        *cases(f"{REPORT}a_link_to_a_file_leads_nowhere_but_beside_the_report", "../../etc/passwd"),
    ),
    guard(
        "somebody else's file",
        "hotdesk/job/report/write.py",
        "    if there is not None and not is_ours(there):\n",
        "    if False:\n",
        f"{REPORT}somebody_elses_file_is_not_taken_for_a_report",
    ),
)
NO_GUARD_OF_REPORTS = {
    f"{REPORT}a_page_without_these_measures_runs_and_asks": "a control: what the others would see if they failed",
    **dict.fromkeys(
        cases(
            f"{REPORT}a_link_to_a_file_leads_nowhere_but_beside_the_report",
            'javascript:alert(1) | //evil.test/x | a"onclick=1 | a?b#c',
        ),
        "two hold at once: every path is quoted and begins with `./`",
    ),
    **dict.fromkeys(
        cases(ODD, "sides without end | a palette | something between | no packed lines | nothing | no end"),
        "several rules refuse it; `as we write them` is one",
    ),
}
