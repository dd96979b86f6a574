"""Run the example: start both sites, and transfer a table from one to the other.

sudo .venv/bin/python examples/transfer/run.py [--out FOLDER] [--seed N]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import trial, website
from examples.transfer.sites import BOARD, SHOP, Board, BoardHandler, ShopHandler, generate_shop

HERE = Path(__file__).parent
QUARTER = ("2025", "Q3")
"""The quarter that the brief names."""


def main() -> int:
    """Carry out the brief, and compare the two sites."""
    options = trial.parse_arguments("Download a table from one site, add it up, and upload the sums to another.")
    shop, board = generate_shop(options.seed), Board()
    with trial.state_directory("transfer") as home:
        ca, chain = website.certify_hosts(home, SHOP, BOARD)
        with (
            website.serve_website(type("Shop", (ShopHandler,), {"shop": shop}), chain) as shop_port,
            website.serve_website(type("Board", (BoardHandler,), {"board": board}), chain) as board_port,
        ):
            settings = website.format_door_settings(ca, {SHOP: shop_port, BOARD: board_port})
            worked = trial.run_brief(home, HERE, options, settings)
    agree = board.sums == shop.sums(*QUARTER)
    print(f"the shop got {len(shop.requests)} requests, the board {len(board.requests)}", file=sys.stderr)
    comparison = "as the shop has it" if agree else "NOT what the shop has"
    print(f"the board shows {sum(board.sums.values()) / 100:,.2f}, {comparison}", file=sys.stderr)
    return worked or int(not agree)


if __name__ == "__main__":
    sys.exit(main())
