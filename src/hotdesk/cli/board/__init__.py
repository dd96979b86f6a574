"""The live display of a job on a terminal.

How it works: `state.py` folds events into what is worth knowing now, `lines.py` gives one line for each event worth a
line, `area.py` lays out the live area as rows of spans, `cells.py` alone turns spans into what a terminal gets:
escaped, cut, coloured. `live.py` is the board itself; `receipt.py` is what is said at the end; `stream.py` is the same
for programs.
"""

from hotdesk.cli.board.live import Board as Board
from hotdesk.cli.board.receipt import format_receipt as format_receipt
from hotdesk.cli.board.state import ShownLimits as ShownLimits
from hotdesk.cli.board.stream import JsonLines as JsonLines
