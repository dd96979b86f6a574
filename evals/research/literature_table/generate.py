"""Write the review's criteria, and a library of articles: `python3 generate.py SEED`."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

LIBRARY, RESOLVER = "library.example.test", "doi.example.test"
SURNAMES = ("Abbot", "Brandt", "Castel", "Dahl", "Eriksen", "Fontaine", "Grieg", "Haas", "Ivanova", "Jonker", "Keller",
            "Lund", "Moreau", "Nilsen", "Okafor", "Pires", "Quist", "Rossi", "Sato", "Tanaka", "Ueda", "Vogel",
            "Weiss", "Xu", "Yilmaz", "Zanetti")  # fmt: skip
KINDS = (*["included"] * 7, "not randomised", "not randomised", "too small", "small after loss", "small after loss",
         "too old", "children", "retracted", "preprint", "children", *["included"] * 2, "cohort")  # fmt: skip
TASK = """# Trials of evening light against poor sleep

The library at https://library.example.test/search?q=evening+light&page=1 finds 20 articles, on several pages. Each
links to its article by an identifier, which https://doi.example.test/ resolves.

Include an article if all of this holds:

1. It reports a randomised trial in adults (every participant at least 18).
2. At least 100 participants were analysed. How many were enrolled does not matter.
3. It was published from 2015 to 2024.
4. It was not retracted. The article's page says so, the search does not.
5. It is not a preprint of which the library also has the journal's version; that version is the one to include.

Deliver literature.csv with the columns Author, Year, Analysed, Effect, Link, and one row for each included article,
sorted by Year and, within a year, by Author.

- Author is the surname of the first author.
- Analysed is how many participants were analysed.
- Effect is the mean difference in minutes of sleep at 12 weeks, with its sign and one decimal, as in -4.0 or 12.5; some
  articles also give other weeks. Articles of before 2018 give hours, as 0.25 h, which is 15.0 minutes.
- Link is the address of the article's page in the library, https://library.example.test/articles/…, not the identifier.
"""
GOAL = """
Make a literature table of the trials that meet the criteria of TASK.md, from the library on the web named there.
Deliver literature.csv, in the form TASK.md states.
"""


def main() -> None:
    """Write brief/ and hidden/."""
    chance = random.Random(int(sys.argv[1]))  # noqa: S311 - the same seed gives the same library
    kinds = list(KINDS)
    chance.shuffle(kinds)
    articles = [
        make_article(chance, kind, name, number)
        for kind, name, number in zip(
            kinds, chance.sample(SURNAMES, len(kinds)), chance.sample(range(10_000, 99_999), len(kinds)), strict=True
        )
    ]
    included = [article for article in articles if article["kind"] == "included"]
    preprint = next(article for article in articles if article["kind"] == "preprint")
    preprint.update({key: included[0][key] for key in ("author", "weeks", "title")})
    preprint["year"], preprint["analysed"] = included[0]["year"], included[0]["analysed"] - chance.randint(3, 9)
    preprint["enrolled"] = preprint["analysed"] + 20
    preprint["path"] = f"{included[0]['path']}-preprint"
    pages, redirects = {}, {}
    for article in articles:
        pages[f"{LIBRARY}{article['path']}"] = article_page(article, included[0])
        redirects[f"{RESOLVER}/{article['identifier']}"] = f"https://{LIBRARY}{article['path']}"
    for number in range(1, 5):
        pages[f"{LIBRARY}/search?q=evening+light&page={number}"] = search_page(articles, number)
    pages[f"{LIBRARY}/"] = "<h1>Library</h1><a href='/search?q=evening+light&page=1'>evening light</a>"
    rows = [
        [each["author"], each["year"], each["analysed"], each["weeks"][12], f"https://{LIBRARY}{each['path']}"]
        for each in sorted(included, key=lambda one: (one["year"], one["author"]))
    ]
    Path("brief").mkdir()
    Path("hidden").mkdir()
    every = [{"author": each["author"], "kind": each["kind"], "path": each["path"], "year": each["year"],
              "enrolled": each["enrolled"], "analysed": each["analysed"], "weeks": each["weeks"]}
             for each in articles]  # fmt: skip
    truth = {"rows": rows, "articles": every, "pages": pages, "redirects": redirects}
    Path("hidden/truth.json").write_text(json.dumps(truth))
    Path("brief/TASK.md").write_text(TASK)
    Path("brief/brief.toml").write_text(brief())


def make_article(chance: random.Random, kind: str, author: str, number: int) -> dict[str, Any]:
    """Make an article of a kind."""
    analysed = chance.randint(104, 420)
    enrolled = analysed + chance.randint(5, 60)
    if kind in ("too small", "small after loss"):
        analysed = chance.randint(60, 99)
        enrolled = analysed + 4 if kind == "too small" else chance.randint(104, 130)
    year = chance.randint(2009, 2014) if kind == "too old" else chance.randint(2015, 2024)
    effects = [chance.choice([-1, 1, 1]) * chance.randint(6, 100) * 0.3 for _ in range(3)]
    return {
        "kind": kind,
        "author": author,
        "year": year,
        "analysed": analysed,
        "enrolled": enrolled,
        "weeks": dict(zip((4, 12, 24), (round(effect, 1) for effect in effects), strict=True)),
        "title": f"Evening light and sleep: study {chance.randint(100, 999)}",
        "identifier": f"10.5555/{number}",
        "path": f"/articles/{author.lower()}-{number}",
        "extra_weeks": chance.random() < 0.5,
    }


def article_page(article: dict[str, Any], journal: dict[str, Any]) -> str:
    """Return an article's page."""
    kind, year = article["kind"], article["year"]
    design = {"not randomised": "a controlled trial without randomisation", "cohort": "a cohort study"}
    ages = "aged 12 to 17" if kind == "children" else "aged 18 to 65"
    weeks = (4, 12, 24) if article["extra_weeks"] else (12,)
    minutes = [(week, article["weeks"][week]) for week in weeks]
    effects = [
        f"at {week} weeks {effect:+.1f} minutes" if year >= 2018 else f"at {week} weeks {effect / 60:+.3f} h"
        for week, effect in minutes
    ]
    head = ""
    if kind == "retracted":
        head = f"<p class=notice>Retraction notice: the editors retracted this article in {year + 1}."
    if kind == "preprint":
        head = (
            "<p>Preprint. The journal's version is in the library: "
            f"<a href={journal['path']}>{journal['author']} {journal['year']}</a>."
        )
    body = (
        f"<p>{article['author']} et al., {year}. Identifier {article['identifier']}."
        f"<p>Design: {design.get(kind, 'a randomised controlled trial')}. Participants were {ages}."
        f"<p>We enrolled {article['enrolled']} participants, and analysed {article['analysed']}."
        f"<p>Mean difference in sleep against the control: {'; '.join(effects)}."
    )
    return page(article["title"], head + body)


def search_page(articles: list[dict[str, Any]], number: int) -> str:
    """Return one page of results, six articles a page."""
    items = "".join(
        f"<li><a href=https://{RESOLVER}/{each['identifier']}>{each['author']} et al., {each['title']}</a> "
        f"({each['year']}, {each['enrolled']} enrolled)"
        for each in articles[6 * (number - 1) : 6 * number]
    )
    more = f"<p><a href='/search?q=evening+light&amp;page={number + 1}'>Next page</a>" if number < 4 else ""
    return page(f"20 results for evening light, page {number} of 4", f"<ol>{items}</ol>{more}")


def page(title: str, body: str) -> str:
    """Return a page of HTML."""
    return f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><h1>{title}</h1>{body}</html>"


def brief() -> str:
    """Return the brief."""
    return (
        f'goal = """{GOAL}"""\ninputs = ["TASK.md"]\nimage = "office"\nseconds = 900\n'
        f'egress = ["GET https://{LIBRARY}/**", "GET https://{RESOLVER}/**"]\n\n'
        '[[deliverables]]\npath = "literature.csv"\ncheck = "csv"\n\n[deliverables.expect]\n'
        'columns = ["Author", "Year", "Analysed", "Effect", "Link"]\nrows = {min = 1}\n'
        'numeric = ["Year", "Analysed", "Effect"]\nunique = ["Link"]\n'
    )


if __name__ == "__main__":
    main()
