"""Tests of what counts against a desk's disk limit: no rollback gains room, and forgotten snapshots are free."""

from __future__ import annotations

from hotdesk.desk.room.accounting import Charges


def test_a_fresh_layer_is_charged_nothing_extra() -> None:
    charges = Charges()
    charges.begin("desk")
    assert charges.sum_other_lives("desk") == 0


def test_a_snapshot_of_the_current_layer_is_charged_with_its_writes() -> None:
    charges = Charges()
    charges.begin("desk")
    charges.keep("desk", "desk.1", 60)
    assert charges.sum_other_lives("desk") == 0


def test_a_layer_made_of_a_snapshot_is_charged_with_it() -> None:
    charges = Charges()
    charges.begin("desk")
    charges.keep("desk", "desk.1", 60)
    charges.begin("desk", "desk.1")
    assert charges.sum_other_lives("desk") == 60


def test_snapshots_of_abandoned_branches_are_charged() -> None:
    charges = Charges()
    charges.begin("desk")
    charges.keep("desk", "desk.1", 1)
    for number in range(2, 8):
        charges.begin("desk", "desk.1")
        charges.keep("desk", f"desk.{number}", 50)
    charges.begin("desk", "desk.1")
    assert charges.sum_other_lives("desk") == 1 + 6 * 50


def test_of_two_snapshots_in_one_life_the_larger_counts_once() -> None:
    charges = Charges()
    charges.begin("desk")
    charges.keep("desk", "desk.1", 10)
    charges.keep("desk", "desk.2", 30)
    charges.begin("desk", "desk.1")
    assert charges.sum_other_lives("desk") == 30
    charges.drop("desk.2")
    assert charges.sum_other_lives("desk") == 10


def test_visible_data_is_charged_even_if_its_snapshot_is_forgotten() -> None:
    charges = Charges()
    charges.begin("desk")
    charges.keep("desk", "desk.1", 10)
    charges.begin("desk", "desk.1")
    charges.drop("desk.1")
    assert charges.sum_other_lives("desk") == 10


def test_a_fork_is_charged_its_initial_files_but_not_its_origins_snapshots() -> None:
    charges = Charges()
    charges.begin("desk")
    charges.keep("desk", "desk.1", 10)
    charges.keep("desk", "desk.2", 70)
    charges.begin("fork", "desk.1")
    assert charges.sum_other_lives("fork") == 10
    charges.drop("desk.1")
    charges.drop("desk.2")
    charges.drop("desk")
    assert charges.sum_other_lives("fork") == 10
    charges.keep("fork", "fork.1", 5)
    charges.begin("fork", "fork.1")
    assert charges.sum_other_lives("fork") == 15
