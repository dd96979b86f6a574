"""Tests of paged lists, which neither repeat nor miss an entry, and of filters as E2B's SDKs write them."""

from __future__ import annotations

import urllib.parse

import pytest

from hotdesk.api.e2b.control import paging
from hotdesk.api.e2b.responses import E2bError

ITEMS = [(float(moment), name) for moment, name in zip([3, 1, 2, 2, 5, 4], "abcdef", strict=True)]


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", ["1", "2", "3", "6", "100"])
def test_pages_put_together_are_the_whole_list_in_order(limit: str, order: str) -> None:
    found: list[paging.Place] = []
    query = {"limit": limit, "order": order}
    while True:
        page, headers = paging.cut(ITEMS, lambda item: item, paging.read_page_request(query))
        found += page
        if not headers:
            break
        query["nextToken"] = headers["x-next-token"]
    assert found == sorted(ITEMS, reverse=order == "desc")


def test_changes_meanwhile_move_no_entry_to_another_page() -> None:
    first, headers = paging.cut(ITEMS, lambda item: item, paging.PageRequested(limit=2))
    changed = [item for item in [*ITEMS, (9.0, "z")] if item not in first]
    rest, _ = paging.cut(changed, lambda item: item, paging.read_page_request({"nextToken": headers["x-next-token"]}))
    assert first + rest == sorted(ITEMS, reverse=True)


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"}, {"limit": "101"}, {"limit": "-1"}, {"limit": "x"}, {"limit": ""}, {"limit": "9" * 50},
        {"order": "ASC"}, {"nextToken": "!"}, {"nextToken": "bm8"}, {"nextToken": "/" * 300},
    ],
    ids=repr,
)  # fmt: skip
def test_an_invalid_page_token_or_size_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(E2bError) as told:
        paging.read_page_request(query)
    assert told.value.status == 400


@pytest.mark.parametrize("metadata", [{}, {"a": "b"}, {"a b": "c&d=e"}, {"ü": "100 %"}, {"plus": "1+1", "": "x"}])
def test_metadata_is_read_as_the_sdk_writes_it(metadata: dict[str, str]) -> None:
    quoted = {urllib.parse.quote(key): urllib.parse.quote(value) for key, value in metadata.items()}
    assert paging.parse_metadata(urllib.parse.urlencode(quoted)) == metadata


def test_a_metadata_filter_with_too_many_entries_is_refused() -> None:
    with pytest.raises(E2bError, match="at most 100") as told:
        paging.parse_metadata("&".join(f"a{number}=b" for number in range(101)))
    assert told.value.status == 400


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ([], {"running", "paused"}),
        (["running"], {"running"}),
        (["running,paused"], {"running", "paused"}),
        (["paused", "running"], {"running", "paused"}),
    ],
)
def test_states_are_joined_by_commas_or_repeated(told: list[str], found: set[str]) -> None:
    assert paging.parse_states(told) == found


@pytest.mark.parametrize(
    "text",
    ["1970-01-01T00:00:10Z", "1970-01-01T01:00:10+01:00", "1970-01-01T01:00:10 01:00", "1970-01-01T00:00:10"],
)
def test_a_time_is_read_with_its_time_zone(text: str) -> None:
    assert paging.parse_moment(text) == 10.0
