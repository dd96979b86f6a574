"""Which guard stops which attack of a deliverable on whoever looks at it; as in `guards.py`."""

from __future__ import annotations

from tests.security.guards import Guard, Removal

VERIFIER = "test_verifier_attacks.py::test_"
VERIFYING, RUNS, EVIDENCE = "hotdesk/job/verify.py", "hotdesk/checks/execution.py", "hotdesk/checks/evidence.py"
ACTIVE, CUSTOM = "hotdesk/checks/active.py", "hotdesk/checks/custom.py"
TURNED = "a_looker_that_was_turned_cannot_say_passed"
TROUBLE = "        trouble = evidence.trouble or await at.left_behind()\n"
TAKEN = "a_desk_whose_looker_was_taken_over_is_burnt_and_proves_nothing"
ALONE = "a_verifying_desk_holds_nothing_of_the_job_and_reaches_nothing"


def guard(name: str, file: str, old: str, new: str, *attacks: str) -> Guard:
    """Describe a guard that is one text in one file."""
    return Guard(name, (Removal(file, old, new),), tuple(f"{VERIFIER}{each}" for each in attacks))


GUARDS_OF_VERIFIER: tuple[Guard, ...] = (
    guard(
        "rows are counted here",
        "hotdesk/checks/csv.py",
        "        if self.rows is not None and len(table) - 1 not in self.rows:\n",
        "        if self.rows is None:\n",
        f"{TURNED}[csv]",
    ),
    guard(
        "what is required is looked for here",
        "hotdesk/checks/json.py",
        "                if value is NOTHING:\n",
        "                if value is None:\n",
        f"{TURNED}[json]",
    ),
    guard(
        "members are compared here",
        "hotdesk/checks/zip.py",
        "            if name not in there:\n",
        "            if name not in there and not there:\n",
        f"{TURNED}[zip]",
    ),
    guard(
        "what was counted was told",
        ACTIVE,
        " or (told_number(count) and not faults)",
        "",
        f"{TURNED}[active]",
    ),
    guard(
        "a run is told whole",
        RUNS,
        '            raise ValueError("what should be a run is none")\n',
        '            return Run(0, "42", "")\n',
        f"{TURNED}[program]",
        f"{TURNED}[command]",
    ),
    guard(
        "a check of the brief's own says these things",
        CUSTOM,
        '"values": dict(values), **more} if not more:\n',
        '"values": dict(values)}:\n',
        f"{TURNED}[custom]",
    ),
    guard(
        "who says nothing has looked for nothing",
        CUSTOM,
        "            if not faults and not held:\n",
        "            if not faults and held is None:\n",
        "what_a_custom_check_says_is_bounded_and_typed_or_nothing",
    ),
    guard(
        "exit codes",
        RUNS,
        "        if run.exit_code != self.exit_code:\n",
        "        if run.exit_code < self.exit_code:\n",
        "nothing_a_program_prints_is_its_verdict",
    ),
    guard(
        "what is left running is counted",
        VERIFYING,
        TROUBLE,
        "        trouble = evidence.trouble\n",
        "a_program_that_leaves_something_running_fails",
        f"{TAKEN}[stays]",
    ),
    guard(
        "how a looker ended",
        VERIFYING,
        TROUBLE,
        "        trouble = await at.left_behind()\n",
        f"{TAKEN}[killed]",
    ),
    guard(
        "a look that is broken off",
        EVIDENCE,
        '    return "" if done.ok else f"what looked at it ended with {done.exit_code}"\n',
        '    return ""\n',
        "a_looker_that_did_not_end_by_itself_is_never_silent",
    ),
    guard(
        "a clean desk reaches nothing",
        "hotdesk/job/desks.py",
        "CHECKING, CLOSED, image",
        "CHECKING, self.job.scope, image",
        ALONE,
    ),
    guard(
        "a clean desk holds what is named",
        "hotdesk/job/desks.py",
        "        for name in names:\n            digests[name]",
        "        for name in (*names, *self.job.inputs):\n            digests[name]",
        ALONE,
    ),
    guard(
        "the bytes that were taken",
        VERIFYING,
        "        return replace(made, seen=tuple(seen))\n",
        '        return replace(made, data=made.data + b" ", seen=tuple(seen))\n',
        "the_bytes_that_are_kept_are_the_bytes_that_were_looked_at",
    ),
    guard(
        "how much a program may say",
        RUNS,
        "LARGEST = 1 << 20\n",
        "LARGEST = 1 << 28\n",
        "a_program_that_never_stops_talking_is_cut_off",
    ),
    guard(
        "how much evidence there may be",
        EVIDENCE,
        "    if not told or len(told) >= LARGEST:\n",
        "    if not told:\n",
        "evidence_without_end_is_no_evidence[text]",
    ),
    guard(
        "in how many pieces evidence may be",
        EVIDENCE,
        '    if told.count(b"[") + told.count(b"{") > MOST_NESTED:\n',
        "    if not told:\n",
        "evidence_in_a_million_pieces_is_no_evidence",
    ),
    guard(
        "numbers that can be",
        EVIDENCE,
        " or not abs(value) <= sys.float_info.max:\n",
        " or value != value:\n",
        "a_number_beyond_all_numbers_is_no_error_of_ours",
    ),
    guard(
        "what many areas cover is searched",
        "hotdesk/checks/xlsx/cover.py",
        "        return bisect_right(self.strips[strip], row) % 2 == 1\n",
        "        return any(area.has(column, row) for area in self.large)\n",
        "a_workbook_that_reads_in_a_thousand_places_costs_no_minutes",
    ),
    guard(
        "no page is larger than announced",
        EVIDENCE,
        "inflating.decompress(rest[at : at + size], width * height * 3)",
        "inflating.decompress(rest[at : at + size])",
        "a_page_that_bursts_is_no_page",
    ),
    guard(
        "what acts is a fault",
        ACTIVE,
        "        bad = [each for each in told.found if each.rule not in self.allow]\n",
        "        bad = [each for each in told.found if each.rule in self.allow]\n",
        "what_carries_something_gets_no_pass_whatever_it_is_checked_by",
        "nothing_that_could_not_be_looked_into_can_be_named_away",
    ),
    guard(
        "our modules come last",
        EVIDENCE,
        "sys.path.append(sys.argv[1])\n",
        "sys.path.insert(0, sys.argv[1])\n",
        "a_module_that_a_file_planted_is_not_what_looks",
    ),
)
NO_GUARD_OF_VERIFIER: dict[str, str] = {
    f"{VERIFIER}evidence_without_end_is_no_evidence[spaces]": "it is no JSON, whoever reads it",
    f"{VERIFIER}evidence_without_end_is_no_evidence[brackets]": "the parser itself stops so deep",
}
