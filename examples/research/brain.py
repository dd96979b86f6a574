"""A worker that reads charts: it collects reports, reads pictures, errs once, and makes a deck. It runs outside."""

from __future__ import annotations

import json
import re
from pathlib import Path

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done
from hotdesk.tool import Observation

HERE = Path(__file__).parent
MERIDIAN, HARBOUR = "https://meridian.example.test", "https://harbour.example.test"
SCALED = '''    """Say what rows mean: nothing at the foot of the axis, and the topmost number at its top."""
    foot, top = ticks[-1].row, ticks[0]

    def scale(row: float) -> float:
        return top.value * (foot - row) / (foot - top.row)
'''
MENDED = '''    """Say what rows mean, as all numbers of the axis have it: it need not begin at nothing."""
    top = ticks[0]
    slope, start = np.polyfit([tick.row for tick in ticks], [tick.value for tick in ticks], 1)

    def scale(row: float) -> float:
        return float(start + slope * row)
'''


async def collect(hands: Hands) -> str:
    """Sign in where that is needed, and download every report from both publishers."""
    await hands.run(["mkdir", "--parents", "reports"])
    links = {}
    for site, sign_in in ((MERIDIAN, False), (HARBOUR, True)):
        await use(hands, "browser_goto", url=f"{site}/login" if sign_in else f"{site}/")
        if sign_in:
            await fill_form(hands)
            await use(hands, "browser_wait_for", what="url", value=f"{site}/reports")
        page = (await use(hands, "browser_snapshot")).text
        await use(hands, "screen_settle")
        await hands.write(f"{site.split('/')[2].split('.')[0]}.png", (await use(hands, "screen_screenshot")).image)
        for link in re.findall(r"link \"[^\n]*?\[(e\d+)\]", page):
            await use(hands, "browser_click", ref=link)
            name = await downloaded(hands)
            links[name.removesuffix(".pdf")] = f"{site}/reports/{name}"
    await hands.write("links.json", json.dumps(links).encode())
    return f"{len(links)} reports are here"


async def capture(hands: Hands) -> Done:
    """Draw the reports' pages, and cut the charts out of them."""
    await hands.write("capture.py", (HERE / "capture.py").read_bytes())
    return await hands.run(["python3", "capture.py"], timeout=120)


async def extract(hands: Hands) -> Done:
    """Read the numbers out of the pictures; fix the reader where it takes an axis for what it is not."""
    await hands.write("extract.py", (HERE / "extract.py").read_bytes())
    done = await hands.run(["python3", "extract.py"], timeout=120)
    if "the axis says" in done.stderr.decode(errors="replace"):
        hands.say(f"{last_line(done)}. Not every axis begins at nothing: the scale shall follow all its numbers.")
        mended = await hands.use("file_replace", path="extract.py", old=SCALED, new=MENDED)
        if not mended.ok:
            return Done(1, stderr=mended.text.encode())
        done = await hands.run(["python3", "extract.py"], timeout=120)
    return done


async def compare(hands: Hands) -> Done:
    """Draw what both publishers say of the same thing."""
    await hands.write("compare.py", (HERE / "compare.py").read_bytes())
    return await hands.run(["python3", "compare.py"], timeout=120)


async def present(hands: Hands) -> Done:
    """Make the deck."""
    await hands.write("deck.py", (HERE / "deck.py").read_bytes())
    return await hands.run(["python3", "deck.py"], timeout=120)


PLAN = (
    step(collect, grants=["harbour-password"], makes=["reports", "links.json", "meridian.png", "harbour.png"]),
    step(capture, hosts=[], grants=[], files=["reports"], makes=["charts", "charts.json"]),
    step(extract, hosts=[], grants=[], files=["charts", "charts.json"], makes=["extracted.csv"]),
    step(compare, hosts=[], grants=[], files=["extracted.csv"], makes=["comparisons"]),
    step(
        present,
        hosts=[],
        grants=[],
        files=["extracted.csv", "charts", "charts.json", "links.json", "comparisons"],
        makes=["Market_Research.pptx"],
    ),
)


async def fill_form(hands: Hands) -> None:
    """Sign in as a person would. The password here is a placeholder: the door puts the real one in."""
    placeholder = (await hands.run(["printenv", "HARBOUR_PASSWORD"])).text.strip()
    form = (await use(hands, "browser_snapshot")).text
    await use(hands, "browser_fill", ref=reference(form, 'textbox "User'), text="analyst")
    await use(hands, "browser_fill", ref=reference(form, 'textbox "Password'), text=placeholder)
    await use(hands, "browser_click", ref=reference(form, 'button "Sign in'))


async def downloaded(hands: Hands) -> str:
    """Wait for the last download, and put it with the reports; give its name."""
    told = (await use(hands, "browser_downloads", wait=True)).text
    found = re.findall(r"^- (/[^\n]*): completed, (\d+) of \2 bytes$", told, re.MULTILINE)
    new = [path for path, _ in found if (await hands.run(["test", "-e", path])).ok]
    if len(new) != 1:
        raise ValueError(f"no download was completed: {told}")
    await hands.run(["mv", new[0], "reports/"])
    return Path(new[0]).name


async def use(hands: Hands, tool: str, **arguments: object) -> Observation:
    """Use a tool that must succeed."""
    seen = await hands.use(tool, **arguments)
    if not seen.ok:
        raise ValueError(seen.text)
    return seen


def reference(page: str, what: str) -> str:
    """Give the reference of what stands in a page's snapshot."""
    found = re.search(rf"{re.escape(what)}[^\n]*?\[(e\d+)\]", page)
    if found is None:
        raise ValueError(f"the page has no {what}")
    return found[1]


def last_line(done: Done) -> str:
    """Give the last line a program said."""
    lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""
