"""Try the example whole: a shop runs, the brief is carried out, and another process says yes or no to its one order.

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
from examples.order.shop import HOST, ORDERS, Shop, serving

HERE = Path(__file__).parent


def main() -> int:
    """Work, answer, then ask the shop what came of it."""
    told = trial.parse_arguments("What runs low is ordered, once a person said yes.", refuse="the person says no")
    with trial.state_directory("order") as home:
        brief = home / "brief"
        brief.mkdir()
        for name in ("brief.toml", "brain.py"):
            shutil.copy(HERE / name, brief)
        storeroom.write(brief / "storeroom.csv", told.seed)
        with serving(home, secrets.token_urlsafe(32), told.seed) as shop:
            right = answers(told.seed, told.refuse)
            code = trial.run_with_answers(brief, told, prepared(home, shop), right)
    for method, path, status in shop.asked:
        trial.print_status(f"the shop was asked: {method} {path}, and said {status}")
    kept = told.out / "confirmation.json"
    held = judged(shop, told.seed, told.refuse, kept.read_bytes() if kept.exists() else None)
    placed = ", ".join(str(each["order"]) for each in shop.orders) or "no order"
    trial.print_status(f"the shop has {placed}" + ("" if held else ", which is NOT what was to come of it"))
    return int(not held or code != (1 if told.refuse else 0))


def prepared(home: Path, shop: Shop) -> dict[str, str]:
    """Give the variables of a state directory whose vault has the token, and whose door knows the shop."""
    env = {**os.environ, "HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(config.load().images)}
    (home / "etc").mkdir()
    (home / "etc/config.toml").write_text(website.format_door_settings(shop.ca, {HOST: shop.port}))
    argv = [*trial.HOTDESK, "vault", "set", "shop-token"]
    subprocess.run(argv, env=env, input=shop.token.encode(), check=True, stdout=subprocess.DEVNULL)
    return env


def answers(seed: int, refuse: bool) -> trial.Approves:
    """Give what the person does: the plan may be, and so may an order of that sum, unless it is the day for a no."""
    address = f"{ORDERS}{storeroom.total(seed) / 100:.2f}"

    def right(asked: str) -> bool:
        card = json.loads(asked)
        if card["kind"] == "plan":
            return True
        return not refuse and (card.get("host"), card.get("method"), card.get("path")) == (HOST, "POST", address)

    return right


def judged(shop: Shop, seed: int, refuse: bool, confirmation: bytes | None) -> bool:
    """Say whether the shop has what it should, and the person what the shop said: asked once in any case."""
    posts = [path for method, path, _ in shop.asked if method == "POST"]
    if refuse:
        return not shop.orders and not posts and confirmation is None
    if len(shop.orders) != 1 or len(posts) != 1 or confirmation is None:
        return False
    return shop.orders[0]["packs"] == storeroom.wanted(seed) and json.loads(confirmation) == shop.orders[0]


if __name__ == "__main__":
    sys.exit(main())
