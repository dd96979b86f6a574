"""Tests of finding secrets in bytes that are to outlive a desk, as the door finds them."""

from __future__ import annotations

import base64

import pytest

from hotdesk.brief import parse_grant
from hotdesk.door.secrets.placeholder import make_placeholder
from hotdesk.keys.charter import Granted, grant_all, grant_canary
from hotdesk.keys.secret_scan import find_secrets

VALUE = b"tk-live-9fQ2mXw7RrT4Zn8cVd5sLb3K"
GRANTS = grant_all(None, [parse_grant("erp@erp.test bearer"), parse_grant("pin@erp.test bearer")],
                   {"erp": VALUE, "pin": b"1234"})  # fmt: skip


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", ()),
        (b"nothing of the kind", ()),
        (b"token " + VALUE, ("erp",)),
        (VALUE[::-1], ("erp",)),
        (VALUE.hex().encode(), ("erp",)),
        (base64.b64encode(b"x" + VALUE + b"y"), ("erp",)),
        (VALUE[:-1], ()),
        (b"1234", ()),
        (make_placeholder("other").encode(), ("other",)),
        (VALUE + make_placeholder("other").encode(), ("erp", "other")),
    ],
)
def test_values_and_placeholders_are_found(data: bytes, expected: tuple[str, ...]) -> None:
    assert find_secrets(data, GRANTS) == expected


def test_of_a_login_the_password_alone_is_found_and_what_has_no_value_is_no_error() -> None:
    value = base64.b64encode(b"me:" + VALUE).decode()
    login = Granted("0", parse_grant("login@erp.test basic"), "basic", "p", {"value": value}, None)
    code = Granted("1", parse_grant("code@erp.test bearer"), "totp", "p", {}, None)
    assert find_secrets(VALUE, [login, code, grant_canary()[0]]) == ("login",)
