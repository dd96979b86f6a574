"""The reference solution, a written script: read prices and rates, calculate, draw, make the deck."""

from __future__ import annotations

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

COLLECT = """import csv
import re
from pathlib import Path
from urllib.request import urlopen

ALTO, BOREALIS = "https://alto.example.test/pricing", "https://borealis.example.test/partners/prices"
CIRRUS, RATES = "https://cirrus.example.test/plans", "https://rates.example.test/eur"


def fetch(address):
    with urlopen(address, timeout=30) as reply:
        return reply.read().decode()


seats = int(re.search(r"for (\\d+) users", Path("TASK.md").read_text())[1])
text = fetch(ALTO)
price, discount = float(re.search(r"EUR ([\\d.]+) per user", text)[1]), int(re.search(r"gets (\\d+) % off", text)[1])
costs = [("Alto", "EUR", seats * price * 12 * (100 - discount) / 100, ALTO)]
for low, high, price in re.findall(r"<tr><td>(\\d+) to (\\d+)<td>USD ([\\d.]+)", fetch(BOREALIS)):
    if int(low) <= seats <= int(high):
        costs.append(("Borealis", "USD", seats * float(price), BOREALIS))
text = fetch(CIRRUS)
pack, fee = (float(re.search(shape, text)[1]) for shape in (r"GBP ([\\d.]+) per month", r"Onboarding: GBP ([\\d.]+)"))
costs.append(("Cirrus", "GBP", -(-seats // 10) * pack * 12 + fee, CIRRUS))
dollars, pounds = re.search(r"29 August 2025<td>([\\d.]+)<td>([\\d.]+)", fetch(RATES)).groups()
rates = {"EUR": 1.0, "USD": float(dollars), "GBP": float(pounds)}
rows = [[name, code, f"{cost:.2f}", f"{cost / rates[code]:.2f}", source] for name, code, cost, source in costs]
rows.sort(key=lambda row: float(row[3]))
with open("comparison.csv", "w", newline="") as file:
    csv.writer(file).writerows([["Vendor", "Currency", "Original", "EUR", "Source"], *rows])
"""
PRESENT = """import csv

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches, Pt

with open("comparison.csv", newline="") as file:
    rows = list(csv.DictReader(file))
names, euros = [row["Vendor"] for row in rows], [float(row["EUR"]) for row in rows]
figure, axes = plt.subplots(figsize=(9, 6), dpi=100)
axes.bar(names, euros)
axes.set_ylabel("EUR for 12 months")
figure.savefig("chart.png")

deck = Presentation()
deck.slide_width, deck.slide_height = Inches(13.333), Inches(7.5)
prices = [row["Source"] for row in rows]


def write(slide, left, top, width, height, text, size):
    frame = slide.shapes.add_textbox(Inches(left), Inches(top), Inches(width), Inches(height)).text_frame
    frame.word_wrap = True
    run = frame.paragraphs[0].add_run()
    run.text, run.font.size, run.font.name = text, Pt(size), "Liberation Sans"
    return frame


def add_slide(title, sources):
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    write(slide, 0.6, 0.4, 12, 0.9, title, 32)
    frame = write(slide, 0.6, 6.8, 12, 0.5, "Sources: ", 9)
    for source in sources:
        run = frame.paragraphs[0].add_run()
        run.text, run.font.size, run.font.name = source + "  ", Pt(9), "Liberation Sans"
        run.hyperlink.address = source
    return slide


slide = add_slide("Service desk: three vendors compared", prices)
write(slide, 0.6, 2.5, 12, 1, f"Cheapest: {names[0]}, EUR {euros[0]:.0f}", 40)
rates = [*prices, "https://rates.example.test/eur"]
slide = add_slide("Cost of 12 months", rates)
table = slide.shapes.add_table(4, 4, Inches(0.6), Inches(1.8), Inches(12), Inches(2.4)).table
cells = [["Vendor", "Currency", "Cost", "EUR"]]
cells += [[row["Vendor"], row["Currency"], row["Original"], row["EUR"]] for row in rows]
for place, line in enumerate(cells):
    for column, text in enumerate(line):
        run = table.cell(place, column).text_frame.paragraphs[0].add_run()
        run.text, run.font.size, run.font.name = text, Pt(18), "Liberation Sans"
slide = add_slide("Cost of 12 months in EUR", rates)
data = CategoryChartData(number_format="#,##0.00")
data.categories = names
data.add_series("EUR for 12 months", euros)
area = (Inches(0.6), Inches(1.5), Inches(12), Inches(5))
chart = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *area, data).chart
chart.has_legend, chart.has_title, chart.font.name, chart.font.size = False, False, "Liberation Sans", Pt(14)
deck.core_properties.title = "Service desk: three vendors compared"
deck.save("deck.pptx")
"""


async def collect(hands: Hands) -> Done:
    """Read prices and rates, and write the table."""
    await hands.write("collect.py", COLLECT.encode())
    return await hands.run(["python3", "collect.py"], timeout=100)


async def present(hands: Hands) -> Done:
    """Draw the chart and make the deck."""
    await hands.write("present.py", PRESENT.encode())
    return await hands.run(["python3", "present.py"], timeout=120)


PLAN = (
    step(collect, grants=["borealis-token"], files=["TASK.md"], makes=["comparison.csv"]),
    step(present, hosts=[], grants=[], files=["comparison.csv"], makes=["chart.png", "deck.pptx"]),
)
