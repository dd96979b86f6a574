"""Which guard stops which attack on port traffic; as in `guards.py`."""

from __future__ import annotations

from tests.security.door_guards import FRAMING, ONCE
from tests.security.guards import Guard, Removal, cases

FILE = "test_traffic_attacks.py"
HEADS, PROXY, TRAFFIC = (
    "hotdesk/api/e2b/ports/headers.py",
    "hotdesk/api/e2b/ports/proxy.py",
    "hotdesk/api/e2b/ports/traffic.py",
)
INSIDE = f"{FILE}::test_no_secret_of_this_server_goes_inside"
OTHERS = f"{FILE}::test_a_sandbox_says_nothing_for_other_names_than_its_own"
BODY = f"{FILE}::test_a_body_is_never_a_request_inside"
ANSWER = f"{FILE}::test_an_answer_that_can_be_read_in_two_ways_is_none"

GUARDS_OF_TRAFFIC = (
    Guard(
        "traffic: what is this server's stays here",
        (Removal(HEADS, "    if OURS.fullmatch(name) or KEY.search(value):\n", "    if False:\n"),),
        cases(INSIDE, "an API key | envd's token | the traffic token | a key elsewhere"),
    ),
    Guard(
        "traffic: sessions stay here",
        (Removal(HEADS, " if not COOKIE.match(pair)", ""),),
        cases(INSIDE, "a session"),
    ),
    Guard(
        "traffic: cookies are for one name",
        (Removal(HEADS, " if not is_ours(*pair)]", "]"),),
        cases(OTHERS, "a cookie for all names | a cookie of ours"),
    ),
    Guard(
        "traffic: nothing is said for other names",
        (Removal(HEADS, 'b"alt-svc", b"clear-site-data", ', ""),),
        cases(OTHERS, "everything cleared | another way"),
    ),
    Guard(
        "traffic: the gate is for its desk",
        (Removal(TRAFFIC, "frozenset((0, GATE[1]))", "frozenset((0,))"),),
        (f"{FILE}::test_a_desks_own_way_out_is_nobodys_way_in",),
    ),
    Guard(
        "traffic: names are exact",
        (Removal(TRAFFIC, "            check_name(scope, self.sandboxes.serving)\n", ""),),
        (f"{FILE}::test_a_page_elsewhere_reaches_no_sandbox",),
    ),
    Guard(
        "traffic: the token is asked for",
        (
            Removal(
                TRAFFIC,
                "        check_token(scope, sandbox, self.sandboxes.serving)\n        if (port,",
                "        if (port,",
            ),
        ),
        (
            f"{FILE}::test_private_ports_are_for_those_with_the_token",
            f"{FILE}::test_where_others_listen_no_port_is_public",
        ),
    ),
    Guard(
        "traffic: a length cannot be named away",
        (Removal(FRAMING, "HOP.union(names) - KEPT if names", "HOP.union(names) if names"),),
        cases(BODY, "a length named away"),
    ),
    Guard(
        "traffic: an answer has a length or chunks",
        (
            Removal(
                FRAMING,
                '        if length is not None:\n            raise Broken(400, "both',
                '        if False:\n            raise Broken(400, "both',
            ),
        ),
        cases(ANSWER, "both lengths"),
    ),
    Guard("traffic: an answer has one length", (ONCE,), cases(ANSWER, "two lengths")),
    Guard(
        "traffic: an answer has one coding",
        (Removal(FRAMING, '        if coding.lower() != b"chunked":\n', "        if False:\n"),),
        cases(ANSWER, "a strange coding"),
    ),
    Guard(
        "traffic: only who asks gets another protocol",
        (
            Removal(PROXY, "(response.status == 101 and self.asked.accept)", "response.status == 101"),
            Removal(HEADS, "    if not right:\n        raise Broken(502", "    if False:\n        raise Broken(502"),
        ),
        cases(ANSWER, "an upgrade nobody asked for"),
    ),
    Guard(
        "traffic: every line of an answer is a header",
        (Removal(FRAMING, '    if len(pairs) != count or head[-4:] != b"\\r\\n\\r\\n":\n', "    if False:\n"),),
        cases(ANSWER, "a bare line feed"),
    ),
    Guard(
        "traffic: an answer begins as one",
        (
            Removal(
                FRAMING,
                '    if matched is None:\n        raise Broken(400, "the first line is not a version and a status")\n',
                '    matched = matched or STATUS_LINE.match(b"HTTP/1.1 200 OK\\r\\n")\n',
            ),
        ),
        cases(ANSWER, "no answer"),
    ),
    Guard(
        "traffic: what breaks off is cut",
        (Removal(PROXY, "        if self.begun and self.broken:\n", "        if False:\n"),),
        (f"{FILE}::test_an_answer_that_breaks_off_never_looks_whole",),
    ),
)
PARSED = "the listener's parser, which is a library's, refuses it or reads it in one way before any code of ours"
NO_GUARD_OF_TRAFFIC = dict.fromkeys(
    cases(
        BODY,
        """
        both lengths | no length first | no length last | a strange coding | two codings | a space before the colon |
        a folded line | a bare line feed | a zero
        """,
    ),
    PARSED,
)
