"""Which guard stops which attack on the door; as in `guards.py`.

A guard that canaries try is taken out together with theirs. Some removals make a lenient reader of a strict one, where
nothing that is only taken out would.
"""

from __future__ import annotations

from tests.security.guards import Guard, Removal, cases
from tests.security.wall_guards import ROOM

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

GUARDS_OF_NAMES = (
    Guard(
        "no route from a desk with a door",
        (
            UNTRIED,
            Removal(
                ROOM,
                "    syscalls.raise_loopback()\n",
                '    syscalls.raise_loopback()\n    for version in ("-4", "-6"):\n'
                '        argv = ["ip", version, "route", "add", "local", "default", "dev", "lo"]\n'
                '        __import__("subprocess").run(argv)\n',
            ),
        ),
        cases(
            AWAY,
            """
            a name by UDP 53 | a name by TCP 53 | a name over TLS | a name over HTTPS | QUIC | QUIC on IPv6 | the time
            """,
        ),
    ),
    Guard(
        "hosts that a rule names",
        (UNTRIED, ANY_HOST),
        (
            LOOKED_UP,
            f"{DOOR}::test_each_hop_of_a_redirect_is_judged_on_its_own",
            *cases(MEANT, "a denied host | loopback | loopback on IPv6 | the door by its name"),
        ),
    ),
    Guard("ports that a rule names", (ANY_PORT,), cases(MEANT, "a denied port")),
    Guard(
        "hosts and ports that a rule names",
        (UNTRIED, ANY_HOST, ANY_PORT),
        cases(MEANT, "the address of an allowed host | the gate"),
    ),
    Guard(
        "whole labels below a wildcard",
        (
            Removal(
                POLICY,
                "yield from self.exact.get(host, ())",
                'yield from (each for each in self.all if each.rule.host.lstrip("*.") in host)',
            ),
        ),
        cases(
            MEANT,
            """
            a host that only ends like an allowed one | a host that only begins like an allowed one | the name above a
            wildcard
            """,
        ),
    ),
    Guard(
        "the Host is the host",
        (UNTRIED, AGREED),
        (
            *cases(
                MEANT,
                """
                an address that is none of the Host's | another Host inside TLS | another port in the Host | a homograph
                in punycode
                """,
            ),
            f"{DOOR}::test_pipelined_requests_are_judged_one_by_one",
        ),
    ),
    Guard("the host of the CONNECT", (INSIDE,), cases(MEANT, "a target for another host inside TLS")),
    Guard(
        "the host of the CONNECT, of the target and of the Host are one",
        (UNTRIED, AGREED, INSIDE),
        cases(MEANT, "a target that disagrees with the Host inside TLS"),
    ),
    Guard(
        "the scheme that is spoken",
        (Removal(TARGET, "    if found[1].lower() != scheme:\n", "    if False:\n"),),
        cases(MEANT, "another scheme inside TLS | a target of another scheme | https without CONNECT"),
    ),
    Guard(
        "one Host",
        (ONCE, Removal(TARGET, HOSTS, "    if False:\n        raise Unclear(")),
        cases(MEANT, "two Hosts | the same Host twice"),
    ),
    Guard(
        "a Host that names one",
        (Removal(TARGET, '(plain("Host header", hosts[0]))', '(plain("Host header", hosts[0]) or "erp.test")'),),
        cases(MEANT, "an empty Host"),
    ),
    Guard(
        "a host is a host and a port",
        (
            Removal(
                TARGET,
                "        return split_authority(text)\n",
                '        return split_authority(__import__("urllib.parse").parse.unquote(text).rpartition("@")[2])\n',
            ),
        ),
        cases(
            MEANT,
            """
            a name and a password in the Host | a name in the Host | a name in the target | percent forms in the Host |
            percent forms in the target
            """,
        ),
    ),
    Guard(
        "no backslash in a host",
        (
            Removal(
                TARGET,
                "        return split_authority(text)\n",
                '        return split_authority(text.partition("\\\\")[0])\n',
            ),
        ),
        cases(MEANT, "a backslash in the target"),
    ),
    Guard(
        "one dot at a name's end",
        (Removal(NAMES, 'text.lower().removesuffix(".")', 'text.lower().rstrip(".")'),),
        cases(MEANT, "two trailing dots"),
    ),
    Guard(
        "whole addresses in requests to a proxy",
        (
            Removal(
                TARGET,
                '        scheme = "http"\n        authority, rest = absolute(asked, scheme)\n',
                '        scheme = "http"\n        at = Authority(named[0], 80)\n'
                '        authority, rest = (at, asked) if asked[:1] == "/" else absolute(asked, scheme)\n',
            ),
        ),
        cases(MEANT, "no host in the target"),
    ),
    Guard(
        "a path",
        (
            Removal(
                TARGET,
                '    elif asked.startswith("/"):\n        authority, rest = inside, asked\n',
                '    elif asked.startswith(("/", "*")):\n        authority, rest = inside, asked.replace("*", "/")\n',
            ),
        ),
        cases(MEANT, "an asterisk"),
    ),
    Guard(
        "the Host of a CONNECT",
        (
            Removal(
                PROXY, "        if host[0] != where.host or host[1] not in (None, where.port):\n", "        if False:\n"
            ),
        ),
        cases(MEANT, "a CONNECT for another Host"),
    ),
    Guard(
        "the port of a CONNECT",
        (
            Removal(
                TARGET,
                '    if port is None:\n        raise Unclear("CONNECT needs a port, as in example.test:443")\n',
                "    port = port or 443\n",
            ),
        ),
        cases(MEANT, "a CONNECT without a port"),
    ),
    Guard(
        "no body of a CONNECT",
        (Removal(FRAMING, '    if body and method == b"CONNECT":\n', "    if False:\n"),),
        cases(MEANT, "a CONNECT with a body"),
    ),
    Guard(
        "nothing behind a CONNECT",
        (Removal(PROXY, "        if self.wire.buffer:\n            return", "        if False:\n            return"),),
        cases(MEANT, "bytes behind a CONNECT"),
    ),
    Guard(
        "no CONNECT inside another",
        (Removal(PROXY, "        if self.place.inside is not None:\n", "        if False:\n"),),
        cases(MEANT, "a CONNECT inside a CONNECT"),
    ),
    Guard(
        "names that are no numbers",
        (
            UNTRIED,
            Removal(NAMES, "    if NUMBER_SHAPE.fullmatch(name):\n", "    if False:\n"),
            ANY_HOST,
            Removal(RESOLVE, '*[a-z][a-z0-9-]{0,62}(?<!-)\\Z")', '*[a-z0-9][a-z0-9-]{0,62}(?<!-)\\Z")'),
            ANY_ADDRESS,
        ),
        cases(
            MEANT,
            "loopback as one number | loopback in hexadecimal | loopback in two parts | loopback in octal",
        ),
    ),
    Guard(
        "IPv4 is not written as IPv6",
        (Removal(NAMES, " or address.ipv4_mapped is not None):", "):"), UNTRIED, ANY_HOST, ANY_ADDRESS),
        cases(MEANT, "loopback as a mapped address"),
    ),
    Guard("addresses are checked", (ANY_ADDRESS,), cases(MEANT, "an allowed name of loopback")),
    Guard(
        "addresses that lead inward",
        (ANY_ADDRESS, AT_HOME),
        (
            f"{DOOR}::test_a_name_that_leads_inward_is_not_dialled",
            f"{DOOR}::test_a_rule_for_private_networks_or_a_whole_network_admits_neither_metadata_nor_this_host",
        ),
    ),
    Guard(
        "tunnels to elsewhere are no addresses of the internet",
        (Removal(ADDRESS, '        "6to4": "2002::/16",\n        "Teredo": "2001::/32",\n', ""), AT_HOME),
        cases(f"{DOOR}::test_a_name_that_leads_inward_is_not_dialled", "a router of 6to4's | a server of Teredo's"),
    ),
    Guard(
        "what an address carries is denied with it",
        (
            Removal(POLICY, "yield from map(str, carried(ip_address(host)))", "pass"),
            AT_HOME,
        ),
        (f"{DOOR}::test_an_address_that_is_denied_is_not_reached_by_a_form_that_carries_it",),
    ),
    Guard(
        "the address that was checked",
        (Removal(UPSTREAM, DIALS, "create_connection(Wire, host, port)"),),
        (f"{DOOR}::test_what_is_dialled_is_the_address_that_was_checked",),
    ),
    Guard(
        "the Host is written anew",
        (
            Removal(
                EXCHANGE,
                '(b"Host", self.meant.authority.encode())',
                '(b"Host", self.request.headers.all(b"host")[0])',
            ),
        ),
        (f"{DOOR}::test_a_host_in_another_spelling_arrives_in_its_one_form",),
    ),
    Guard(
        "the name of a handshake",
        (
            UNTRIED,
            Removal(
                PROXY,
                'return None if name is not None and name.lower().rstrip(".") == host else',
                "return None if True else",
            ),
        ),
        (f"{DOOR}::test_tls_for_another_name_than_the_connection_is_for_ends_in_its_handshake",),
    ),
)

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
