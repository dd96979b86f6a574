"""Tests of web pages as text: trees with references, outlines as Markdown, keys, file names."""

from __future__ import annotations

import pytest

from hotdesk.errors import DeskError
from hotdesk.hands.reader.keys import read_stroke
from hotdesk.hands.reader.markdown import to_markdown
from hotdesk.hands.reader.navigation import as_url
from hotdesk.hands.reader.tabs import PageBlockedError, References, Tabs, read_download_path, sanitize_file_name
from hotdesk.hands.reader.tree import cut, read_nodes, to_lines
from hotdesk.hands.reader.untrusted import UntrustedObject


def node(number: int, role: str, name: str = "", *children: int, **more: object) -> dict[str, object]:
    told: dict[str, object] = {"nodeId": str(number), "role": {"value": role}, "name": {"value": name}}
    return {**told, "backendDOMNodeId": 100 + number, "childIds": [str(child) for child in children], **more}


def lines(*nodes: dict[str, object]) -> list[str]:
    return to_lines(read_nodes(UntrustedObject({"nodes": list(nodes)})), References().refer)


TREES = [
    ((), []),
    ((node(1, "RootWebArea", "Title", 2), node(2, "heading", "Hi", 3), node(3, "StaticText", "Hi")),
     ['- heading "Hi" [e1]']),
    ((node(1, "RootWebArea", "", 2), node(2, "generic", "", 3), node(3, "StaticText", "clickable?")),
     ["- text: clickable? [e1]"]),
    ((node(1, "RootWebArea", "", 2), node(2, "paragraph", "", 3), node(3, "StaticText", "said")), ["- text: said"]),
    ((node(1, "RootWebArea", "", 2, 3),
      node(2, "textbox", "User", value={"value": "ada"},
           properties=[{"name": "focused", "value": {"value": True}},
                       {"name": "invalid", "value": {"value": "false"}}]),
      node(3, "checkbox", "Yes", properties=[{"name": "checked", "value": {"value": "mixed"}}])),
     ['- textbox "User" [e1] value="ada" focused', '- checkbox "Yes" [e2] checked=mixed']),
    ((node(1, "RootWebArea", "", 2), node(2, "list", "", 3), node(3, "listitem", "", 4, 5),
      node(4, "ListMarker", "1."), node(5, "link", "on", 6), node(6, "StaticText", "on")),
     ["- list [e1]", "  - listitem [e2]", '    - link "on" [e3]']),
    ((node(1, "RootWebArea", "", 2), node(2, "button", "x", 3, ignored=True), node(3, "button", "y")),
     ['- button "y" [e1]']),
    ((node(1, "RootWebArea", "", 2, 2), node(2, "button", 'a"b\n c', 1)), ['- button "a\\"b c" [e1]']),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "told"), TREES)
def test_a_tree_is_reported_in_lines(nodes: tuple[dict[str, object], ...], told: list[str]) -> None:
    assert lines(*nodes) == told


def test_a_tree_of_any_depth_is_cut_at_a_depth() -> None:
    deep = [node(number, "list", "", number + 1) for number in range(5_000)]
    assert 100 < len(lines(*deep)) < 1000


def h(tag: str, *children: object, **more: object) -> dict[str, object]:
    block = tag in ("h1", "h2", "p", "div", "ul", "ol", "li", "table", "tr", "td", "pre", "blockquote", "body")
    return {"t": tag, "c": list(children), **({"b": True} if block else {}), **more}


OUTLINES = [
    (None, ""),
    (h("body", h("h1", "A  b\n"), h("p", "one ", h("b", "two"), " three")), "# A b\n\none **two** three"),
    (h("body", "loose ", h("a", "link", href="https://x.test/"), h("div", "own")), "loose [link](https://x.test/)\n\nown"),
    (h("body", h("ul", h("li", "a"), h("li", "b", h("ol", h("li", "c"), h("li", "d"), start=4)))),
     "- a\n- b\n  4. c\n  5. d"),
    (h("body", h("table", h("thead", h("tr", h("th", "n"), h("th", "v|w"))), h("tbody", h("tr", h("td", "1"))))),
     "| n | v\\|w |\n| --- | --- |\n| 1 |  |"),
    (h("body", h("table", h("tr", h("td", h("p", "only arranges"))))), "only arranges"),
    (h("body", h("pre", "a\n  b\n")), "```\na\n  b\n```"),
    (h("body", h("blockquote", h("p", "a"), h("p", "b"))), "> a\n>\n> b"),
    (h("body", h("span", "in ", h("div", "out"))), "in\n\nout"),
    (h("body", "a", h("br"), "b"), "a\n\nb"),
    (h("body", h("label", "Name ", {"t": "field", "kind": "text", "name": "Name", "value": "Ada"})),
     "Name [text Name: Ada]"),
    (h("body", {"t": "field", "kind": "checkbox", "on": True}, "agree", h("button", "Go")), "[x] agree[Go]"),
    (h("body", {"t": "img", "alt": "a chart"}, {"t": "frame", "href": "https://y.test"}),
     "![a chart][a frame of another origin: https://y.test]"),
    ({"t": ["div"], "c": 5}, ""),
    ({"t": "h1", "c": [5, None, ["x"], {"c": ["y"]}]}, "# y"),
    ({"t": "a", "c": ["x"], "href": 5}, "x"),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "text"), OUTLINES)
def test_an_outline_is_written_as_markdown(tree: object, text: str) -> None:
    assert to_markdown(tree) == text


@pytest.mark.slow
def test_an_outline_of_any_depth_and_length_is_written_to_a_bound() -> None:
    deep: object = "x"
    for _ in range(900):
        deep = {"t": "div", "c": [deep], "b": True}
    assert to_markdown(deep) == ""
    assert len(to_markdown({"t": "p", "c": ["word "] * 400_000})) < 1_600_000


def test_a_part_ends_at_a_line() -> None:
    text = "0123456\n89\n"
    assert cut(text, 0, 10) == {"text": "0123456\n", "start": 0, "next": 8, "length": 11}
    assert cut(text, 8, 10) == {"text": "89\n", "start": 8, "next": 11, "length": 11}
    assert cut("x" * 20, 5, 10)["next"] == 15
    assert cut(text, 50, 10)["text"] == ""


@pytest.mark.parametrize(
    ("written", "key", "code", "modifiers", "text"),
    [
        ("Enter", "Enter", "Enter", 0, "\r"),
        ("Control+a", "a", "KeyA", 2, ""),
        ("Shift+a", "A", "KeyA", 8, "A"),
        ("Control+Shift+Tab", "Tab", "Tab", 10, ""),
        ("+", "+", "", 0, "+"),
        ("Control++", "+", "", 2, ""),
        ("ä", "ä", "", 0, "ä"),
        ("7", "7", "Digit7", 0, "7"),
        ("Space", " ", "Space", 0, " "),
    ],
)
def test_keys_are_read_as_written(written: str, key: str, code: str, modifiers: int, text: str) -> None:
    stroke = read_stroke(written)
    assert (stroke.key, stroke.code, stroke.modifiers, stroke.text) == (key, code, modifiers, text)


@pytest.mark.parametrize("written", ["", "Hyper+a", "Return", "Control+", "enter\n"])
def test_an_unknown_key_is_reported_with_those_there_are(written: str) -> None:
    with pytest.raises(DeskError, match=r"unknown key .* Enter"):
        read_stroke(written)


@pytest.mark.parametrize(
    ("url", "full"),
    [
        ("example.test", "https://example.test"),
        ("example.test:8080/x", "https://example.test:8080/x"),
        ("http://example.test", "http://example.test"),
        (" about:blank", "about:blank"),
        ("data:text/html,x", "data:text/html,x"),
    ],
)
def test_an_address_is_written_out(url: str, full: str) -> None:
    assert as_url(url) == full


def test_a_script_is_no_address() -> None:
    with pytest.raises(DeskError, match="browser_evaluate"):
        as_url("JavaScript:alert(1)")


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("a.csv", "a.csv"),
        ("../../etc/passwd", "passwd"),
        ("C:\\x\\y.exe", "y.exe"),
        ("..", "download"),
        ("", "download"),
        ("a\u202egnp.exe", "a\\u202egnp.exe"),
        ("a\nb", "a\\nb"),
        ("x" * 999, "x" * 255),
    ],
)
def test_the_name_of_a_download_is_a_name_that_can_be_shown(told: str, name: str) -> None:
    assert sanitize_file_name(told) == name


@pytest.mark.parametrize("path", ["", "/etc/passwd", "/home/user/Downloads/../x", "/home/user/Downloads/a\nb"])
def test_a_download_with_an_impossible_path_is_placed_in_the_folder(path: str) -> None:
    assert read_download_path("/home/user/Downloads/a b.csv") == "/home/user/Downloads/a b.csv"
    assert read_download_path(path) == "/home/user/Downloads"


def test_a_reference_lives_as_long_as_its_page_and_is_never_given_again() -> None:
    references = References()
    assert [references.refer(7), references.refer(9), references.refer(7)] == ["e1", "e2", "e1"]
    assert references.find("e2") == 9
    references.forget()
    with pytest.raises(DeskError, match="take a new snapshot"):
        references.find("e2")
    assert references.refer(9) == "e3"
    for unknown in ("e99", "x", "", "e" + "9" * 5000, "e²"):
        with pytest.raises(DeskError, match=r"unknown reference|no longer"):
            references.find(unknown)


def known() -> Tabs:
    tabs = Tabs()
    tabs.quiet = False
    tabs.hear(
        "",
        "Target.targetCreated",
        UntrustedObject({"targetInfo": {"targetId": "A", "type": "page", "url": "about:blank"}}),
    )
    tab = tabs.by_target["A"]
    tab.session, tab.frame, tabs.by_session["S"] = "S", "F", tab
    return tabs


def test_endless_events_are_bounded() -> None:
    tabs = known()
    for number in range(5000):
        info = {"targetId": f"T{number}", "type": "page", "url": "u" * 5000, "title": "t" * 5000}
        tabs.hear("", "Target.targetCreated", UntrustedObject({"targetInfo": info}))
        tabs.hear(
            "", "Browser.downloadWillBegin", UntrustedObject({"guid": str(number), "suggestedFilename": "x" * 5000})
        )
        tabs.hear("S", "Page.lifecycleEvent", UntrustedObject({"frameId": "F", "name": f"n{number}"}))
    assert len(tabs.by_target) == 64
    assert len(tabs.downloads) == 200
    assert len(tabs.by_target["A"].stages) == 0
    assert len(tabs.take_news()) == 21
    assert tabs.take_news() == []


def test_a_download_is_waited_for_once() -> None:
    tabs = known()
    assert not tabs.has_more()
    tabs.hear("", "Browser.downloadWillBegin", UntrustedObject({"guid": "1", "suggestedFilename": "a.csv"}))
    assert not tabs.has_more()
    tabs.hear("", "Browser.downloadProgress", UntrustedObject({"guid": "1", "state": "completed", "receivedBytes": 4}))
    assert tabs.has_more()
    tabs.downloads["1"].awaited = True
    assert not tabs.has_more()
    assert tabs.downloads["1"].tell()["path"] == "/home/user/Downloads/a.csv"


def test_events_of_foreign_sessions_are_ignored() -> None:
    tabs = known()
    tabs.hear("X", "Page.javascriptDialogOpening", UntrustedObject({"type": "alert", "message": "boo"}))
    tabs.hear("X", "Browser.downloadWillBegin", UntrustedObject({"guid": "1", "suggestedFilename": "x"}))
    assert tabs.by_target["A"].dialog is None
    assert not tabs.downloads


def test_a_dialog_interrupts_a_wait_for_the_page() -> None:
    tabs = known()
    opening = UntrustedObject({"type": "confirm", "message": "sure\x1b[2J?"})
    tabs.hear("S", "Page.javascriptDialogOpening", opening)
    dialog = tabs.by_target["A"].dialog
    assert dialog is not None
    assert dialog.message == "sure\\x1b[2J?"
    tabs.patient = False
    with pytest.raises(PageBlockedError):
        tabs.hear("S", "Page.javascriptDialogOpening", opening)


def test_another_document_makes_references_stale_and_a_frame_inside_does_not() -> None:
    tabs = known()
    tab = tabs.by_target["A"]
    tab.enter("L1")
    tab.references.refer(7)
    tabs.hear("S", "Page.lifecycleEvent", UntrustedObject({"frameId": "G", "loaderId": "L2", "name": "init"}))
    tabs.hear("S", "Page.frameNavigated", UntrustedObject({"frame": {"id": "G", "parentId": "F", "loaderId": "L2"}}))
    assert tab.references.find("e1") == 7
    tabs.hear("S", "Page.lifecycleEvent", UntrustedObject({"frameId": "F", "loaderId": "L2", "name": "init"}))
    with pytest.raises(DeskError, match="no longer"):
        tab.references.find("e1")
