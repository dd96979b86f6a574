"""Two test sites: a shop that exports orders as CSV, and a board that shows sums as bars."""

from __future__ import annotations

import csv
import io
import json
import random
from collections import defaultdict
from dataclasses import dataclass, field
from email import message_from_bytes
from html import escape
from urllib.parse import parse_qs, urlsplit

from examples.website import SiteHandler

SHOP, BOARD = "shop.example.test", "board.example.test"
YEARS, QUARTERS = ("2024", "2025"), ("Q1", "Q2", "Q3", "Q4")
REGIONS = ("East", "North", "South", "West")
PAGE = """<!doctype html><meta charset=utf-8><title>{title}</title><link rel=icon href=data:,>
<style>body {{ margin: 40px; font: 16px sans-serif }} td, th {{ padding: 4px 16px; text-align: right }}</style>
<h1>{title}</h1>{body}"""
EXPORT = """<form action=/export>
<p><label>Year <select name=year>{years}</select></label>
<p><label>Quarter <select name=quarter>{quarters}</select></label>
<p><button>Download</button></form>"""
UPLOAD = """<form method=post action=/upload enctype=multipart/form-data>
<p><label>Table <input type=file name=table></label>
<p><button>Upload</button></form>"""
DASHBOARD = """<canvas width=720 height=320></canvas><table>{rows}<tr><th>All<td>{total}</table>
<script>
const sums = {sums}, pen = document.querySelector("canvas").getContext("2d");
const most = Math.max(...Object.values(sums));
pen.font = "16px sans-serif";
pen.textAlign = "center";
Object.entries(sums).forEach(([region, sum], place) => {{
  const x = 20 + place * 180, height = Math.round(240 * sum / most);
  pen.fillStyle = "#1f6feb";
  pen.fillRect(x, 280 - height, 140, height);
  pen.fillStyle = "#1d2733";
  pen.fillText(sum.toFixed(2), x + 70, 272 - height);
  pen.fillText(region, x + 70, 302);
}});
</script>"""


@dataclass(frozen=True, slots=True)
class Order:
    """One order."""

    number: int
    year: str
    quarter: str
    region: str
    quantity: int
    cents: int
    """The price of one piece."""


@dataclass
class Shop:
    """A shop with orders."""

    orders: tuple[Order, ...]
    requests: list[str] = field(default_factory=list)
    """The path of every request."""

    def sums(self, year: str, quarter: str) -> dict[str, int]:
        """Add a quarter up by region, in cents."""
        sums: defaultdict[str, int] = defaultdict(int)
        for order in self.list_orders(year, quarter):
            sums[order.region] += order.quantity * order.cents
        return dict(sums)

    def list_orders(self, year: str, quarter: str) -> list[Order]:
        """List the orders of a quarter."""
        return [order for order in self.orders if (order.year, order.quarter) == (year, quarter)]


@dataclass
class Board:
    """A board with sums."""

    sums: dict[str, int] = field(default_factory=dict)
    """The sums uploaded last, by region, in cents."""
    requests: list[str] = field(default_factory=list)


def generate_shop(seed: int) -> Shop:
    """Generate a shop with some orders of each region in each quarter."""
    chance = random.Random(seed)  # noqa: S311 - the same seed gives the same orders
    kinds = [(year, quarter, region) for year in YEARS for quarter in QUARTERS for region in REGIONS]
    several = [kind for kind in kinds for _ in range(chance.randint(3, 9))]
    chance.shuffle(several)
    return Shop(
        tuple(
            Order(number, *kind, chance.randint(1, 40), chance.randint(100, 20_000))
            for number, kind in enumerate(several, 1001)
        )
    )


class ShopHandler(SiteHandler):
    """Shows two lists to choose from, and exports the chosen orders."""

    shop: Shop

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Show the page, or send the file."""
        self.shop.requests.append(self.path)
        url = urlsplit(self.path)
        if url.path == "/":
            years, quarters = ("".join(f"<option>{each}" for each in of) for of in (YEARS, QUARTERS))
            body = EXPORT.format(years=years, quarters=quarters)
            self.send(200, PAGE.format(title="Orders", body=body).encode())
        elif url.path == "/export":
            form = {name: values[0] for name, values in parse_qs(url.query).items()}
            self.export(form.get("year", ""), form.get("quarter", ""))
        else:
            self.send(404, b"there is no such page")

    def export(self, year: str, quarter: str) -> None:
        """Send a quarter as CSV."""
        text = io.StringIO()
        table = csv.writer(text)
        table.writerow(("Order", "Region", "Quantity", "Price"))
        for order in self.shop.list_orders(year, quarter):
            table.writerow((order.number, order.region, order.quantity, f"{order.cents / 100:.2f}"))
        kind = (
            ("Content-Type", "text/csv"),
            ("Content-Disposition", f"attachment; filename=orders-{year}-{quarter}.csv"),
        )
        self.send(200, text.getvalue().encode(), *kind)


class BoardHandler(SiteHandler):
    """Takes a table of sums, and draws it."""

    board: Board

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Show the form, or the dashboard."""
        self.board.requests.append(self.path)
        pages = {"/": ("Board", UPLOAD), "/dashboard": ("Sums by region", self.dashboard())}
        title, body = pages.get(self.path, ("There is no such page", ""))
        self.send(200 if body else 404, PAGE.format(title=title, body=body).encode())

    def do_POST(self) -> None:  # noqa: N802
        """Take a table."""
        self.board.requests.append(self.path)
        kind = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        [_, part, *_] = message_from_bytes(kind + self.read_body()).walk()
        table = csv.DictReader(io.StringIO(str(part.get_payload())))
        self.board.sums = {row["Region"]: round(float(row["Total"]) * 100) for row in table}
        self.send(303, b"", ("Location", "/dashboard"))

    def dashboard(self) -> str:
        """Draw the sums: as bars by a script of the page, and as a table."""
        sums = self.board.sums
        rows = "".join(f"<tr><th>{escape(region)}<td>{cents / 100:.2f}" for region, cents in sums.items())
        shown = json.dumps({region: cents / 100 for region, cents in sums.items()}).replace("<", "\\u003c")
        return DASHBOARD.format(rows=rows, total=f"{sum(sums.values()) / 100:.2f}", sums=shown)
