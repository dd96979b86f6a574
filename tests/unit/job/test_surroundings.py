"""Tests of what a worker is told about its network and its secrets."""

from __future__ import annotations

from pathlib import Path

from hotdesk.brief import CLOSED, Scope, parse_grant, parse_rule
from hotdesk.brief.load import parse_job
from hotdesk.desk.image.description import ImageFacts
from hotdesk.door.policy.scope import scope_of
from hotdesk.job.surroundings import MAX_RULES, describe_desk, describe_network, describe_secrets

RULES = (
    "GET https://erp.example.test/login?",
    "GET https://erp.example.test/orders/* step=export",
    "ask POST https://erp.example.test/orders step=export",
    "read other.example.test step=report",
)


def test_a_step_without_network_is_told_so_and_not_to_debug_it() -> None:
    assert describe_network("report", CLOSED).startswith("This step has no network: ")
    assert "do not debug DNS" in describe_network("report", CLOSED)
    elsewhere = Scope((parse_rule("read erp.example.test step=export"),))
    assert describe_network("report", elsewhere) == describe_network("report", CLOSED)


def test_a_step_is_told_what_the_door_admits_and_what_it_asks_in_that_step_alone() -> None:
    text = describe_network("export", Scope(tuple(map(parse_rule, RULES))))
    assert "the HTTP proxy that is already set in the environment" in text
    admits, asks = text.partition("A person must approve each of these requests, which wait for the answer: ")[::2]
    assert "`GET https://erp.example.test/login?`, `GET https://erp.example.test/orders/*`." in admits
    assert asks.startswith("`POST https://erp.example.test/orders`. That takes minutes: ")
    assert "ends with status 403. It refuses everything else." in asks
    free = describe_network("report", Scope((parse_rule("read other.example.test"),)))
    assert "approve" not in free
    assert "minutes" not in free
    assert "other.example.test" not in text
    only = describe_network("report", Scope((parse_rule("ask read other.example.test"),)))
    assert "In this step it admits no request without approval." in only


def test_a_rule_that_also_asks_is_listed_once_as_asking() -> None:
    both = ("POST https://erp.example.test/orders", "ask POST https://erp.example.test/orders")
    text = describe_network("export", Scope(tuple(map(parse_rule, both))))
    assert text.count("https://erp.example.test/orders") == 1
    assert "which wait for the answer: `POST https://erp.example.test/orders`." in text


def test_the_signs_of_the_listed_rules_are_explained_and_no_others() -> None:
    def signs(*rules: str) -> str:
        return describe_network("x", Scope(tuple(map(parse_rule, rules)))).partition("In these rules ")[2]

    assert signs("GET https://erp.example.test/orders") == ""
    assert signs("GET https://erp.example.test/*") == "`*` stands for anything but `/`, `**` for anything."
    for rule in ("GET https://erp.example.test/login?", "GET https://erp.example.test/login? up=4K"):
        assert signs(rule) == "`?` with nothing after it means that no query may be sent."
    assert (
        signs("GET https://erp.example.test/list?page=1") == "`?` is followed by the only parameters that may be sent."
    )


def test_many_rules_are_counted() -> None:
    scope = Scope(tuple(parse_rule(f"read h{number}.example.test") for number in range(MAX_RULES + 5)))
    assert "and 5 more" in describe_network("x", scope)


def test_a_secret_is_named_with_the_variable_of_its_placeholder() -> None:
    grants = [
        parse_grant("erp-password@erp.example.test:8443 form=password:POST:/login env=ERP_PASSWORD"),
        parse_grant("erp-token@erp.example.test bearer"),
    ]
    placed, added = describe_secrets(grants)
    assert placed.startswith("$ERP_PASSWORD holds a placeholder for erp-password. ")
    assert "erp.example.test:8443" in placed
    assert "read it with `printenv ERP_PASSWORD` first" in placed
    assert added == "erp-token is added to your requests to erp.example.test outside the desk. You need not send it."


def test_a_desk_whose_image_is_not_here_is_described_by_its_size(tmp_path: Path) -> None:
    text = b'goal = "x"\nwall = "local"\ndeliverables = [{path = "a.txt", checks = []}]'
    job = parse_job(text, tmp_path, scope_of)
    assert describe_desk(ImageFacts(), job) == (
        "Size: 2 CPUs, 2 GiB of memory, 16 GiB of disk. Home folder: /home/user."
    )
