"""Search a desk's files by content or by name."""

from __future__ import annotations

from hotdesk.desk.seam import Desk, Done
from hotdesk.errors import make_printable
from hotdesk.hands.file_view import fit_lines
from hotdesk.hands.output import escape_line
from hotdesk.hands.paths import make_absolute
from hotdesk.tool import Arguments, Observation, Parameter, Tool, get_flag, get_integer, get_text

TIMEOUT_S = 60.0
WIDTH = 300
"""Characters of a line that are shown."""
OUTPUT = 1 << 18
HEAD = 'n=$1; shift; rg "$@" | head -n "$n"; exit ${PIPESTATUS[0]}'
_CUT_OFF = 128 + 13
"""rg's exit code after SIGPIPE: `head` had enough lines."""
_COMPLETE = (0, 1, _CUT_OFF)
_ENDS = (*_COMPLETE, 2)
"""rg's own exit codes; 2 is an error, which it explains. Otherwise it did not start, or was killed."""
WHERE = Parameter("path", "text", "folder or file to search", default=".", longest=4096)
LIMIT = Parameter("limit", "integer", "maximum number of lines to return", default=100, least=1, most=1000)
ALL = Parameter("all", "flag", "include hidden and git-ignored files", default=False)

SEARCH = Tool(
    "search",
    "Search files for lines that match a regular expression (ripgrep syntax).",
    (
        Parameter("pattern", "text", "the regular expression", required=True, longest=2000),
        WHERE,
        Parameter("glob", "text", "only files that match this glob, such as *.py", longest=500),
        Parameter("context", "integer", "lines to show before and after", default=0, least=0, most=20),
        Parameter("ignore_case", "flag", "ignore upper and lower case", default=False),
        LIMIT,
        ALL,
    ),
    {"pattern": "def main", "path": ".", "glob": "*.py", "context": 2},
    parallel=True,
)
_FIND = Tool(
    "find_files",
    "Find files by name; the most recently changed come first.",
    (
        Parameter("glob", "text", "glob of the names, such as *.xlsx or report/**/*.md", required=True, longest=500),
        WHERE,
        LIMIT,
        ALL,
    ),
    {"glob": "*.xlsx", "path": "."},
    parallel=True,
)


class Search:
    tools = (SEARCH, _FIND)

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def use(self, tool: str, arguments: Arguments) -> Observation:
        options = _build_lines_options(arguments) if tool == "search" else ["--files", "--sortr=modified"]
        if glob := get_text(arguments, "glob"):
            options.append(f"--glob={glob}")
        if get_flag(arguments, "all"):
            options += ["--hidden", "--no-ignore"]
        if tool == "search":
            options.append(f"--regexp={get_text(arguments, 'pattern')}")
        path, limit = make_absolute(self.desk, get_text(arguments, "path") or "."), get_integer(arguments, "limit", 100)
        argv = ["bash", "-c", HEAD, "bash", str(limit), "--no-config", "--color=never", *options, "--", path]
        done = await self.desk.run(argv, timeout=TIMEOUT_S, output_limit=OUTPUT)
        return tell(done, path, limit)


def _build_lines_options(arguments: Arguments) -> list[str]:
    context = get_integer(arguments, "context")
    options = ["--line-number", "--no-heading", "--with-filename", f"--max-columns={WIDTH}", "--max-columns-preview"]
    return [*options, f"--context={context}", *(["--ignore-case"] if get_flag(arguments, "ignore_case") else [])]


def tell(done: Done, path: str, limit: int) -> Observation:
    if done.timed_out:
        return Observation(
            f"The search took more than {TIMEOUT_S:.0f} seconds. Search a smaller folder than {path}.", ok=False
        )
    if done.exit_code == 127:
        return Observation("This desk has no ripgrep. Use grep or find in the shell.", ok=False)
    why = make_printable(" ".join(done.stderr.decode("utf-8", "replace").split())[:1000])
    lines = (
        [escape_line(line.removesuffix("\r")) for line in done.text.removesuffix("\n").split("\n")] if done.text else []
    )
    if done.exit_code not in _ENDS:
        memory = "; the desk ran out of memory" if done.out_of_memory else ""
        ended = f"the search ended before it was complete (exit code {done.exit_code}{memory}); search a smaller folder"
        why = f"{ended}. {why}"
    if not lines and done.exit_code not in _COMPLETE:
        return Observation(f"The search failed: {why}".rstrip(), ok=False)
    if not lines:
        return Observation(f"Nothing in {make_printable(path)} matches. {why}".rstrip())
    text, omitted = fit_lines(lines)
    cut = omitted or done.exit_code == _CUT_OFF or len(lines) == limit
    return Observation(
        text, note="there may be more results: narrow the search, or raise limit" if cut else why.rstrip()
    )
