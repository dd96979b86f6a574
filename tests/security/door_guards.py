"""Which guard stops which attack on the door; as in `guards.py`.

A guard that canaries try is taken out together with theirs. Some removals make a lenient reader of a strict one, where
nothing that is only taken out would.
"""

from __future__ import annotations

from tests.security.guards import Guard, Removal, cases

DOOR = "test_door_attacks.py"
FRAMING, TARGET, POLICY = (
    "hotdesk/door/http/framing.py",
    "hotdesk/door/policy/target.py",
    "hotdesk/door/policy/policy.py",
)
PROXY, EXCHANGE, WAY = "hotdesk/door/proxy.py", "hotdesk/door/exchange.py", "hotdesk/door/egress.py"
UPSTREAM, RESOLVE, NAMES = "hotdesk/door/http/upstream.py", "hotdesk/door/http/resolve.py", "hotdesk/brief/names.py"
ADDRESS = "hotdesk/door/policy/address.py"
LOCAL, PROCESS, CLEAN = "hotdesk/door/door_local.py", "hotdesk/door/process.py", "hotdesk/door/secrets/response.py"

AWAY = f"{DOOR}::test_nothing_leaves_but_through_the_door"
LOOKED_UP = f"{DOOR}::test_no_name_is_looked_up_before_a_rule_admits_it"
MEANT = f"{DOOR}::test_a_request_that_means_two_hosts_or_leads_inward_reaches_nobody"
FRAMES = f"{DOOR}::test_framing_that_can_be_read_in_two_ways_reaches_nobody"
ANSWER = f"{DOOR}::test_an_answer_that_is_none_becomes_a_502_and_spoils_no_other"
PACKED = f"{DOOR}::test_a_packed_answer_is_left_as_it_is_where_no_secret_is_about"
BROKEN = f"{DOOR}::test_an_answer_that_breaks_off_never_looks_whole"

UNTRIED = Removal("hotdesk/door/selftest.py", "    if report.failed:\n", "    if False:\n")
"""Without it a desk whose canaries get through is not handed over at all."""
ANY_HOST = Removal(POLICY, "yield from self.exact.get(host, ())", "yield from self.all")
ANY_PORT = Removal(
    POLICY,
    "            if end in each.ends:\n                if each.whole:\n",
    "            if True:\n                if each.whole:\n",
)
ANY_ADDRESS = Removal(
    RESOLVE, "            if reason := check(address, named, own, private=private):", '            if reason := "":'
)
DIALS = "create_connection(Wire, str(address), port)"
AT_HOME = Removal(UPSTREAM, DIALS, 'create_connection(Wire, "127.0.0.1", port)')
"""What is dialled in spite of everything is on this machine."""
ONCE = Removal(
    FRAMING,
    "        if value is not None and len(self._values) != len(self.pairs) and len(self.all(name)) > 1:\n",
    "        if False:\n",
)
AGREED = Removal(
    TARGET,
    '        raise Unclear("the Host header is not the host the request is for")\n',
    "        pass\n",
)
INSIDE = Removal(TARGET, "    if inside not in (None, authority):\n", "    if False:\n")
ANY_METHOD = Removal(
    POLICY,
    "        if seen.target.method not in self.methods:\n            return",
    "        if False:\n            return",
)
HOSTS = "    if len(hosts) != 1:\n        raise Unclear("

GUARDS_OF_NAMES = ()

GUARDS_OF_FRAMING = (
    Guard(
        "a length or chunks",
        (
            Removal(
                FRAMING,
                '        if length is not None:\n            raise Broken(400, "both',
                '        if False:\n            raise Broken(400, "both',
            ),
        ),
        (*cases(FRAMES, "a length and chunks | chunks and a length"), f"{ANSWER}[length-and-chunked]"),
    ),
    Guard(
        "headers that stand once",
        (ONCE,),
        (*cases(FRAMES, "the same length twice | two lengths | two headers of codings"), f"{ANSWER}[two-lengths]"),
    ),
    Guard(
        "lengths in digits",
        (
            Removal(
                FRAMING,
                '    if not length.isdigit():\n        raise Broken(400, "a Content-Length that is no number")\n',
                '    length = length.split(b",")[0]\n'
                '    length = str(int(length, 16 if b"x" in length else 10)).encode()\n',
            ),
        ),
        (
            *cases(
                FRAMES,
                """
                a list of lengths | a length with a sign | a length with an underscore | a length in hexadecimal
                """,
            ),
            f"{ANSWER}[length-that-is-none]",
        ),
    ),
    Guard(
        "lengths of few digits",
        (Removal(FRAMING, "LENGTH_DIGITS = 18", "LENGTH_DIGITS = 180"),),
        cases(FRAMES, "a length of many digits"),
    ),
    Guard(
        "one coding",
        (Removal(FRAMING, '        if coding.lower() != b"chunked":\n', "        if False:\n"),),
        (
            *cases(FRAMES, "xchunked | chunked twice | two codings | identity | chunked with a parameter"),
            f"{ANSWER}[strange-coding]",
        ),
    ),
    Guard(
        "no chunks in HTTP/1.0",
        (
            Removal(
                FRAMING,
                '        if version != "1.1":\n            raise Broken(400, "Transfer-Encoding in HTTP/1.0")\n',
                "",
            ),
        ),
        cases(FRAMES, "chunks in HTTP 1.0"),
    ),
    Guard(
        "every line is a header",
        (Removal(FRAMING, '    if len(pairs) != count or head[-4:] != b"\\r\\n\\r\\n":\n', "    if False:\n"),),
        (
            *cases(
                FRAMES,
                """
                a space before a colon | a space before a header | a folded header | a header without a colon | a header
                without a name | a bare line feed in a header | a bare carriage return in a header | a zero byte in a
                header | a line end of another script | a control character in a header
                """,
            ),
            f"{ANSWER}[folded]",
            f"{ANSWER}[a-control-character]",
        ),
    ),
    Guard(
        "lines end in CR LF",
        (
            Removal(
                FRAMING,
                "    if STRAY.search(buffer, max(seen - 1, 0)):\n"
                '        raise Broken(400, "a control character, or a line that does not end in CR LF")\n',
                '    if b"\\n\\n" in buffer:\n'
                '        buffer[:] = bytes(buffer).replace(b"\\n", b"\\r\\n")\n'
                '        return buffer.find(b"\\r\\n\\r\\n") + 4\n',
            ),
        ),
        (f"{FRAMES}[bare line feeds]", f"{ANSWER}[bare-line-feeds]"),
    ),
    Guard(
        "bytes of a head",
        (Removal(FRAMING, "HEAD_LIMIT = 64 * 1024", "HEAD_LIMIT = 1024 * 1024"),),
        (f"{FRAMES}[a head of 70 KB]", f"{ANSWER}[endless-head]"),
    ),
    Guard(
        "headers of a head",
        (Removal(FRAMING, "HEADERS = 128", "HEADERS = 1000"),),
        (f"{FRAMES}[200 headers]", f"{ANSWER}[many-headers]"),
    ),
    Guard(
        "bytes of a first line",
        (
            Removal(FRAMING, "LINE_LIMIT = 16 * 1024", "LINE_LIMIT = 64 * 1024"),
            Removal(TARGET, "LONGEST = 16384", "LONGEST = 65536"),
        ),
        (f"{FRAMES}[a first line of 20 KB]",),
    ),
    Guard(
        "a Host in every request",
        (
            Removal(FRAMING, '    if headers.once(b"host") is None and version == "1.1":\n', "    if False:\n"),
            Removal(
                TARGET,
                HOSTS,
                '    if not hosts:\n        return "erp.test", None\n    if False:\n        raise Unclear(',
            ),
        ),
        (f"{FRAMES}[no Host]",),
    ),
    Guard(
        "a method, a target and a version",
        (
            Removal(
                FRAMING,
                '(rb"(%b) ([!-~]++) HTTP/1\\.([01])\\r\\n" % NAME)',
                '(rb"(%b)[ \\t]+([!-~]++)(?: HTTP/[12]\\.([0-9]))?\\r\\n" % NAME)',
            ),
        ),
        cases(FRAMES, "HTTP 1.2 | HTTP 2.0 in words | no version | two spaces | a tab"),
    ),
    Guard(
        "methods in capitals",
        (Removal(TARGET, "    if not METHOD_SHAPE.fullmatch(told):\n", "    if False:\n"), ANY_METHOD),
        cases(FRAMES, "a method in small letters"),
    ),
    Guard(
        "headers that some servers read as framing",
        (Removal(FRAMING, "    if MIMIC.search(head):\n", "    if False:\n"),),
        cases(
            FRAMES,
            """
            a length's name with an underscore | a length and its name with an underscore |
            a length's name with a dot | a coding's name with an underscore |
            a packing's name with an underscore | a type's name with an underscore | a proxy's name with an underscore
            """,
        ),
    ),
    Guard("methods that are known", (ANY_METHOD,), cases(FRAMES, "a method nobody knows")),
    Guard(
        "methods that are never admitted",
        (Removal(TARGET, "    if told in NEVER:\n", "    if False:\n"), ANY_METHOD),
        cases(FRAMES, "TRACE"),
    ),
    Guard(
        "one expectation",
        (Removal(FRAMING, '    if headers.listed(b"expect") != [b"100-continue"]:\n', "    if False:\n"),),
        cases(FRAMES, "another expectation"),
    ),
    Guard(
        "upgrades to a WebSocket only",
        (Removal(EXCHANGE, '        if self.request.upgrade != b"websocket":\n', "        if False:\n"),),
        cases(FRAMES, "an upgrade to another protocol"),
    ),
    Guard(
        "chunks in plain hexadecimal numbers",
        (
            Removal(
                FRAMING,
                'CHUNK = re.compile(rb"\\r\\n([0-9A-Fa-f]{1,16})\\r\\n")',
                'CHUNK = re.compile(rb"(?:[g-z]*\\r?\\n)?(?:0x|\\+| )?([0-9A-Fa-f]{1,17}) ?(?:;[^\\r\\n]*)?\\r?\\n")',
            ),
        ),
        (
            *cases(
                FRAMES,
                """
                a chunk size with a sign | a chunk size with 0x | a chunk extension | a space before a chunk size | a
                space after a chunk size | a chunk that ends in a line feed | a chunk size that ends in a line feed | a
                chunk without an end | a chunk longer than said | a chunk size of 17 digits
                """,
            ),
            f"{BROKEN}[chunk-with-sign]",
        ),
    ),
    Guard(
        "trailers that change nothing",
        (Removal(FRAMING, "        if any(name in trailers for name in FRAMING):\n", "        if False:\n"),),
        cases(FRAMES, "a trailer that names a length | a trailer that names a host"),
    ),
    Guard(
        "bytes of trailers",
        (Removal(FRAMING, "TRAILER_LIMIT = 8 * 1024", "TRAILER_LIMIT = 64 * 1024"),),
        cases(FRAMES, "a trailer of 20 KB"),
    ),
    Guard(
        "answers begin as answers",
        (
            Removal(
                FRAMING,
                '        raise Broken(400, "the first line is not a version and a status")\n',
                '        return Response(200, b"", Headers(()), None, False, "1.1")\n',
            ),
        ),
        (f"{ANSWER}[no-http]",),
    ),
    Guard(
        "bodies that break off",
        (
            Removal(
                FRAMING,
                '            raise Broken(400, "the connection ended before the body did")\n',
                "            pass\n",
            ),
        ),
        cases(BROKEN, "short-body | short-chunks"),
    ),
    Guard(
        "HTTP/2 by its name",
        (
            Removal(
                FRAMING,
                '    if len(words) == 3 and words[2].startswith(b"HTTP/")',
                '    if False and words[2].startswith(b"HTTP/")',
            ),
        ),
        (f"{DOOR}::test_http_2_is_refused_at_once_and_says_so",),
    ),
)

GUARDS_OF_EXCHANGES = (
    Guard(
        "a body is read or the connection ends",
        (
            Removal(
                LOCAL, '    unread = request.body and (status >= 400 or meant.path != "/ask")\n', "    unread = None\n"
            ),
        ),
        (f"{DOOR}::test_a_body_sent_to_the_door_itself_is_not_the_next_request",),
    ),
    Guard(
        "headers that mean something else",
        (Removal(EXCHANGE, 'in passing if not is_override(pair[0].decode("ascii"))]', "in passing]"),),
        (f"{DOOR}::test_no_header_says_that_a_request_means_something_else",),
    ),
    Guard(
        "seconds of a head",
        (Removal(PROXY, "HEAD_SECONDS = 15.0", "HEAD_SECONDS = 1500.0"),),
        (f"{DOOR}::test_a_head_that_does_not_end_and_a_handshake_that_does_not_begin_are_cut",),
    ),
    Guard(
        "seconds of a body",
        (Removal(EXCHANGE, "BODY_SECONDS = 120.0", "BODY_SECONDS = 1200.0"),),
        (f"{DOOR}::test_a_body_that_stands_still_is_cut",),
    ),
    Guard(
        "connections are counted desk by desk",
        (
            Removal(
                PROCESS,
                "        self.free = asyncio.Semaphore(CONNECTIONS)\n",
                '        self.free = door.__dict__.setdefault("free", asyncio.Semaphore(CONNECTIONS))\n',
            ),
        ),
        (f"{DOOR}::test_a_desk_that_holds_every_connection_it_may_stops_no_other",),
    ),
    Guard(
        "interim answers are counted",
        (Removal(EXCHANGE, "INFORMED = 8", "INFORMED = 800"),),
        (f"{ANSWER}[flood-of-interim-answers]",),
    ),
    Guard(
        "no protocol is changed unasked",
        (
            Removal(
                EXCHANGE,
                '        if self.request.upgrade != b"websocket" or (answer.headers.get(b"upgrade")',
                '        if False and (answer.headers.get(b"upgrade")',
            ),
        ),
        (f"{ANSWER}[protocol-changed-unasked]",),
    ),
    Guard(
        "an upstream that hangs up",
        (
            Removal(
                EXCHANGE,
                '                raise ExchangeError(502, f"{self.meant.host} hung up: {e}") from None\n',
                "                raise\n",
            ),
        ),
        cases(ANSWER, "no-answer | half-a-head"),
    ),
    Guard(
        "nothing comes behind an answer",
        (
            Removal(
                EXCHANGE,
                '            if rest:\n                raise ExchangeError(502, "the answer is longer than it said")\n',
                "            self.upstream.buffer[:0] = rest\n",
            ),
            Removal(
                EXCHANGE,
                "answer.keep_alive and self.keep and not self.upstream.buffer:",
                "answer.keep_alive and self.keep:",
            ),
            Removal(EXCHANGE, "key != self.key or held.ended or held.buffer:", "key != self.key or held.ended:"),
        ),
        (f"{DOOR}::test_what_an_upstream_sends_beyond_its_answer_is_nobodys_answer",),
    ),
    Guard(
        "nothing is sent twice that may do something",
        (Removal(EXCHANGE, " or self.meant.method not in REPEATABLE:", ":"),),
        (f"{DOOR}::test_a_request_that_may_do_something_is_not_sent_twice",),
    ),
    Guard(
        "an upstream that heard half",
        (Removal(EXCHANGE, "if not upload.done() or upload.exception() is not None:", "if not upload.done():"),),
        (f"{DOOR}::test_an_upstream_that_heard_half_a_body_hears_no_other_request",),
    ),
    Guard(
        "a body is asked for",
        (Removal(EXCHANGE, "        if self.request.expects:\n", "        if False:\n"),),
        (f"{DOOR}::test_a_body_that_waits_to_be_asked_for_is_asked_for_where_it_is_admitted",),
    ),
    Guard(
        "a change cuts what was admitted before",
        (Removal(WAY, "        self.hang_up()\n\n    def end_canary", "\n    def end_canary"),),
        (
            f"{DOOR}::test_a_connection_does_not_outlive_the_step_it_was_opened_in",
            f"{DOOR}::test_a_connection_does_not_outlive_a_grant_that_is_revoked",
        ),
    ),
    Guard(
        "a grant's end",
        (
            Removal(
                WAY, "        return self.until is not None and time.time() >= self.until\n", "        return False\n"
            ),
        ),
        (f"{DOOR}::test_a_connection_that_is_idle_across_a_grants_end_carries_no_secret_after_it",),
    ),
    Guard(
        "no WebSocket where a rule only reads",
        (Removal(EXCHANGE, "        if self.only_reads:\n", "        if False:\n"),),
        (f"{DOOR}::test_a_websocket_where_the_rule_only_reads_is_refused",),
    ),
    Guard(
        "no body where a rule only reads",
        (Removal(EXCHANGE, "        if self.request.body and self.only_reads:\n", "        if False:\n"),),
        (f"{DOOR}::test_a_read_with_a_body_is_refused_where_the_rule_only_reads",),
    ),
    Guard(
        "no WebSocket beside a secret",
        (
            Removal(
                EXCHANGE,
                "if self.granted or self.allowed is not None:\n"
                "            raise ExchangeError(403, inject.NO_UPGRADE)\n",
                "pass\n",
            ),
        ),
        (f"{DOOR}::test_a_websocket_to_a_host_with_a_grant_is_refused",),
    ),
    Guard(
        "nothing is looked through where no secret is about",
        (Removal(CLEAN, "self.active = granted or bool(scrubber.spelt)", "self.active = True"),),
        (PACKED,),
    ),
    Guard(
        "what a desk was tried with is forgotten",
        (Removal(WAY, "        if set().union(*self.scrubber.spelt.values()) <= tried:\n", "        if False:\n"),),
        (PACKED,),
    ),
)

GUARDS_OF_DOOR: tuple[Guard, ...] = (*GUARDS_OF_NAMES, *GUARDS_OF_FRAMING, *GUARDS_OF_EXCHANGES)

PASSES = "no attack: what is admitted must pass, or a desk would look for other ways"
NOBODY = "there is no resolver in a desk: an empty resolv.conf has libc ask loopback, where nobody listens"
UNNAMED = "what is no name can be dialled by nobody: the same shape is asked for by rules, requests and the resolver"
NO_GUARD_OF_DOOR: dict[str, str] = {
    **dict.fromkeys(cases(AWAY, "a name by libc | a name by its own loopback"), NOBODY),
    **dict.fromkeys(cases(MEANT, "a path | a unix socket | a homograph in bytes"), UNNAMED),
    f"{DOOR}::test_trailers_end_at_the_door": "trailers are read past and never kept: there is no line that drops them",
    f"{DOOR}::test_a_name_below_a_wildcard_is_admitted": PASSES,
    f"{DOOR}::test_64_mib_arrive_unharmed_both_ways": PASSES,
    f"{DOOR}::test_events_arrive_one_by_one": PASSES,
    f"{DOOR}::test_a_websocket_speaks_both_ways": PASSES,
    f"{DOOR}::test_git_clones_through_the_door": PASSES,
}
"""Attacks that no removal of ours lets through, each with the reason."""
