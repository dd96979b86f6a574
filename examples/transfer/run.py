"""Try the example whole: start both sites, and have a table carried from one to the other. Nothing else is left.

sudo .venv/bin/python examples/transfer/run.py [--out FOLDER] [--seed N]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import trial, website
from examples.transfer.sites import BOARD, SHOP, Board, BoardTalk, ShopTalk, stocked

HERE = Path(__file__).parent
QUARTER = ("2025", "Q3")
"""What the brief asks for."""


def main() -> int:
    """Work, then ask both sites whether they agree."""
    told = trial.parse_arguments("A table is downloaded from one site, added up, and uploaded to another.")
    shop, board = stocked(told.seed), Board()
    with trial.state_directory("transfer") as home:
        ca, chain = website.certify_hosts(home, SHOP, BOARD)
        with (
            website.serve_website(type("ShopTalking", (ShopTalk,), {"shop": shop}), chain) as shop_port,
            website.serve_website(type("BoardTalking", (BoardTalk,), {"board": board}), chain) as board_port,
        ):
            settings = website.format_door_settings(ca, {SHOP: shop_port, BOARD: board_port})
            worked = trial.run_brief(home, HERE, told, settings)
    agree = board.sums == shop.sums(*QUARTER)
    print(f"the shop was asked {len(shop.asked)} times, the board {len(board.asked)} times", file=sys.stderr)
    held = "as the shop has it" if agree else "NOT what the shop has"
    print(f"the board shows {sum(board.sums.values()) / 100:,.2f}, {held}", file=sys.stderr)
    return worked or int(not agree)


if __name__ == "__main__":
    sys.exit(main())
