"""Which guard stops which attack on secrets, on keys and on trust; as in `guards.py`."""

from __future__ import annotations

from tests.security.guards import Guard, Removal, each

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
