"""Which guard stops which attack on certificates; as in `guards.py`."""

from __future__ import annotations

from tests.security.guards import Guard, Removal, cases

HERE = "test_certificate_attacks.py"
FORM, SIGNING, VERIFY = "hotdesk/drive/certificate.py", "hotdesk/keys/certify.py", "hotdesk/cli/jobs/verify.py"
STRICT = "hotdesk/strict.py"
OTHERWISE = f"{HERE}::test_what_is_written_otherwise_is_no_certificate_whoever_signed_it"
UNPROVEN = f"{HERE}::test_keys_sign_nothing_that_the_journal_does_not_have"
ONE_WAY = Removal(FORM, "not fits(told, shape) or canonical(told) != body:\n", "not fits(told, shape):\n")


def guard(name: str, file: str, old: str, new: str, *attacks: str) -> Guard:
    """Give a guard that is one edit."""
    return Guard(name, (Removal(file, old, new),), attacks)


def unproven(name: str, old: str, new: str, attacks: str) -> Guard:
    """Give a rule of what keys sign."""
    return guard(name, SIGNING, old, new, *cases(UNPROVEN, attacks))


GUARDS_OF_CERTIFICATES: tuple[Guard, ...] = (
    guard(
        "the file that was certified",
        VERIFY,
        '    if (size, sha256) != (told["file"]["size"], told["file"]["sha256"]):\n',
        "    if size < 0:\n",
        f"{HERE}::test_another_file_is_not_the_certified_one",
    ),
    guard(
        "the signature of a certificate",
        FORM,
        "    if not is_signed(public, DOMAIN + body, bytes.fromhex(ending[1].decode())):\n",
        "    if not body:\n",
        f"{HERE}::test_no_value_of_a_certificate_can_be_changed",
        f"{HERE}::test_no_byte_of_a_certificate_can_be_changed",
        f"{HERE}::test_a_signature_under_something_else_does_not_hold",
        f"{HERE}::test_what_the_same_key_signed_as_something_else_is_no_certificate",
        f"{HERE}::test_a_key_put_into_a_certificate_does_not_make_its_signature_hold",
    ),
    Guard(
        "a signer one believes",
        (
            Removal(VERIFY, "    if signer not in signers:\n", "    if not signer:\n"),
            Removal(VERIFY, "signer, signers[signer], told)", 'signer, "", told)'),
        ),
        (
            f"{HERE}::test_a_stranger_who_signs_the_same_is_not_believed",
            f"{HERE}::test_who_believes_nobody_believes_no_certificate",
        ),
    ),
    Guard(
        "one way to write a certificate",
        (ONE_WAY,),
        cases(OTHERWISE, "spaces | a line's end | another order | a number otherwise"),
    ),
    Guard(
        "no key twice",
        (ONE_WAY, Removal(STRICT, "    if len(made) != len(pairs):\n", "    if not pairs:\n")),
        cases(OTHERWISE, "a key twice | a hash twice"),
    ),
    Guard(
        "certificates are ASCII",
        (ONE_WAY, Removal(FORM, 'data.decode("ascii")', "data.decode()")),
        cases(OTHERWISE, "no ASCII"),
    ),
    guard(
        "exactly these fields",
        FORM,
        "not fits(told, shape) or canonical(told) != body:\n",
        "canonical(told) != body:\n",
        *cases(OTHERWISE, "one field more | one field less | a number for a text | a format that is true"),
    ),
    guard(
        "a format one knows",
        FORM,
        'if told.get("format") == number), None)\n',
        "if number), None)\n    shape = CERTIFICATE\n",
        *cases(OTHERWISE, "another format"),
    ),
    guard(
        "numbers that are some",
        STRICT,
        "parse_constant=_refuse_constant, ",
        "",
        *cases(OTHERWISE, "no number"),
    ),
    guard(
        "numbers that can be written again",
        STRICT,
        "    if not math.isfinite(number := float(text)):\n",
        "    if (number := float(text)) is None:\n",
        *cases(OTHERWISE, "a number beyond all"),
    ),
    guard(
        "how deep a certificate is",
        STRICT,
        "    except (ValueError, RecursionError) as e:\n",
        "    except ValueError as e:\n",
        *cases(OTHERWISE, "depth"),
    ),
    Guard(
        "how large a certificate is",
        (
            Removal(FORM, "    if len(data) > LARGEST:\n", "    if not data:\n"),
            Removal(VERIFY, "source.read(LARGEST + 1)", "source.read()"),
        ),
        cases(OTHERWISE, "too much"),
    ),
    guard(
        "certificates on a terminal",
        VERIFY,
        "    return [printable(each) for each in (head, *told)]\n",
        "    return [each for each in (head, *told)]\n",
        f"{HERE}::test_nothing_in_a_certificate_steers_a_terminal",
    ),
    unproven(
        "a job that is under way",
        "    if story.begun is None or story.ended:\n",
        "    if not claim:\n",
        "no job | another job | a job that is over",
    ),
    unproven(
        "the checks that looked",
        '    if not looks or [each.check for each in looks] != [each["check"] for each in claim["checks"]]:\n',
        "    if not claim:\n",
        "nothing verified | failed afterwards | only the one that passed | another name | another check | no check"
        " | a check more",
    ),
    unproven(
        "checks that passed",
        'if each.outcome != "passed"), None):\n',
        'if each.outcome == "unknown"), None):\n',
        "a failed check | one of two failed",
    ),
    unproven(
        "the bytes that were looked at",
        '    if any(each.sha256 != claim["file"]["sha256"] for each in looks):\n',
        "    if not claim:\n",
        "other bytes",
    ),
    unproven(
        "what checks found",
        '    if any([*look.findings] != each["held"] for look, each in zip(looks, claim["checks"], strict=True)):\n',
        "    if not claim:\n",
        "other findings",
    ),
    unproven(
        "what checks had beside them",
        "    if any(look.beside != beside_digest(",
        "    if any(not look and beside_digest(",
        "another rule | a rule nobody ran | no rule where there was one",
    ),
    unproven(
        "what was seen since the worker worked",
        "            case SentBack() | Resumed():\n                self.looks = []\n",
        "",
        "sent back since | resumed since",
    ),
    unproven(
        "checks without a way out",
        "        require_shut(journal, each.desk)\n",
        "        assert each\n",
        "a desk with a way out | a desk with a secret",
    ),
    unproven(
        "scripts are called so",
        '    if claim["brain"]["kind"] == "model" and story.begun.brain.startswith(RECORDED):\n',
        "    if not claim:\n",
        "a model, where there was a script",
    ),
    guard(
        "what an owner may claim",
        SIGNING,
        "    if not isinstance(claim, dict) or not fits(claim, CLAIM):\n",
        "    if not isinstance(claim, dict):\n",
        *cases(UNPROVEN, "fields of its own | no size"),
        f"{HERE}::test_what_keys_say_of_job_plan_brain_and_time_is_not_what_they_are_told",
    ),
    guard(
        "checks in clean desks",
        SIGNING,
        "    if walled and not all(",
        "    if not walled and not all(",
        f"{HERE}::test_keys_sign_nothing_that_was_not_looked_at_in_a_clean_desk",
    ),
    guard(
        "a journal that is whole",
        "hotdesk/drive/journal.py",
        " or row.hash != digest(row, before):\n",
        ":\n",
        f"{HERE}::test_keys_sign_nothing_by_a_journal_that_was_changed",
    ),
    guard(
        "who says that something was signed",
        "hotdesk/keys/process.py",
        "*(kind for kind in get_args(JobEvent) if kind is not Certified),\n",
        "*get_args(JobEvent),\n",
        f"{HERE}::test_no_owner_and_no_door_can_write_that_something_was_signed",
    ),
    guard(
        "checks before certificates",
        "hotdesk/job/verify.py",
        "        return not self.lacks and all(each.passed for each in self.seen)\n",
        "        return True\n",
        f"{HERE}::test_a_deliverable_that_does_not_hold_gets_no_certificate",
    ),
    guard(
        "no check, no certificate",
        "hotdesk/job/run.py",
        "        if not made.item.checks:\n",
        "        if not made.item.path:\n",
        f"{HERE}::test_a_deliverable_nobody_checks_gets_no_certificate",
    ),
    guard(
        "names of certificates",
        "hotdesk/job/start.py",
        "        if item.path.endswith(SUFFIX):\n",
        "        if not item.path:\n",
        f"{HERE}::test_no_deliverable_is_called_like_a_certificate",
    ),
)
NO_GUARD_OF_CERTIFICATES = {
    f"{HERE}::test_the_file_with_its_certificate_is_verified": "a control: it holds",
    f"{HERE}::test_a_certificate_that_was_cut_is_none": "without its end there is no signature that could be held",
}
