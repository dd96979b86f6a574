"""The browser's tools: names, parameters, examples. Data only."""

from __future__ import annotations

from hotdesk.tool import Parameter, Tool

DEFAULT_TIMEOUT_S = 30.0
MAX_TIMEOUT_S = 300.0
TIMEOUT = Parameter(
    "timeout", "number", "seconds it may take", default=DEFAULT_TIMEOUT_S, least=0.1, most=MAX_TIMEOUT_S
)
REF = Parameter("ref", "text", "a reference of browser_snapshot, as e12", required=True, longest=12)
START = Parameter("start", "integer", "from which character on; 0 is the beginning", default=0, least=0, most=1e9)

GOTO = Tool(
    "browser_goto",
    "Go to an address in the current tab, and wait until the page has loaded.",
    (
        Parameter("url", "text", "the address; https unless it says otherwise", required=True, longest=100_000),
        Parameter("wait", "text", "for what", default="load", choices=("load", "dom", "idle", "none")),
        TIMEOUT,
    ),
    {"url": "https://example.test/orders"},
)
HISTORY = Tool(
    "browser_history",
    "Go back or forward in the tab's history, or load the page again.",
    (Parameter("go", "text", "where", required=True, choices=("back", "forward", "reload")), TIMEOUT),
    {"go": "back"},
)
TABS = Tool(
    "browser_tabs",
    "List the tabs, open one, go to another or close one. Windows a page opens are tabs, too.",
    (
        Parameter("do", "text", "what", default="list", choices=("list", "open", "select", "close")),
        Parameter("tab", "text", "which, as t2, to select or close", longest=12),
        Parameter("url", "text", "the address to open", default="about:blank", longest=100_000),
    ),
    {"do": "select", "tab": "t2"},
)
READ = Tool(
    "browser_read",
    "Read the page as markdown: headings, text, lists, tables, links, what fields hold.",
    (START,),
    {},
)
SNAPSHOT = Tool(
    "browser_snapshot",
    "See the page as a tree of what can be used: role, name, reference, value, state. The references are what other "
    "tools take; they hold until the page is left.",
    (START,),
    {},
)
CLICK = Tool(
    "browser_click",
    "Click an element.",
    (
        REF,
        Parameter("button", "text", "which", default="left", choices=("left", "middle", "right")),
        Parameter("count", "integer", "2 for a double click", default=1, least=1, most=3),
    ),
    {"ref": "e12"},
)
FILL = Tool(
    "browser_fill",
    "Have a field hold a text instead of what it holds, and check that it does. Boxes take true or false, dates are "
    "written as 2026-01-31, lists take the option's label.",
    (REF, Parameter("text", "text", "what it shall hold", required=True)),
    {"ref": "e7", "text": "Ada Lovelace"},
)
SELECT = Tool(
    "browser_select",
    "Choose options of a list by their label or value.",
    (REF, Parameter("values", "texts", "all that shall be chosen", required=True, longest=100)),
    {"ref": "e9", "values": ["Norway"]},
)
UPLOAD = Tool(
    "browser_upload",
    "Give files of the desk to a page: to a field for files, or to a button that asks for some.",
    (REF, Parameter("paths", "texts", "where the files are in the desk", required=True, longest=100)),
    {"ref": "e5", "paths": ["/home/user/report.csv"]},
)
PRESS = Tool(
    "browser_press",
    "Press keys in the page, one after another: Enter, Tab, Escape, ArrowDown, a, Control+a, Shift+Tab.",
    (Parameter("keys", "texts", "the keys", required=True, longest=200),),
    {"keys": ["Control+a", "Delete"]},
)
TYPE = Tool(
    "browser_type",
    "Type a text where the focus is. To replace what a field holds, browser_fill is surer.",
    (Parameter("text", "text", "any characters", required=True),),
    {"text": "Grüße, 世界"},
)
HOVER = Tool("browser_hover", "Point at an element, as for menus that open so.", (REF,), {"ref": "e3"})
SCROLL = Tool(
    "browser_scroll",
    "Scroll an element into view, or the page by so many screens.",
    (
        Parameter("ref", "text", "a reference, to bring that into view", default="", longest=12),
        Parameter("down", "number", "screens down; negative is up", default=0.0, least=-1000, most=1000),
        Parameter("right", "number", "screens to the right; negative is left", default=0.0, least=-1000, most=1000),
    ),
    {"down": 0.8},
)
SCREENSHOT = Tool(
    "browser_screenshot",
    "Take a picture of what the tab shows, of the whole page, or of one element.",
    (
        Parameter("full", "flag", "the whole page", default=False),
        Parameter("ref", "text", "a reference, for that element alone", default="", longest=12),
        Parameter("format", "text", "of the picture", default="png", choices=("png", "jpeg")),
    ),
    {"full": True},
)
EVALUATE = Tool(
    "browser_evaluate",
    "Evaluate JavaScript in the page, and give its value as JSON. A promise is waited for.",
    (Parameter("expression", "text", "what to evaluate", required=True), TIMEOUT),
    {"expression": "document.querySelectorAll('tr').length"},
)
WAIT_FOR = Tool(
    "browser_wait_for",
    "Wait until the page holds a text or no longer does, an element shows, the address fits, or loading is over.",
    (
        Parameter(
            "what", "text", "for what", required=True, choices=("text", "text_gone", "ref", "url", "load", "idle")
        ),
        Parameter("value", "text", "the text, the reference, or the address with * for anything", default=""),
        TIMEOUT,
    ),
    {"what": "text", "value": "Order received"},
)
DOWNLOADS = Tool(
    "browser_downloads",
    "List what was downloaded, and where it lies in the desk; or first wait until nothing is under way any more.",
    (
        Parameter("wait", "flag", "wait for those under way, or for one to begin", default=False),
        Parameter("timeout", "number", "seconds to wait", default=60.0, least=0.1, most=MAX_TIMEOUT_S),
    ),
    {"wait": True},
)
DIALOG = Tool(
    "browser_dialog",
    "Answer the dialog a page shows. Any other browser tool dismisses it first.",
    (
        Parameter("accept", "flag", "true: OK, leave; false: Cancel, stay", required=True),
        Parameter("text", "text", "what to enter when it asks for a text", default="", longest=10_000),
    ),
    {"accept": True},
)

ALL = (
    GOTO, HISTORY, TABS, READ, SNAPSHOT, CLICK, FILL, SELECT, UPLOAD, PRESS, TYPE, HOVER, SCROLL, SCREENSHOT, EVALUATE,
    WAIT_FOR, DOWNLOADS, DIALOG,
)  # fmt: skip
