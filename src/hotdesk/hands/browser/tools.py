"""The browser's tools: names, parameters, examples. Data only."""

from __future__ import annotations

from hotdesk.tool import Parameter, Tool

DEFAULT_TIMEOUT_S = 30.0
MAX_TIMEOUT_S = 300.0
TIMEOUT = Parameter(
    "timeout", "number", "time limit in seconds", default=DEFAULT_TIMEOUT_S, least=0.1, most=MAX_TIMEOUT_S
)
REF = Parameter("ref", "text", "element reference from browser_snapshot, such as e12", required=True, longest=12)
START = Parameter("start", "integer", "offset in characters; 0 is the beginning", default=0, least=0, most=1e9)

GOTO = Tool(
    "browser_goto",
    "Open a URL in the current tab and wait until the page has loaded.",
    (
        Parameter("url", "text", "the URL; without a scheme, https is used", required=True, longest=100_000),
        Parameter(
            "wait", "text", "the loading state to wait for", default="load", choices=("load", "dom", "idle", "none")
        ),
        TIMEOUT,
    ),
    {"url": "https://example.test/orders"},
)
HISTORY = Tool(
    "browser_history",
    "Go back or forward in the history of the tab, or reload the page.",
    (Parameter("go", "text", "the direction", required=True, choices=("back", "forward", "reload")), TIMEOUT),
    {"go": "back"},
)
TABS = Tool(
    "browser_tabs",
    "List the tabs, open a new one, switch to one or close one. Windows that a page opens are tabs as well.",
    (
        Parameter("do", "text", "the action", default="list", choices=("list", "open", "select", "close")),
        Parameter("tab", "text", "the tab to select or close, such as t2", longest=12),
        Parameter("url", "text", "the URL to open", default="about:blank", longest=100_000),
    ),
    {"do": "select", "tab": "t2"},
)
READ = Tool(
    "browser_read",
    "Read the page as markdown: headings, text, lists, tables, links and the values of form fields.",
    (START,),
    {},
)
SNAPSHOT = Tool(
    "browser_snapshot",
    "Get the accessibility tree of the page: role, name, reference, value and state of each element. Other browser "
    "tools take these references; they stay valid until the page changes to another URL.",
    (START,),
    {},
)
CLICK = Tool(
    "browser_click",
    "Click an element.",
    (
        REF,
        Parameter("button", "text", "mouse button", default="left", choices=("left", "middle", "right")),
        Parameter("count", "integer", "2 for a double click", default=1, least=1, most=3),
    ),
    {"ref": "e12"},
)
FILL = Tool(
    "browser_fill",
    "Replace the value of a form field and verify it. For checkboxes use true or false, for dates 2026-01-31, for "
    "select lists the label of the option.",
    (REF, Parameter("text", "text", "the new value", required=True)),
    {"ref": "e7", "text": "Ada Lovelace"},
)
SELECT = Tool(
    "browser_select",
    "Select options of a list by label or value.",
    (REF, Parameter("values", "texts", "labels or values of all options to select", required=True, items=100)),
    {"ref": "e9", "values": ["Norway"]},
)
UPLOAD = Tool(
    "browser_upload",
    "Upload files from the desk: ref is a file field, or a button that opens a file chooser.",
    (REF, Parameter("paths", "texts", "paths of the files on the desk", required=True, items=100, longest=4096)),
    {"ref": "e5", "paths": ["/home/user/report.csv"]},
)
PRESS = Tool(
    "browser_press",
    "Press keys in the page, one after another: Enter, Tab, Escape, ArrowDown, a, Control+a, Shift+Tab.",
    (Parameter("keys", "texts", "the keys, in order", required=True, items=200),),
    {"keys": ["Control+a", "Delete"]},
)
TYPE = Tool(
    "browser_type",
    "Type text into the focused element. To replace the value of a field, use browser_fill.",
    (Parameter("text", "text", "the text to type", required=True),),
    {"text": "Grüße, 世界"},
)
HOVER = Tool("browser_hover", "Move the mouse over an element, for example to open a menu.", (REF,), {"ref": "e3"})
SCROLL = Tool(
    "browser_scroll",
    "Scroll an element into view, or scroll the page by a number of screens.",
    (
        Parameter("ref", "text", "element reference to scroll into view", default="", longest=12),
        Parameter("down", "number", "screens to scroll down; negative scrolls up", default=0.0, least=-1000, most=1000),
        Parameter(
            "right", "number", "screens to scroll right; negative scrolls left", default=0.0, least=-1000, most=1000
        ),
    ),
    {"down": 0.8},
)
SCREENSHOT = Tool(
    "browser_screenshot",
    "Take a screenshot of the visible part of the tab, of the whole page, or of one element.",
    (
        Parameter("full", "flag", "capture the whole page", default=False),
        Parameter("ref", "text", "element reference, to capture only that element", default="", longest=12),
        Parameter("format", "text", "image format", default="png", choices=("png", "jpeg")),
    ),
    {"full": True},
)
EVALUATE = Tool(
    "browser_evaluate",
    "Evaluate a JavaScript expression in the page and return its value as JSON. Promises are awaited.",
    (Parameter("expression", "text", "the expression", required=True), TIMEOUT),
    {"expression": "document.querySelectorAll('tr').length"},
)
WAIT_FOR = Tool(
    "browser_wait_for",
    "Wait until a text appears or disappears, an element is visible, the URL matches, or loading is finished.",
    (
        Parameter(
            "what",
            "text",
            "the condition to wait for",
            required=True,
            choices=("text", "text_gone", "ref", "url", "load", "idle"),
        ),
        Parameter(
            "value",
            "text",
            "for text, text_gone, ref and url: the text, the reference, or the URL with * as wildcard",
            default="",
        ),
        TIMEOUT,
    ),
    {"what": "text", "value": "Order received"},
)
DOWNLOADS = Tool(
    "browser_downloads",
    "List the downloads and their paths on the desk; optionally wait until running downloads are finished.",
    (
        Parameter(
            "wait",
            "flag",
            "wait until running downloads are finished; if none runs, wait until one starts",
            default=False,
        ),
        Parameter("timeout", "number", "time limit in seconds", default=60.0, least=0.1, most=MAX_TIMEOUT_S),
    ),
    {"wait": True},
)
DIALOG = Tool(
    "browser_dialog",
    "Answer the JavaScript dialog that a page shows. Any other browser tool dismisses it first.",
    (
        Parameter("accept", "flag", "true presses OK or leaves the page, false presses Cancel or stays", required=True),
        Parameter("text", "text", "the text to enter in a prompt", default="", longest=10_000),
    ),
    {"accept": True},
)

ALL = (
    GOTO, HISTORY, TABS, READ, SNAPSHOT, CLICK, FILL, SELECT, UPLOAD, PRESS, TYPE, HOVER, SCROLL, SCREENSHOT, EVALUATE,
    WAIT_FOR, DOWNLOADS, DIALOG,
)  # fmt: skip
