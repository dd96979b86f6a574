"""Which guard stops which attack of a turned brain, a hostile input or a late answer; as in `guards.py`."""

from __future__ import annotations

from tests.security.guards import Guard, Removal

WORKER = "test_worker_attacks.py::test_"
WAITING = "hotdesk/job/people/wait.py"
AMENDING = "hotdesk/brain/amendments.py"
PERMITS = "hotdesk/brain/permits.py"
STEPS = "hotdesk/job/steps.py"
CHECKPOINT = "hotdesk/job/checkpoint.py"
OPERATORS = f"{WORKER}a_brief_cannot_say_what_this_machine_runs_or_dials"


def guard(name: str, file: str, old: str, new: str, *attacks: str) -> Guard:
    """Describe a guard that is one text in one file."""
    return Guard(name, (Removal(file, old, new),), tuple(f"{WORKER}{each}" for each in attacks))


GUARDS_OF_WORKER: tuple[Guard, ...] = (
    guard(
        "decisions count for their digest, in time",
        WAITING,
        "            case Decided() if self.counts(event, at):\n",
        "            case Decided():\n",
        "a_decision_about_something_else_or_too_late_decides_nothing",
    ),
    guard(
        "a key is for one address",
        "hotdesk/brain/models/chat.py",
        '    if here is None or here != address(os.environ.get(URL_VARIABLE, "")):\n',
        "    if here is None:\n",
        "the_key_of_one_model_server_goes_to_no_other",
    ),
    guard(
        "a host's domain stands first",
        "hotdesk/job/people/cards.py",
        "        yield f\"{registrable(rule.host)}: {f'({how}) ' if how else ''}{rule_text(rule)}\"\n",
        "        yield f\"{f'({how}) ' if how else ''}{rule_text(rule)}\"\n",
        "a_long_host_is_shown_from_the_end_that_somebody_registered",
    ),
    guard(
        "only plans are edited",
        WAITING,
        "bool(event.paper) and asked.kind in EDITED",
        "bool(event.paper)",
        "a_step_that_is_no_plan_cannot_be_approved_by_an_edit_of_it",
    ),
    guard(
        "the first decision",
        WAITING,
        "                self.decided.setdefault(event.id, event)\n",
        "                self.decided[event.id] = event\n",
        "a_second_decision_decides_nothing",
    ),
    guard(
        "the plan that was seen",
        "hotdesk/job/plans.py",
        "        if hashlib.sha256(text.encode()).hexdigest() != decided.digest:\n",
        "        if hashlib.sha256(text.encode()).hexdigest() == decided.digest:\n",
        "a_job_goes_on_only_with_the_very_plan_that_a_person_saw",
    ),
    guard(
        "what the door may have written down",
        "hotdesk/keys/process.py",
        '    "door": (Exchange, Alarm, Revoked, Asked, Answered),\n',
        '    "door": (Exchange, Alarm, Revoked, Asked, Answered, *get_args(JobEvent)),\n',
        "neither_door_nor_desk_can_write_a_decision",
    ),
    guard(
        "an amended step lists its hosts",
        AMENDING,
        "    hosts = tuple(rules) if now.hosts is None and asked.hosts else now.hosts\n",
        "    hosts = now.hosts\n",
        "one_yes_is_no_yes_to_the_next_amendment_of_a_step_that_has_all_of_the_brief",
    ),
    guard(
        "what policy lets pass",
        AMENDING,
        '    return "approved" if approve in ("auto", "risky") and harmless else "ask"\n',
        '    return "approved"\n',
        "no_policy_lets_an_amendment_pass_that_puts_something_at_stake",
    ),
    guard(
        "the ceiling holds for people",
        AMENDING,
        "    if any(is_barred(rule, held(step, job.scope.rules), top) for step, rule in wanted):\n",
        "    if not top:\n",
        "nobody_approves_beyond_the_operators_ceiling",
    ),
    guard(
        "rules and grants are a step's own",
        PERMITS,
        "yield thing if thing.step or thing in common else replace(thing, step=step.name)",
        "yield replace(thing, step='')",
        "what_a_step_reads_widens_no_later_step",
    ),
    guard(
        "what is not planned is asked",
        PERMITS,
        "            yield from asks(each, allowed, scope)\n",
        "            yield each\n",
        "what_the_brief_admits_and_the_step_does_not_list_is_asked",
    ),
    guard(
        "choosing is all there is to do",
        PERMITS,
        '    if step.kind == "choose":\n',
        '    if step.kind == "":\n',
        "a_step_that_chooses_cannot_use_its_actions_tool_otherwise",
    ),
    guard(
        "a program has no tools beside it",
        PERMITS,
        '    if step.kind == "program":\n',
        '    if step.kind == "":\n',
        "a_program_step_has_no_tool_but_the_one_its_program_is_run_with",
    ),
    guard(
        "names of inputs are no sentences",
        "hotdesk/job/safe_names.py",
        '    kept = "".join(c if c.isalnum() or c in "._-/" else "_" for c in printable(name))\n',
        "    kept = name\n",
        "a_planner_never_sees_what_inputs_hold_and_their_names_are_no_sentences",
    ),
    guard(
        "silence means nothing",
        "hotdesk/brain/planning.py",
        "            return strict(from_json(plan_in(reply))), ()\n",
        "            return from_json(plan_in(reply)), ()\n",
        "a_models_plan_has_nothing_where_it_says_nothing",
    ),
    guard(
        "names in events",
        "hotdesk/job/record/log.py",
        "printable(step.name[:NAME])",
        "step.name",
        "no_name_or_word_of_a_model_steers_a_terminal_or_lies_raw_in_the_journal",
    ),
    guard(
        "a worker's words are papers",
        STEPS,
        'StepEnded(self.log.job, step.name, "failed", ended.why, stage.desk.id, paper)',
        'StepEnded(self.log.job, step.name, "failed", ended.summary, stage.desk.id, paper)',
        "why_a_worker_failed_is_in_its_papers_and_not_in_the_journal",
    ),
    guard(
        "words of others are quoted",
        "hotdesk/brain/prompts/__init__.py",
        '    return "\\n".join(f"> {line}" for line in text.splitlines())\n',
        "    return text\n",
        "words_of_earlier_steps_and_attempts_are_quoted_line_by_line",
    ),
    guard(
        "a worker's words are few",
        "hotdesk/job/people/cards.py",
        "printable(asked.reason)[:WORDS]",
        "asked.reason",
        "a_card_shows_facts_first_and_escapes_a_workers_words",
    ),
    guard(
        "secrets asked for amid a step",
        "hotdesk/job/people/cards.py",
        "    lines += [FOREIGN] if asked.grants else []\n",
        "",
        "opting_out_of_a_fresh_desk_is_on_the_card",
    ),
    guard(
        "the switch of tests",
        "hotdesk/brief/limits.py",
        '        case "local" if os.environ.get(SWITCH) == "1":\n',
        '        case "local" if SWITCH:\n',
        'a_brief_cannot_say_what_this_machine_runs_or_dials[wall = "local"]',
    ),
    guard(
        "models have no address and are no script",
        "hotdesk/brief/limits.py",
        '    if not MODEL_SHAPE.fullmatch(name) or provider not in PROVIDERS or "//" in model:\n',
        "    if not (name and provider and model):\n",
        'a_brief_cannot_say_what_this_machine_runs_or_dials[models = {plan = "chat:x@http://127.0.0.1:1/v1"}]',
        'a_brief_cannot_say_what_this_machine_runs_or_dials[models = {plan = "script:brain.py"}]',
    ),
    guard(
        "the ceiling",
        "hotdesk/brief/ceiling.py",
        "    if outside := beyond(job, ceiling):\n",
        "    if outside := ():\n",
        "nothing_given_on_a_command_line_or_in_a_brief_is_beyond_the_ceiling",
    ),
    guard(
        "the checkpoint that was kept",
        CHECKPOINT,
        "                if whole.hexdigest() != sha256 or file.read(1):\n",
        "                if not sha256:\n",
        "another_checkpoint_of_the_same_job_is_not_taken_for_the_one_that_was_kept",
    ),
    guard(
        "the mode of checkpoints",
        CHECKPOINT,
        "os.O_EXCL | os.O_CLOEXEC, 0o600)",
        "os.O_EXCL | os.O_CLOEXEC, 0o666)",
        "a_checkpoint_is_nobody_elses_file",
    ),
    guard(
        "how large a checkpoint may be",
        CHECKPOINT,
        "            if size > largest:\n",
        "            if not size:\n",
        "an_archive_without_end_is_broken_off_and_nothing_of_it_stays",
    ),
    guard(
        "what the brief asks is asked",
        PERMITS,
        '        if each.verdict == "ask":\n            yield each\n',
        '        if each.verdict == "ask":\n            yield replace(each, verdict="allow")\n',
        "what_the_brief_asks_is_asked_in_every_step_that_lists_hosts",
    ),
    guard(
        "what the brief asks is asked where nothing is planned",
        PERMITS,
        '        yield from (each for each in held(step.name, scope.rules) if each.verdict != "deny")\n',
        '        yield from (replace(each, verdict="allow") for each in held(step.name, scope.rules))\n',
        "with_a_turned_brain_at_the_brief_nothing_leaves",
    ),
    guard(
        "a verdict that is no",
        "hotdesk/job/run.py",
        "        failed = [each for each in proven if not each.passed]\n",
        "        failed = [each for each in proven if each.lacks]\n",
        "a_liar_gets_no_verdict_and_nothing_is_kept[liar-empty]",
    ),
    guard(
        "who goes in circles is stopped",
        "hotdesk/brain/loop.py",
        '            if verdict == "stop" and end is None:\n',
        '            if verdict == "never" and end is None:\n',
        "a_clumsy_brain_is_stopped_by_loop_or_budget_with_kind_errors",
    ),
    guard(
        "every program ends at a border",
        STEPS,
        "        await desk.pause(memory=False)\n        await desk.resume()\n",
        "",
        "nothing_that_one_step_planted_is_met_by_a_later_one_that_has_secrets",
    ),
    guard(
        "secrets given later move a step",
        STEPS,
        "        if not side and not self.plans.is_apart(index):\n",
        "        if not side:\n",
        "secrets_given_amid_a_step_are_used_at_a_fresh_desk_with_named_files",
    ),
    guard(
        "a step that keeps",
        STEPS,
        "        stays = step.keeps and self.stage is not None\n",
        "        stays = False\n",
        "a_step_keeps_what_the_one_before_left_running_only_if_the_plan_says_so",
    ),
    guard(
        "papers are sealed",
        "hotdesk/job/record/papers.py",
        "            self.pile.add(name, self.seal(data, name))\n",
        "            self.pile.add(name, data)\n",
        "no_byte_of_a_jobs_state_holds_a_secret_or_what_its_inputs_say",
    ),
    guard(
        "forgetting destroys",
        "hotdesk/job/record/forget.py",
        "        shutil.rmtree(folder)\n",
        "        folder.exists()\n",
        "what_is_forgotten_can_no_longer_be_read",
    ),
)
UNKNOWN = "a key that no brief has is refused as well, so that taking out the reason changes only the words"
NO_GUARD_OF_WORKER: dict[str, str] = {
    **{
        f"{OPERATORS}[{line}]": UNKNOWN
        for line in ('script = "brain.py"', 'brain = "brain.py"', 'command = ["sh"]', 'program = "sh"')
    },
    f"{WORKER}where_the_brief_lets_it_go_anywhere_the_same_brain_steals": "it is the theft that succeeds, so that the "
    "one at the brief can fail",
    f"{WORKER}a_liar_gets_no_verdict_and_nothing_is_kept[liar]": "what was never made cannot be kept, whoever looks",
}
