from __future__ import annotations

from hotdesk.door.secrets.placeholder import PLACEHOLDER, make_placeholder


def test_a_placeholder_is_random_and_says_its_name() -> None:
    made = {make_placeholder("ERP token/2") for _ in range(50)}
    assert len(made) == 50
    assert all(PLACEHOLDER.fullmatch(one.encode()) and one.startswith("hotdesk-secret-erp-token-2-") for one in made)
    assert all(PLACEHOLDER.fullmatch(make_placeholder(name).encode()) for name in ("", "---", "x" * 500, "é"))
