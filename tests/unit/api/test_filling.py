"""Tests of filling parameters into a template's brief."""

from __future__ import annotations

from hotdesk.api.native.jobs.template_values import Parameters, fill_brief

OWN = Parameters(
    {"host": "shop.example.test", "part": "june", "where": "10.1.2.3 private"}, frozenset({"host", "part"})
)


def test_a_host_and_a_part_of_a_path_are_filled_in() -> None:
    brief = {"goal": "{part} of {host}", "egress": ["GET https://{host}/orders/{part}/*", "pypi"], "seconds": 60}
    assert fill_brief(brief, OWN) == {
        "goal": "june of shop.example.test",
        "egress": ["GET https://shop.example.test/orders/june/*", "pypi"],
        "seconds": 60,
    }


def test_one_label_of_a_host_and_a_table_are_filled_in() -> None:
    brief = {"egress": ["read https://{part}.example.test", {"host": "{host}", "path": "/{part}"}]}
    assert fill_brief(brief, OWN)["egress"] == [
        "read https://june.example.test",
        {"host": "shop.example.test", "path": "/june"},
    ]


def test_a_value_the_operator_listed_may_be_used_anywhere() -> None:
    brief = {"egress": ["read https://{where}"], "image": "{where}", "names": {"a.test": "{where}"}}
    assert fill_brief(brief, OWN) == {
        "egress": ["read https://10.1.2.3 private"],
        "image": "10.1.2.3 private",
        "names": {"a.test": "10.1.2.3 private"},
    }


def test_an_expectation_and_a_path_are_filled_in() -> None:
    brief = {"deliverables": [{"path": "{part}.xlsx", "check": "xlsx", "expect": {"sheet": "{part}", "rows": 5}}]}
    assert fill_brief(brief, OWN) == {
        "deliverables": [{"path": "june.xlsx", "check": "xlsx", "expect": {"sheet": "june", "rows": 5}}]
    }
