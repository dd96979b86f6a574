"""Run the example: a shop runs, the brief is carried out, and another process approves or refuses its order.

sudo .venv/bin/python examples/order/run.py [--refuse] [--out FOLDER] [--seed N]
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

from hotdesk import config

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import trial, website
from examples.order import storeroom
from examples.order.shop import HOST, ORDERS, Shop, serve_shop

HERE = Path(__file__).parent


def main() -> int:
    """Carry out the brief, answer its request, and compare the shop's orders with the truth."""
    options = trial.parse_arguments(
        "Order what runs low, after approval by a person.", refuse="the person refuses the order"
    )
    with trial.state_directory("order") as home:
        brief = home / "brief"
        brief.mkdir()
        for name in ("brief.toml", "brain.py"):
            shutil.copy(HERE / name, brief)
        storeroom.write(brief / "storeroom.csv", options.seed)
        with serve_shop(home, secrets.token_urlsafe(32), options.seed) as shop:
            approves = make_person(options.seed, options.refuse)
            code = trial.run_with_answers(brief, options, prepare(home, shop), approves)
    for method, path, status in shop.requests:
        trial.print_status(f"the shop got {method} {path} and answered {status}")
    file = options.out / "confirmation.json"
    is_right = judge(shop, options.seed, options.refuse, file.read_bytes() if file.exists() else None)
    placed = ", ".join(str(each["order"]) for each in shop.orders) or "no order"
    trial.print_status(f"the shop has {placed}" + ("" if is_right else ", which is WRONG"))
    return int(not is_right or code != (1 if options.refuse else 0))


def prepare(home: Path, shop: Shop) -> dict[str, str]:
    """Put the token into the vault and the shop into the door's settings; return the environment for `hotdesk`."""
    env = {**os.environ, "HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(config.load().images)}
    (home / "etc").mkdir()
    (home / "etc/config.toml").write_text(website.format_door_settings(shop.ca, {HOST: shop.port}))
    argv = [*trial.HOTDESK, "vault", "set", "shop-token"]
    subprocess.run(argv, env=env, input=shop.token.encode(), check=True, stdout=subprocess.DEVNULL)
    return env


def make_person(seed: int, refuse: bool) -> trial.Approves:
    """Return a person who approves the plan and, unless `refuse`, an order with the right sum."""
    address = f"{ORDERS}{storeroom.compute_total(seed) / 100:.2f}"

    def approves(request: str) -> bool:
        card = json.loads(request)
        if card["kind"] == "plan":
            return True
        return not refuse and (card.get("host"), card.get("method"), card.get("path")) == (HOST, "POST", address)

    return approves


def judge(shop: Shop, seed: int, refuse: bool, confirmation: bytes | None) -> bool:
    """Return whether the shop got the right order exactly once, and the confirmation is its own; none if refused."""
    posts = [path for method, path, _ in shop.requests if method == "POST"]
    if refuse:
        return not shop.orders and not posts and confirmation is None
    if len(shop.orders) != 1 or len(posts) != 1 or confirmation is None:
        return False
    return shop.orders[0]["packs"] == storeroom.compute_order(seed) and json.loads(confirmation) == shop.orders[0]


if __name__ == "__main__":
    sys.exit(main())
