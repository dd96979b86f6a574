"""Which guard stops which attack on secrets, on keys and on trust; as in `guards.py`."""

from __future__ import annotations

from tests.security.door_guards import UNTRIED
from tests.security.guards import Guard, Removal, each
from tests.security.test_secret_attacks import FOREIGN_BODIES, FOREIGN_HEADERS, FOREIGN_PARAMETERS, UNLISTED_HEADERS

SECRET, TRUST, KEYS = "test_secret_attacks.py", "test_trust_attacks.py", "test_keys_attacks.py"
PROCESS, CHARTER, TELLER = "hotdesk/keys/process.py", "hotdesk/keys/charter.py", "hotdesk/keys/token_command.py"
INJECT, SCRUB, EXCHANGE = "hotdesk/door/secrets/inject.py", "hotdesk/door/secrets/scrub.py", "hotdesk/door/exchange.py"
HEAD, BODY, WATCH, CLEAN = (
    f"hotdesk/door/secrets/{name}.py" for name in ("outgoing", "bodies", "upload_watch", "response")
)
LINE = "hotdesk/keys/peer.py"
WAY, DOOR, MINT, CA = (
    "hotdesk/door/egress.py",
    "hotdesk/door/process.py",
    "hotdesk/door/secrets/mint.py",
    "hotdesk/door/http/ca.py",
)
LOCAL, ANSWERS, AUDIT = "hotdesk/door/door_local.py", "hotdesk/door/denials.py", "hotdesk/drive/audit.py"

STRAY = f"{SECRET}::test_a_placeholder_reaches_no_host"
WRONG = f"{SECRET}::test_a_secret_is_put_in_nowhere_else"
BACK = f"{SECRET}::test_a_secret_does_not_come_back"
HOSTILE = f"{SECRET}::test_a_secret_does_not_come_back_from_a_hostile_host"
UNREADABLE = f"{SECRET}::test_an_answer_nobody_can_look_through_does_not_come_back"
PARTS = f"{SECRET}::test_a_granted_host_is_not_asked_for_parts_or_packings"
FOREIGN = f"{SECRET}::test_a_desk_brings_no_credentials_of_its_own"
BODIES_OF_OWN = f"{FOREIGN}_in_a_body"
FOREIGN_SOURCE = "hotdesk/door/secrets/foreign_credentials.py"
UPGRADE = f"{SECRET}::test_nothing_is_upgraded_where_a_secret_goes"
STRANGE = f"{KEYS}::test_a_strange_message_harms_nobody"
FORGED = f"{KEYS}::test_a_door_cannot_write_down_what_others_say"

HEADS = (
    "a header", "a header's name", "amid a header", "the path", "the path, escaped", "a parameter",
    "a parameter, escaped", "a parameter's name", "a cookie", "basic, as user", "basic, as password", "a handshake",
)  # fmt: skip
BODIES = ("a body", "a body of JSON", "a body in chunks")
SPLIT = ("a body split over chunks", "a body byte by byte")
PACKED = ("a body in gzip", "a body in gzip, in chunks")
STRAY_HOSTS = ("a.test", "b.test", "free.test")
LITERAL = (
    "a body, as it is", "a header, as it is", "a header's name", "a redirect", "a cookie", "a cookie no script reads",
    "an error page", "a refusal",
)  # fmt: skip
REVERSED = ("a body, reversed", "a header, reversed", "a redirect, reversed")
PACKINGS = ("gzip", "deflate", "brotli", "zstd", "gzip twice")


def everywhere(where: tuple[str, ...]) -> tuple[str, ...]:
    """Name the cases of a stray placeholder at every host."""
    return tuple(f"{STRAY}[{one}-{host}]" for one in where for host in STRAY_HOSTS)


def spelt(*how: str) -> tuple[str, ...]:
    """Name the cases of a secret that comes back in a spelling."""
    return tuple(f"{BACK}[{where}, {one}]" for one in how for where in ("a body", "a header"))


NO_STRAY = Removal(
    INJECT, "if marked and (refusal := stray(out, sent, uses, returned)):", "if marked and (refusal := None):"
)
NO_FOREIGN = Removal(
    INJECT,
    "foreign(sent, uses, returned, issued, allowed) if allowed is not None else frozenset()",
    "frozenset()",
)
UPGRADED = Removal(
    EXCHANGE,
    "if self.granted or self.allowed is not None:\n            raise ExchangeError(403, inject.NO_UPGRADE)",
    "if False:\n            pass",
)
ANY_UPGRADE = Removal(
    EXCHANGE, 'if self.request.upgrade != b"websocket":\n            raise', "if False:\n            raise"
)
ONCE = "if use is None or body.count(text) != 1:"
ANY_FIELD = Removal(BODY, ONCE, "if use is None:\n            continue\n        if False:")
SHUT_IN = Removal(PROCESS, "except Exception as e:  # noqa: BLE001 - a rim", "except ZeroDivisionError as e:  # no rim")

UNDERSTOOD_OF_DOORS = (
    "an event as wide as the line",
    "an event of another type",
    "fields of another type",
    "half a character",
    "events that are a number",
    "an event of an unknown desk",
    "use by what are no desks",
    "a value of no desk",
    "a value of no grant",
    "a value under no number",
    "a value under no number at all",
)
"""Messages in which a door asks for something, wrongly."""
IGNORED_OF_DOORS = (
    "nothing",
    "an unknown verb",
    "a verb of another type",
    "a desk of another type",
    "a desk that is a path",
    "a scope of another type",
    "a deadline that is none",
    "a deadline without end",
    "a number as wide as the line",
    "a number that is a tree",
    "half a character as passphrase",
    "an answer without a question",
    "a step of no desk",
    "use by nobody",
    "use as wide as the line",
)
"""Messages in which it asks for nothing a door may ask for."""
UNDERSTOOD_OF_OWNERS = (
    "nothing",
    "an unknown verb",
    "a verb of another type",
    "a desk of another type",
    "a desk that is a path",
    "a scope of another type",
    "a deadline that is none",
    "a deadline without end",
    "a number as wide as the line",
    "a number that is a tree",
    "an event as wide as the line",
    "an event of another type",
    "fields of another type",
    "half a character as passphrase",
    "an answer without a question",
    "events that are a number",
    "an event of an unknown desk",
    "use by nobody",
    "use as wide as the line",
    "use by what are no desks",
    "a value of no desk",
    "a value of no grant",
    "a value under no number",
    "a value under no number at all",
)

GUARDS_OF_SECRETS: tuple[Guard, ...] = (
    Guard(
        "no placeholder in a head but at its place",
        (NO_STRAY, NO_FOREIGN, UPGRADED),
        (
            *everywhere(HEADS),
            f"{SECRET}::test_a_placeholder_over_plain_http_is_refused",
            f"{SECRET}::test_a_placeholder_of_one_host_is_worthless_at_another",
            f"{SECRET}::test_a_placeholder_is_worthless_in_another_desk",
            *each(
                WRONG,
                "{}",
                (
                    "query, another path",
                    "query, another method",
                    "query, another parameter",
                    "query, twice",
                    "a header it has no place in",
                ),
            ),
        ),
    ),
    Guard(
        "no placeholder in a body that streams",
        (Removal(WATCH, "if PREFIX in data and (m :=", "if False and (m :="),),
        everywhere((*BODIES, *SPLIT, *PACKED)),
    ),
    Guard(
        "a placeholder cut by a piece's end is held back",
        (Removal(WATCH, "cut = begun(data)", "cut = len(data)"),),
        everywhere(SPLIT),
    ),
    Guard(
        "packed bodies are unpacked alongside",
        (Removal(WATCH, "self.inside = UploadWatcher(fields=fields) if reader else None", "self.inside = None"),),
        everywhere(PACKED),
    ),
    Guard(
        "alarms over placeholders",
        (Removal(EXCHANGE, "for sign in refusal.signs:", "for sign in ():"),),
        (f"{SECRET}::test_every_stray_placeholder_is_an_alarm",),
    ),
    Guard(
        "grants of another step are not held",
        (Removal(WAY, ' if live.held.grant.step in ("", self.step)]', "]"),),
        (
            f"{SECRET}::test_a_placeholder_is_worthless_after_its_step",
            f"{SECRET}::test_what_a_host_issued_ends_with_its_grant[another step]",
        ),
    ),
    Guard(
        "revoked grants are not held",
        (
            Removal(
                WAY,
                'self.live = {id: one for id, one in self.live.items() if gone not in ("", one.held.grant.secret)}',
                "pass",
            ),
        ),
        (
            f"{SECRET}::test_a_placeholder_is_worthless_once_revoked",
            f"{SECRET}::test_what_a_host_issued_ends_with_its_grant[revoked]",
        ),
    ),
    Guard(
        "grants end",
        (Removal(WAY, "return self.until is not None and time.time() >= self.until", "return False"),),
        (f"{SECRET}::test_a_placeholder_is_worthless_when_its_time_is_up",),
    ),
    Guard(
        "places are for one method and path",
        (Removal(HEAD, 'return place.method in ("", out.method) and place.path in ("", out.path)', "return True"),),
        each(
            WRONG,
            "{}",
            ("form, another path", "form, another method", "json, another path"),
        ),
    ),
    Guard(
        "places are for one field",
        (ANY_FIELD,),
        each(
            WRONG,
            "{}",
            (
                "form, another field",
                "form, amid a field",
                "form, a second field",
                "form, escaped",
                "json, another field",
                "json, as a key",
                "json, a second field",
            ),
        ),
    ),
    Guard(
        "a field is there once",
        (
            ANY_FIELD,
            Removal(BODY, "if PREFIX in value and times[name] > 1:", "if False:"),
            Removal(BODY, "loads(body, overflow=True)", "loads(body, duplicates=True, overflow=True)"),
        ),
        each(WRONG, "{}", ("form, twice", "json, twice")),
    ),
    Guard(
        "places are for one type of body",
        (Removal(BODY, 'len(types) == 1 and pattern.fullmatch(types[0].strip(b" \\t")):', "types:"),),
        each(WRONG, "{}", ("form, another type", "json, as text")),
    ),
    Guard(
        "no secret is put into a packed body",
        (
            Removal(
                INJECT, 'if made.whole and any(fold(n) == b"content-encoding"', 'if False and any(fold(name) == b""'
            ),
        ),
        each(WRONG, "{}", ("a body in gzip",)),
    ),
    Guard(
        "bodies that are held have a bound",
        (Removal(EXCHANGE, "if len(body) > BODY_LIMIT:", "if False:"),),
        (f"{SECRET}::test_a_body_too_large_to_look_through_gets_no_secret_and_a_reason",),
    ),
    Guard(
        "answers are looked through",
        (
            Removal(
                CLEAN,
                "self.active = granted or bool(scrubber.spelt)",
                "self.active = False",
            ),
            UNTRIED,
        ),
        (
            *each(BACK, "{}", LITERAL),
            *each(HOSTILE, "{}", ("split over chunks", "byte by byte", "a head in pieces", "the reason")),
            f"{HOSTILE}[until it hangs up]",
        ),
    ),
    Guard(
        "secrets reversed are seen",
        (Removal(SCRUB, "found = {value, value[::-1], ", "found = {value, "),),
        each(BACK, "{}", REVERSED),
    ),
    Guard(
        "secrets in hex are seen",
        (Removal(SCRUB, ", value.hex().encode(), value.hex().upper().encode()}", "}"),),
        spelt("hex", "hex in capitals"),
    ),
    Guard(
        "secrets in base64 are seen",
        (Removal(SCRUB, "for before in range(3):", "for before in ():"), UNTRIED),
        spelt("base64", "base64 after one byte", "base64 after two bytes", "base64 for addresses"),
    ),
    Guard(
        "escapes are undone",
        (Removal(SCRUB, "WAYS = (PERCENT, BACKSLASH, ENTITY)", "WAYS = ()"),),
        spelt(
            "percent",
            "percent, some",
            "JSON escapes",
            "JSON escapes, some",
            "x escapes",
            "entities",
            "entities in hex",
        ),
    ),
    Guard(
        "answers are unpacked",
        (Removal(CLEAN, "self.unpacker(answer, granted) if self.active else None", "None"),),
        (*each(BACK, "{}", PACKINGS), UNREADABLE),
    ),
    Guard(
        "no parts and no packings are asked for",
        (Removal(HEAD, " if not is_withheld(fold(name))]", "]"),),
        (PARTS,),
    ),
    Guard(
        "parts are asked for under no other name",
        (Removal(HEAD, """ or (b"range" in folded and folded not in UPLOADED)""", """ or folded == b"range\""""),),
        (f"{PARTS}[open.test]",),
    ),
    Guard(
        "no credentials of the desk's own",
        (NO_FOREIGN,),
        (
            *each(FOREIGN, "header {}", FOREIGN_HEADERS),
            *each(FOREIGN, "unlisted {}", UNLISTED_HEADERS),
            *each(FOREIGN, "parameter {}", FOREIGN_PARAMETERS),
            *each(FOREIGN, "{}", ("a basic header", "a cookie")),
        ),
    ),
    Guard(
        "headers nobody listed are left out",
        (Removal(FOREIGN_SOURCE, "            removed.add(name)\n", "            pass\n"),),
        each(FOREIGN, "unlisted {}", UNLISTED_HEADERS),
    ),
    Guard(
        "credentials are known by how their names end",
        (Removal(FOREIGN_SOURCE, "return CREDENTIAL_SHAPE.fullmatch(text) is not None", "return False"),),
        each(FOREIGN, "parameter {}", ("private_token", "acme-token", "user_password", "hapikey", "session[token]")),
    ),
    Guard(
        "bodies are looked into",
        (Removal(EXCHANGE, "if self.allowed is None or self.signed:", "if True:"),),
        each(BODIES_OF_OWN, "{}", FOREIGN_BODIES),
    ),
    Guard(
        "bodies a secret goes into are looked into",
        (Removal(EXCHANGE, "        self.check_fields(body)\n", ""),),
        each(BODIES_OF_OWN, "{}", ("where a secret goes", "in a secret's place")),
    ),
    Guard(
        "packed bodies are looked into",
        (Removal(WATCH, "self.inside = UploadWatcher(fields=fields) if reader", "self.inside = Watcher() if reader"),),
        each(BODIES_OF_OWN, "{}", ("JSON in gzip",)),
    ),
    Guard(
        "fields are found far behind and in other spellings",
        (
            Removal("hotdesk/door/secrets/credential_fields.py", "self.tail = data[-REACH:]\n", "self.kinds = ()\n"),
            Removal("hotdesk/door/secrets/credential_fields.py", 'data = data.replace(b"\\0", b"")', "return"),
        ),
        each(BODIES_OF_OWN, "{}", ("a form, far behind", "JSON, deep and far", "JSON in UTF-16")),
    ),
    Guard(
        "no new credentials",
        (Removal(INJECT, "if here and not minting_named and (what :=", "if False and (what :="),),
        (f"{SECRET}::test_no_new_credentials_are_made",),
    ),
    Guard(
        "no upgrade where a secret goes",
        (UPGRADED, ANY_UPGRADE),
        (UPGRADE, f"{SECRET}::test_an_upgrade_nobody_knows_is_refused_everywhere"),
    ),
    Guard(
        "what hosts issue is kept outside",
        (Removal(WAY, "if not fields:", "if True:"),),
        (f"{SECRET}::test_tokens_a_host_issues_stay_outside_and_go_back_to_it_alone",),
    ),
    Guard(
        "minted tokens are kept while they live",
        (Removal(MINT, "if live.minted and now < live.fresh_until:", "if False:"),),
        (f"{SECRET}::test_a_client_gets_its_token_once_and_anew_near_its_end",),
    ),
    Guard(
        "minted tokens are not kept beyond their life",
        (
            Removal(
                MINT,
                'live.fresh_until = min(now + max(life - MARGIN, life / 2), live.until or float("inf"))',
                "live.fresh_until = now + 3600",
            ),
        ),
        (f"{SECRET}::test_a_token_near_its_end_is_made_anew_and_none_is_an_error",),
    ),
    Guard(
        "programs that print tokens are the keys' user's",
        (Removal(TELLER, "if os.geteuid() == 0:", "if False:"),),
        (f"{SECRET}::test_a_program_that_prints_a_token_is_not_root",),
    ),
    Guard(
        "a leak ends the grant",
        (Removal(WAY, "for live in [live for id, live in self.live.items() if id in ids]:", "for live in []:"),),
        (f"{SECRET}::test_a_guess_that_another_host_tells_back_costs_the_grant",),
    ),
    Guard(
        "a desk is given placeholders",
        (
            Removal(
                CHARTER,
                "given = {one.grant.env: one.placeholder for one in self.granted if one.grant.env}\n",
                "given = {one.grant.env: one.placeholder for one in self.granted if one.grant.env}\n"
                '        given |= {f"X{one.id}": base64.b64decode(one.values["value"]).decode()\n'
                '                  for one in self.granted if "value" in one.values}\n',
            ),
        ),
        (
            f"{SECRET}::test_no_secret_is_in_the_desk",
            f"{SECRET}::test_owner_and_keeper_never_hold_a_secret",
        ),
    ),
    Guard(
        "parts have no environment but a path",
        (Removal("hotdesk/ipc/child.py", '{"PATH": os.defpath},', '{"PATH": os.defpath, "API_KEY": "x"},'),),
        (f"{SECRET}::test_the_hosts_environment_goes_to_nobody",),
    ),
    Guard(
        "words of a desk are made plain",
        (
            Removal(WAY, 'c if c.isascii() and c.isprintable() else "?" for c in reason[:REASON]', "reason[:REASON]"),
            Removal(
                "hotdesk/cli/machine/door.py", 'return printable(f"{moment(row.at)}', 'return str(f"{moment(row.at)}'
            ),
        ),
        (f"{SECRET}::test_what_a_desk_writes_into_the_log_is_plain",),
    ),
    Guard(
        "a head that is gone is missed",
        (Removal(AUDIT, "elif found is None:", "elif False:"),),
        (
            f"{SECRET}::test_the_journal_is_whole_after_all_this_and_a_cut_tail_shows",
            f"{KEYS}::test_the_journal_is_whole_after_all_that_and_a_cut_tail_shows",
        ),
    ),
    Guard(
        "hosts prove their names",
        (
            Removal(
                CA,
                "    context.hostname_checks_common_name = False\n",
                "    context.check_hostname = False\n    context.verify_mode = ssl.CERT_NONE\n",
            ),
        ),
        (
            f"{TRUST}::test_a_host_nobody_vouches_for_is_refused_with_the_reason",
            f"{TRUST}::test_a_host_with_anothers_certificate_is_refused_with_the_reason",
        ),
    ),
    Guard(
        "the key of an authority stays outside",
        (
            Removal(
                PROCESS,
                '"env": charter.environment(),',
                '"env": charter.environment() | {"CA": charter.authority.key_pem.decode().replace("\\n", " ")},',
            ),
        ),
        (f"{TRUST}::test_no_key_of_an_authority_is_in_a_desk",),
    ),
    Guard(
        "a leaf has one name",
        (
            Removal(
                CA,
                "x509.SubjectAlternativeName([general_name(host)])",
                'x509.SubjectAlternativeName([general_name(host), x509.DNSName("*.test")])',
            ),
        ),
        (f"{TRUST}::test_a_leaf_is_for_its_name_only_and_for_a_day_at_most",),
    ),
    Guard(
        "an authority of its own for every desk",
        (
            Removal(
                PROCESS,
                'else authority(desk, float(str(message["seconds"])))',
                "else next((one.authority for one in self.charters.values()), None) or "
                'authority(desk, float(str(message["seconds"])))',
            ),
        ),
        (f"{TRUST}::test_one_desks_authority_is_worth_nothing_in_another",),
    ),
    Guard(
        "a new door is told what the old one was",
        (
            Removal(
                PROCESS,
                "for charter in self.charters.values():\n                line.tell(",
                "for charter in ():\n                line.tell(",
            ),
        ),
        (f"{TRUST}::test_a_door_that_dies_comes_back_with_the_same_authority_and_grants",),
    ),
    Guard(
        "changes that doors have made",
        (Removal(PROCESS, 'min((door.seen for door in self.to("door")), default=self.mark)', "self.mark"),),
        each(f"{KEYS}::test_a_change_is_answered_when_every_door_has_made_it", "{}", ("step", "revoke")),
    ),
    Guard(
        "doors that are gone make no change",
        (Removal(PROCESS, "            self.lines.remove(line)\n            self.settle()\n", "            pass\n"),),
        (f"{KEYS}::test_a_door_that_is_gone_keeps_no_change_waiting",),
    ),
    Guard(
        "what a door ended stays ended",
        (Removal(PROCESS, "if isinstance(event, Revoked) and event.desk in self.charters:\n", "if False:\n"),),
        (
            f"{TRUST}::test_a_grant_lost_to_a_guess_is_not_back_with_the_next_door",
            f"{KEYS}::test_a_grant_the_door_ended_stays_ended_for_the_next_door",
            f"{KEYS}::test_a_door_cannot_end_what_belongs_to_another_desk",
        ),
    ),
    Guard(
        "a door without keys is shut",
        (Removal(DOOR, "way.shut = NO_KEYS", 'way.shut = ""'),),
        (f"{TRUST}::test_without_keys_nothing_passes_and_the_desk_is_told_why",),
    ),
    Guard(
        "a door without its resolver ends",
        (Removal(DOOR, "if self.upstreams.resolver.gone:", "if False:"),),
        (f"{TRUST}::test_a_resolver_that_dies_is_replaced",),
    ),
    Guard(
        "a denial says what else there is",
        (Removal(ANSWERS, '"allowed": list(allowed)', '"allowed": []'),),
        (f"{TRUST}::test_a_denial_says_what_by_which_rule_what_else_and_how_to_ask",),
    ),
    Guard(
        "a header no page can send",
        (Removal(LOCAL, "if request.headers.get(ASK_HEADER) is None:", "if False:"),),
        (f"{TRUST}::test_a_page_cannot_ask_in_the_desks_name",),
    ),
    Guard(
        "few questions at once",
        (Removal(WAY, "if len(self.questions) >= ASKS or len", "if len"),),
        (f"{TRUST}::test_a_desk_asks_eight_things_at_once_and_no_more",),
    ),
    Guard(
        "few questions an hour",
        (Removal(WAY, " or len(self.asked) >= ASKS_AN_HOUR:", ":"),),
        (f"{TRUST}::test_a_desk_asks_so_much_an_hour_and_no_more",),
    ),
    Guard(
        "approved is a digest",
        (Removal(WAY, " and secrets.compare_digest(asked, mark):", ":"),),
        (f"{TRUST}::test_what_is_approved_is_the_rule_that_was_asked_and_once",),
    ),
    Guard(
        "an owner answers its own user only",
        (
            Removal(
                "hotdesk/desk/owner/control.py", "if self.everyone or peer(sock)[1] in (os.geteuid(), 0):", "if True:"
            ),
            Removal("hotdesk/linux/sockets.py", "os.chmod(fresh, mode)", "os.chmod(fresh, 0o666)"),
        ),
        (f"{TRUST}::test_another_user_of_the_machine_reaches_nothing",),
    ),
    Guard(
        "a door does not answer questions",
        (Removal(PROCESS, ' or (isinstance(event, Answered) and event.answer != "expired")', ""),),
        each(FORGED, "{}", ("an approval", "a refusal")),
    ),
    Guard(
        "a line says what it may",
        (
            Removal(
                PROCESS,
                '"door": (Exchange, Alarm, Revoked, Asked, Answered),',
                '"door": (Exchange, Alarm, Revoked, Asked, Answered, RootAct, Proven, Burnt, Opened),',
            ),
        ),
        each(FORGED, "{}", ("a root act", "a proof", "an end", "an opening")),
    ),
    Guard(
        "answers have a bound",
        (
            Removal(
                LINE,
                "        except FrameError:\n            self.cut = True\n",
                "        finally:\n            pass\n",
            ),
            Removal(PROCESS, "str(known)[:REASON]", "str(known)"),
            Removal(PROCESS, "re=number if isinstance(number, int) else None, error", "re=number, error"),
        ),
        (
            *each(STRANGE, "an event as wide as the line-{}", ("door", "owner")),
            f"{STRANGE}[a number as wide as the line-owner]",
        ),
    ),
    Guard(
        "a rim around every message",
        (SHUT_IN,),
        (*each(STRANGE, "{}-door", UNDERSTOOD_OF_DOORS), *each(STRANGE, "{}-owner", UNDERSTOOD_OF_OWNERS)),
    ),
    Guard(
        "a door tells of its own desks",
        (Removal(PROCESS, "if chain_of(event) not in self.known:", "if False:"),),
        (f"{KEYS}::test_a_door_cannot_tell_of_a_desk_its_keeper_never_had",),
    ),
    Guard(
        "a garbled line is cut",
        (Removal(LINE, "except (OSError, FrameError):", "except OSError:"),),
        (f"{KEYS}::test_a_line_that_is_garbled_is_cut_and_no_other",),
    ),
    Guard(
        "values are asked for under numbers of keys' own",
        (
            Removal(
                PROCESS,
                "            self.ask_teller(argv_of(secret.bytes()), heard)\n",
                "            self.number = number - 1\n            self.ask_teller(argv_of(secret.bytes()), heard)\n",
            ),
        ),
        (f"{KEYS}::test_a_door_that_asks_twice_under_one_number_gets_two_answers",),
    ),
    Guard(
        "few programs wait",
        (Removal(PROCESS, "if len(self.printing) >= PRINTING:", "if False:"),),
        (f"{KEYS}::test_a_door_that_asks_for_ever_more_values_stops_nobody",),
    ),
    Guard(
        "a full share is told",
        (Removal(PROCESS, 'if actor == "owner":\n                raise', "if False:\n                raise"),),
        (f"{KEYS}::test_a_desk_that_fills_its_share_has_no_root_act_unwritten",),
    ),
    Guard(
        "approved is true and nothing else",
        (Removal(PROCESS, 'if message.get("approved") is True', 'if message.get("approved")'),),
        (f"{KEYS}::test_an_answer_to_another_rule_than_was_asked_is_told_as_such",),
    ),
)

MUST = "it must pass: that what is granted works"
FRAMED = "the door writes the end of every body itself, and has nowhere to put what else was said"
NO_GUARD_OF_SECRETS: dict[str, str] = {
    f"{SECRET}::test_a_secret_is_put_in_where_its_grant_says": MUST,
    f"{SECRET}::test_a_one_time_code_is_made_for_its_use": MUST,
    f"{SECRET}::test_a_secret_put_in_the_vault_later_works_at_once": MUST,
    f"{SECRET}::test_a_secret_that_is_not_there_opens_nothing": "there is no value that could be given",
    f"{SECRET}::test_a_placeholder_in_a_trailer_is_left_out": FRAMED,
    **dict.fromkeys(
        each(
            HOSTILE,
            "{}",
            ("an interim answer", "a trailer", "an extension of a chunk", "more than it said", "a second answer"),
        ),
        FRAMED,
    ),
    f"{SECRET}::test_what_ordinary_clients_send_arrives": MUST,
    f"{FOREIGN}[a header of a proxy]": "it concerns one connection only, and is left out with all that does",
    f"{FOREIGN}[a user in the address]": "it is no address at all to whoever reads targets",
    f"{SECRET}::test_a_header_named_as_one_of_the_hop_does_not_take_the_secret_out": (
        "the secret is put in after what the desk named is gone"
    ),
    f"{SECRET}::test_no_secret_is_in_the_journal_or_what_shows_it": "no event has a field for a value",
    f"{SECRET}::test_variables_a_desk_was_given_are_not_written_down": "no event has a field for a variable",
    f"{TRUST}::test_the_policy_stands_before_the_first_program_and_through_a_pause": (
        "a gate without a charter admits nothing; what denies with one is the policy, attacked elsewhere"
    ),
    **dict.fromkeys(each(STRANGE, "{}-door", IGNORED_OF_DOORS), "nothing in it is anything a door can ask for"),
    f"{STRANGE}[half a character-owner]": "it is written down as what it is, in plain ASCII",
    f"{STRANGE}[a step of no desk-owner]": "it is done, and concerns no desk",
    f"{SECRET}::test_whoever_holds_secrets_leaves_no_core_and_no_memory_to_read": (
        "the keeper's own limit is inherited, and whoever changes its user cannot be dumped"
    ),
    f"{KEYS}::test_a_door_may_say_that_a_question_went_unanswered": "it must pass: doors say what expired",
}
