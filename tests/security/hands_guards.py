"""Which guard stops which attack by way of a desk's screen, browser and viewers; as in `guards.py`."""

from __future__ import annotations

from tests.security.guards import Guard, Removal
from tests.security.test_reader_attacks import ATTEMPTS, CALLS

READER = "test_reader_attacks.py"
HANDS = "test_hands_attacks.py"
PROCESS = "hotdesk/hands/reader/process.py"
RFB = "hotdesk/hands/reader/rfb.py"
RELAY = "hotdesk/hands/reader/relay.py"
WEB = "hotdesk/hands/page/server.py"
LIES = f"{HANDS}::test_a_screen_that_lies_shows_nothing"

GUARDS_OF_HANDS: tuple[Guard, ...] = (
    Guard(
        "the reader's cell",
        (
            Removal(
                PROCESS,
                '    jail.enter(Path(settings["root"]), int(settings["uid"]), bpf.READER, leashed=True)\n',
                "",
            ),
        ),
        (
            *(f"{READER}::test_a_turned_reader_reaches_nothing[{attempt}]" for attempt in ATTEMPTS),
            *(f"{READER}::test_a_turned_reader_cannot_make_calls_it_has_no_use_for[{call}]" for call in CALLS),
            f"{READER}::test_a_turned_reader_is_nobody_and_cannot_be_looked_into",
        ),
    ),
    Guard(
        "memory a reader may have",
        (Removal(PROCESS, "    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))\n", ""),),
        (f"{READER}::test_a_turned_reader_cannot_fill_the_machine",),
    ),
    Guard(
        "readers that are stuck",
        (Removal(PROCESS, "            signal.setitimer(signal.ITIMER_REAL, self.stuck)\n", ""),),
        (f"{READER}::test_a_reader_that_is_stuck_is_ended",),
    ),
    Guard(
        "readers on a leash",
        (Removal(PROCESS, "bpf.READER, leashed=True)", "bpf.READER)"),),
        (f"{READER}::test_a_turned_reader_dies_with_its_keeper",),
    ),
    Guard(
        "readers that end with their owner",
        (
            Removal(
                PROCESS, '        """End with the owner."""\n        self.reader.over.set()\n', '        """Stay."""\n'
            ),
        ),
        (f"{READER}::test_a_reader_ends_with_its_owner",),
    ),
    Guard(
        "a rim around what hostile bytes find",
        (
            Removal(
                PROCESS, "        except Exception as e:  # noqa: BLE001 - a rim", "        except KeyError as e:  #"
            ),
        ),
        (f"{READER}::test_what_breaks_a_verb_breaks_nothing_else",),
    ),
    Guard(
        "descriptors a reader may have",
        (Removal(PROCESS, "    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))\n", ""),),
        (f"{READER}::test_a_turned_reader_cannot_fill_the_kernel",),
    ),
    Guard(
        "a version of RFB",
        (
            Removal(
                RFB,
                "        if (version := (yield from take(len(VERSION)))) != VERSION:\n",
                "        if not (version := (yield from take(len(VERSION)))):\n",
            ),
        ),
        (f"{LIES}[speaks another version]",),
    ),
    Guard(
        "no password of a screen's",
        (
            Removal(
                RFB,
                "        if NO_SECURITY not in (yield from take(count)):\n",
                "        if not (yield from take(count)):\n",
            ),
        ),
        (f"{LIES}[asks for a password]",),
    ),
    Guard(
        "one size of a screen",
        (Removal(RFB, "        if (width, height) != (self.width, self.height):\n", "        if not width:\n"),),
        (f"{LIES}[is of another size]",),
    ),
    Guard(
        "short names of screens",
        (Removal(RFB, "LONGEST_NAME = 1 << 10\n", "LONGEST_NAME = 1 << 30\n"),),
        (f"{LIES}[has a name of megabytes]",),
    ),
    Guard(
        "messages of screens that are known",
        (
            Removal(
                RFB,
                '                    raise Strange(f"the screen sends a message of type {kind}")\n',
                "                    kind\n",
            ),
        ),
        (f"{LIES}[sends a message nobody knows]",),
    ),
    Guard(
        "raw pixels only",
        (Removal(RFB, "        if encoding != 0:\n", "        if encoding < 0:\n"),),
        (f"{LIES}[sends what was not asked for]",),
    ),
    Guard(
        "pixels within the screen",
        (
            Removal(
                RFB,
                "        if rectangle.x + rectangle.width > self.width or ",
                "        if ",
            ),
        ),
        (f"{LIES}[paints outside itself]",),
    ),
    Guard(
        "where a browser is spoken to",
        (Removal("hotdesk/hands/reader/websocket.py", "    if not PATH.fullmatch(path):\n", "    if not path:\n"),),
        (f"{HANDS}::test_a_browser_cannot_have_others_called",),
    ),
    Guard(
        "messages of browsers that are short",
        (Removal("hotdesk/hands/reader/websocket.py", "max_size=LONGEST_MESSAGE)", "max_size=None)"),),
        (f"{HANDS}::test_a_browser_cannot_send_without_measure",),
    ),
    Guard(
        "turns between two sides",
        (
            Removal(
                "hotdesk/hands/reader/view.py",
                "    await anyio.lowlevel.checkpoint()\n    return await sockets",
                "    return await sockets",
            ),
        ),
        (f"{HANDS}::test_a_screen_that_never_pauses_does_not_hold_up_its_reader",),
    ),
    Guard(
        "no clipboard of a desk's",
        (
            Removal(
                RELAY,
                "                case ServerMessage.CUT_TEXT:\n"
                '                    self.drop_text(int.from_bytes((yield 7)[3:], "big", signed=True))\n',
                "                case ServerMessage.CUT_TEXT:\n"
                "                    told = yield 7\n"
                "                    self.out += bytes([3]) + told\n"
                '                    self.passing = int.from_bytes(told[3:], "big")\n',
            ),
        ),
        (f"{HANDS}::test_no_clipboard_comes_out_of_a_desk",),
    ),
    Guard(
        "no clipboard of a person's",
        (
            Removal(
                RELAY,
                "                case Person.PASTE:\n"
                '                    self.drop_text(int.from_bytes((yield 7)[3:], "big", signed=True))\n',
                "                case Person.PASTE:\n"
                "                    told = yield 7\n"
                "                    self.out += bytes([6]) + told\n"
                '                    self.passing = int.from_bytes(told[3:], "big")\n',
            ),
        ),
        (f"{HANDS}::test_no_clipboard_comes_into_a_desk",),
    ),
    Guard(
        "input only from who drives",
        (
            Removal(
                RELAY,
                "        if not self.driving:\n            return\n        buttons = told[0]\n",
                "        buttons = told[0]\n",
            ),
        ),
        (f"{HANDS}::test_who_only_looks_moves_and_presses_nothing",),
    ),
    Guard(
        "tools while a person drives",
        (
            Removal(
                "hotdesk/hands/screen/takeover.py",
                "        if self.holder is None:\n            return None\n        seconds",
                "        if self.holder is None or self.holder:\n            return None\n        seconds",
            ),
        ),
        (f"{HANDS}::test_programs_stand_still_and_tools_are_refused_while_a_person_drives",),
    ),
    Guard(
        "programs while a person drives",
        (
            Removal(
                "hotdesk/desk/keeper/operations.py",
                "room.cgroup.hush([pid for pid in room.cgroup.loud() if",
                "room.cgroup.hush([pid for pid in () if",
            ),
        ),
        (f"{HANDS}::test_programs_stand_still_and_tools_are_refused_while_a_person_drives",),
    ),
    Guard(
        "titles that are none",
        (Removal("hotdesk/hands/screen/takeover.py", "for words in told if len(words) == 4)", "for words in told)"),),
        (f"{HANDS}::test_a_window_without_a_title_keeps_nobody_from_driving",),
    ),
    Guard(
        "readers that are dismissed",
        (
            Removal(
                "hotdesk/desk/keeper/readers.py",
                "            os.kill(self.pids[name], signal.SIGKILL)",
                "            pass",
            ),
        ),
        (f"{HANDS}::test_a_reader_that_does_not_end_by_itself_is_ended_with_its_seat",),
    ),
    Guard(
        "an owner that outlives its readers",
        (
            Removal(
                "hotdesk/hands/screen/reader_client.py",
                "        except (OSError, ReaderProtocolError) as e:  # also a reset",
                "        except KeyError as e:  #",
            ),
        ),
        (f"{HANDS}::test_a_reader_that_says_nonsense_takes_its_owner_nowhere",),
    ),
    Guard(
        "who may use a page",
        (
            Removal(
                WEB,
                "        if origin != ours and (origin is not None or needs_origin):\n            return None\n",
                "        assert ours and (origin or needs_origin or True)\n",
            ),
            Removal(WEB, 'if request.headers.get("host") != self.host:', "if not self.host:"),
        ),
        (f"{HANDS}::test_a_page_is_nobodys_who_comes",),
    ),
    Guard(
        "handles that begin one stream",
        (
            Removal(
                "hotdesk/hands/page/login.py",
                'self.handles.pop(handle, ("", 0.0))',
                'self.handles.get(handle, ("", 0.0))',
            ),
        ),
        (f"{HANDS}::test_a_handle_begins_one_stream",),
    ),
    Guard(
        "a rim around each browser",
        (
            Removal(WEB, "        except* Exception:  # noqa: BLE001, S110 - a rim", "        except* OSError:  #"),
            Removal(WEB, 'request.path.removeprefix("/").partition("/")[0]', 'request.path.split("/")[1]'),
        ),
        (f"{HANDS}::test_no_request_ends_a_page",),
    ),
    Guard(
        "browsers that break off",
        (Removal(WEB, "        except* Exception:  # noqa: BLE001, S110 - a rim", "        except* OSError:  #"),),
        (f"{HANDS}::test_a_browser_that_breaks_off_ends_no_page",),
    ),
    Guard(
        "bounded searches in what managers say",
        (Removal("hotdesk/hands/packages.py", r"/\S{0,300}\s{1,3}403", r"/\S*\s+403"),),
        (f"{HANDS}::test_what_a_package_manager_says_is_searched_in_a_moment",),
    ),
)
NO_GUARD_OF_HANDS = {
    f"{HANDS}::test_a_screen_that_tells_the_truth_is_seen": "a control: the lies are one point each",
    f"{READER}::test_a_reader_uses_the_connection_it_is_handed": "a control: what a reader is for",
}
