"""Which guard stops which attack by way of a desk's screen, browser and viewers; as in `guards.py`."""

from __future__ import annotations

from tests.security.guards import Guard, Removal
from tests.security.test_reader_attacks import ATTEMPTS, CALLS

READER = "test_reader_attacks.py"
PROCESS = "hotdesk/hands/reader/process.py"

GUARDS_OF_HANDS: tuple[Guard, ...] = (
    Guard(
        "the reader's cell",
        (Removal(PROCESS, '    cell.enter(Path(settings["root"]), int(settings["uid"]), calls.READER)\n', ""),),
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
)
NO_GUARD_OF_HANDS = {
    f"{READER}::test_a_reader_uses_the_connection_it_is_handed": "a control: what a reader is for",
}
