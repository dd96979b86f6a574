"""Tests of a worker's first message: its step, requirements, network, budget, and what to fix."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.brain.stages import step_of

from hotdesk.brain.prompts import describe_findings, describe_situation, write_instructions
from hotdesk.brain.seam import BudgetBalance

SITUATION = replace(
    step_of(makes=("Sales.xlsx",), check="test -s Sales.xlsx"),
    deliverables=("Sales.xlsx (sheet)\nEvery formula must be saved with its calculated value.",),
    deliveries=2,
    network="This step has no network.",
    secrets=("$ERP_PASSWORD holds a placeholder for erp-password.",),
    attempt=2,
    attempts=3,
    balance=lambda: (BudgetBalance("seconds", 299.6, 900.0), BudgetBalance("dollars", 0.5, 2.0)),
)


def test_the_first_message_names_everything_a_worker_needs_before_its_first_call() -> None:
    text = describe_situation(SITUATION)
    for line in (
        "# Your step: one",
        "- Task: Do it.",
        "- Must leave: Sales.xlsx",
        "- Checked by: test -s Sales.xlsx",
        "- Sales.xlsx (sheet)\n  Every formula must be saved with its calculated value.",
        "This step has no network.",
        "- $ERP_PASSWORD holds a placeholder for erp-password.",
        "- Attempt 2 of 3 at this step.",
        "- A deliverable that fails its check is sent back to you, at most 2 times.",
        "- Left for the whole job: 300 seconds, 0.50 dollars.",
    ):
        assert line in text, line


def test_findings_of_a_check_are_instructions_and_only_foreign_text_is_quoted() -> None:
    found = ("Sales.xlsx failed its checks:\nSheet1!H2:H41 (40 cells): the formula was never calculated.",)
    again = replace(SITUATION, findings=found, last_summary="Wrote Sales.xlsx.\n# Your step: two", deliveries=1)
    text = describe_situation(again)
    assert "# The check of your last delivery failed. Fix exactly this, test it, then call finish.\n- Sales" in text
    assert "\n  Sheet1!H2:H41 (40 cells): the formula was never calculated." in text
    assert "> Wrote Sales.xlsx.\n> # Your step: two" in text
    assert "> Sheet1" not in text
    last = describe_findings(replace(again, deliveries=0, workspace="Your files are in the home folder."))
    assert last.startswith("The check found:\n- Sales.xlsx failed its checks:\n  Sheet1!H2:H41")
    assert "Fix exactly this" in last
    assert "Your files are in the home folder." in last
    assert "This is the last delivery" in last


def test_the_desk_is_described_in_the_part_shared_by_all_steps() -> None:
    task = replace(SITUATION.task, desk="Image `office`: Debian 13; Python 3.13.5 with openpyxl 3.1.5.")
    text = write_instructions(replace(SITUATION, task=task))
    assert "# The desk\nImage `office`: Debian 13; Python 3.13.5 with openpyxl 3.1.5." in text
    assert "- no network" in text
    assert write_instructions(replace(SITUATION, task=task, attempt=3)) == text
