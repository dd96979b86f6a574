"""Which guard stops which file that acts when it is opened; as in `guards.py`."""

from __future__ import annotations

from tests.security.guards import Guard, Removal, cases

OPENING = "test_opening_attacks.py::test_"
FOUND = f"{OPENING}what_acts_when_it_is_opened_is_found_without_opening_it"
REACHES = f"{OPENING}one_attempt_to_reach_out_while_it_is_open_fails_a_file"
ASKS = f"{OPENING}a_link_to_another_file_is_told_by_the_office_that_follows_it"
NO_PASS = f"{OPENING}a_picture_fetched_by_a_link_to_a_page_gets_no_pass"
VERIFYING, ACTIVE = "hotdesk/job/verify.py", "hotdesk/checks/active.py"
INSIDE = "hotdesk/checks/inside"
OFFICE, PDF = f"{INSIDE}/active_office.py", f"{INSIDE}/active_pdf.py"
TEXT, ZIP, TRAFFIC = f"{INSIDE}/active_text.py", f"{INSIDE}/active_zip.py", "hotdesk/linux/netstat.py"
USES = Removal(OFFICE, "        for key in self.links.keys() & self.uses.keys():\n", "        for key in ():\n")
COUNT = Removal(
    VERIFYING,
    "        attempts = await at.attempts() if counted else None\n",
    "        attempts = 0 if counted else None\n",
)


def guard(name: str, file: str, old: str, new: str, *attacks: str) -> Guard:
    """Describe a guard that is one text in one file."""
    return Guard(name, (Removal(file, old, new),), attacks)


GUARDS_OF_OPENING: tuple[Guard, ...] = (
    Guard(
        "a link to a page is for a click",
        (USES,),
        cases(
            FOUND,
            "a picture by a link to a page | a picture inside by a link to a page | "
            "an old picture by a link to a page | an old picture by another name | "
            "an object by a link to a page | a template by a link to a page | "
            "a slide's picture by a link to a page | a slide's link without a click | "
            "a picture of a sheet by a link to a page",
        ),
    ),
    Guard("what is sent while a file is open is counted", (COUNT,), (REACHES,)),
    Guard("found, or counted", (USES, COUNT), (NO_PASS,)),
    guard(
        "a file is opened as one who trusts it does",
        ACTIVE,
        "        links = not REACHING & set(self.allow)\n",
        "        links = False\n",
        *cases(REACHES, "a table"),
        ASKS,
    ),
    guard(
        "what is allowed is not fetched",
        ACTIVE,
        "        links = not REACHING & set(self.allow)\n",
        "        links = True\n",
        f"{OPENING}what_a_brief_allows_is_not_fetched_and_passes",
    ),
    guard(
        "what a file asks for is a fault",
        ACTIVE,
        "(*faults, *requests), versions",
        "faults, versions",
        ASKS,
        f"{OPENING}an_action_of_the_viewer_is_told_by_the_viewer_that_carries_it_out",
    ),
    guard(
        "no printer is looked for",
        f"{INSIDE}/office.py",
        '("SAL_DISABLE_PRINTERLIST", "SAL_DISABLE_CUPS", "SAL_DISABLE_OPENCL")',
        '("SAL_DISABLE_PRINTERLIST", "SAL_DISABLE_OPENCL")',
        *cases(f"{OPENING}what_waits_for_a_click_passes", "a workbook"),
    ),
    guard(
        "what is opened was seen to be",
        ACTIVE,
        '            raise ValueError("how it was opened makes no sense")\n',
        '            return "PDFium", ()\n',
        f"{OPENING}an_opening_nobody_saw_is_no_opening",
    ),
    guard(
        "what is sent late is put down to a file",
        VERIFYING,
        "        return [self.blamed(place, each) for place, each in enumerate(proven, 1)]\n",
        "        return proven\n",
        f"{OPENING}a_file_that_reaches_out_once_it_was_looked_at_fails_in_the_end",
    ),
    guard(
        "connections are counted",
        TRAFFIC,
        '"TcpActiveOpens", ',
        "",
        *cases(f"{OPENING}nothing_is_sent_uncounted", "tcp | tcp6"),
    ),
    guard(
        "datagrams are counted",
        TRAFFIC,
        '"UdpOutDatagrams", ',
        "",
        *cases(f"{OPENING}nothing_is_sent_uncounted", "udp | name"),
    ),
    guard(
        "datagrams of the newer kind are counted",
        TRAFFIC,
        '"Udp6OutDatagrams", ',
        "",
        *cases(f"{OPENING}nothing_is_sent_uncounted", "udp6"),
    ),
    guard(
        "what finds no route is counted",
        TRAFFIC,
        '"IpOutNoRoutes",',
        "",
        *cases(f"{OPENING}nothing_is_sent_uncounted", "tcp-far | udp-far"),
    ),
    guard(
        "what finds no route of the newer kind is counted",
        TRAFFIC,
        '"Ip6OutNoRoutes",',
        "",
        *cases(f"{OPENING}nothing_is_sent_uncounted", "tcp6-far | udp6-far"),
    ),
    guard(
        "fields are listed",
        OFFICE,
        "    return named[1].upper() in FIELDS if named else not told.strip()\n",
        "    return True\n",
        *cases(FOUND, "a field nobody listed | a field that reads a document"),
    ),
    guard(
        "clicks are listed",
        OFFICE,
        '        if tag.startswith("hlink") and not JUMPS',
        '        if tag == "none" and not JUMPS',
        *cases(FOUND, "a slide's click that starts a program"),
    ),
    guard(
        "formulas name no address",
        OFFICE,
        r"""\[\d+\]|[a-z][a-z0-9+.-]*:[/\\]|\\\\|'\s*#|\[[^\[\]]*\.(?:xl\w+|csv|od\w|txt|html?)\]""",
        r"\[\d+\]|https?://|\\\\",
        *cases(
            FOUND,
            "a formula that reads by FTP | a formula that reads a file | a formula that reads another book | "
            "another office's formula by FTP | another office's formula of a file | another office's formula nearby",
        ),
    ),
    guard(
        "what a formula spells",
        OFFICE,
        '    if MEANT_ELSEWHERE.search(JOINED.sub("", text)):\n',
        "    if not text:\n",
        *cases(FOUND, "a formula that reads what it spells"),
    ),
    guard(
        "no formula runs elsewhere",
        OFFICE,
        r'("scripts", r"\bPY\s*\(", ',
        r'("scripts", r"\bPYTHON\s*\(", ',
        *cases(FOUND, "a formula that runs Python elsewhere"),
    ),
    guard(
        "what is shown lies inside",
        OFFICE,
        "            if not self.has(part, target):\n",
        "            if not part:\n",
        *cases(FOUND, "a table from nearby | a table from elsewhere | a picture from nearby | a ground from elsewhere"),
    ),
    guard(
        "links lead to pages",
        OFFICE,
        '(word == "href" and not is_plain(value))',
        '(word == "href" and not value)',
        *cases(FOUND, "a link that is a macro"),
    ),
    guard(
        "drawings are pages",
        OFFICE,
        '    if local(root) == "svg":\n',
        '    if local(root) == "SVG":\n',
        *cases(FOUND, "a drawing that fetches, as a part"),
    ),
    guard(
        "queries by what they are",
        OFFICE,
        '    "queryTable": ("queries", "a query"),\n',
        "",
        *cases(FOUND, "a query by another name"),
    ),
    guard(
        "documents of one text",
        f"{INSIDE}/active_look.py",
        "        if FLAT.search(text[:4096]) and not PAGE.match(text):\n",
        "        if not text:\n",
        *cases(FOUND, "a formula in one text | an old document in one text"),
    ),
    guard(
        "an action shows a page and ends",
        PDF,
        '            return kinds == {b"/GoTo"} and keys <= SHOWS\n',
        '            return kinds == {b"/GoTo"}\n',
        *cases(FOUND, "a PDF that goes on | a PDF that goes on elsewhere"),
    ),
    guard(
        "nothing odd stands in an action",
        PDF,
        "    return False\n\n\ndef object_streams(",
        "    return True\n\n\ndef object_streams(",
        *cases(FOUND, "a PDF that goes on behind a remark | a PDF that goes on behind brackets"),
    ),
    guard(
        "what ends a name does not stand in one",
        PDF,
        "match[0] if (meant := bytes([int(match[1], 16)])) in ENDING else meant",
        "bytes([int(match[1], 16)])",
        *cases(FOUND, "a PDF that goes on behind a name"),
    ),
    guard(
        "a PDF names no file elsewhere",
        PDF,
        "            if AWAY.match(target := spelt(match)):\n",
        '            if not (target := spelt(match) + b" "):\n',
        *cases(FOUND, "a PDF's stream by its address"),
    ),
    Guard(
        "a PDF's files are its own",
        (
            Removal(PDF, 'rb"/FS" + GAP + rb"/URL"', 'rb"/FS" + GAP + rb"/None"'),
            Removal(
                PDF,
                "            if AWAY.match(target := spelt(match)):\n",
                '            if not (target := spelt(match) + b" "):\n',
            ),
        ),
        cases(FOUND, "a PDF's file by its address"),
    ),
    guard(
        "a table may say what parts it",
        TEXT,
        "    if told:\n        return [told[1]",
        "    if not lines and told:\n        return [told[1]",
        *cases(FOUND, "a table that says what parts it"),
    ),
    guard(
        "what is not seen begins no cell",
        TEXT,
        " or unicodedata.category(each) in INVISIBLE)",
        ' or each in " \\u00a0")',
        *cases(FOUND, "a cell behind nothing to see | a cell behind a mark | a cell behind several"),
    ),
    guard(
        "signs in every width",
        TEXT,
        '    return text[:1] if text[:1].isascii() else unicodedata.normalize("NFKC", text[:1])\n',
        "    return text[:1]\n",
        *cases(FOUND, "a cell that begins in small"),
    ),
    guard(
        "a member has one name",
        ZIP,
        "        if kind == OTHER_NAME and value[5:] != name:\n",
        "        if kind == OTHER_NAME and not name:\n",
        *cases(FOUND, "an archive with another name"),
    ),
    guard(
        "a member's fields are listed",
        ZIP,
        "        if kind not in (*PLAIN_EXTRA, OTHER_NAME):\n",
        "        if kind == 0:\n",
        *cases(FOUND, "an archive with a field"),
    ),
)
HONEST = "a document with a link | slides with a link | a text with a link | a table | a deck | a PDF with a link"
NO_GUARD_OF_OPENING: dict[str, str] = {
    **dict.fromkeys(
        cases(f"{OPENING}what_waits_for_a_click_passes", HONEST), "no attack: what does nothing is not refused"
    ),
    f"{OPENING}nothing_is_sent_uncounted[unix]": "no attack: what stays in the desk is not counted",
}
