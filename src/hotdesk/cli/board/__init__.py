"""The live display of a job on a terminal.

`state.py` folds events into the current state, `lines.py` formats one line for each event to be shown, `area.py` lays
out the live area as rows of spans, and only `cells.py` turns spans into terminal output: escaped, cut, coloured.
`live.py` is the board itself; `receipt.py` formats the receipt at the end; `stream.py` writes the same as JSON.
"""

from hotdesk.cli.board.live import Board as Board
from hotdesk.cli.board.receipt import format_receipt as format_receipt
from hotdesk.cli.board.state import ShownLimits as ShownLimits
from hotdesk.cli.board.stream import JsonLines as JsonLines
