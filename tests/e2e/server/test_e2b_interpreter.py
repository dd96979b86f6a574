"""Tests of E2B's code interpreter package, unchanged, at this server."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from e2b import InvalidArgumentException, NotFoundException, SandboxException, TimeoutException
from e2b_code_interpreter import AsyncSandbox, Sandbox
from e2b_code_interpreter.charts import BarChart, BoxAndWhiskerChart, LineChart, PieChart, ScatterChart, SuperChart
from e2b_code_interpreter.models import Context, ExecutionError, OutputMessage, Result

from hotdesk.api.e2b import templates
from hotdesk.desk.seam import Spec
from hotdesk.host import Host
from tests.conftest import settings_in
from tests.e2e.server.conftest import Served

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]

PNG = b"\x89PNG"
DRAW = "import matplotlib.pyplot as plt\n"


@pytest.fixture(scope="module")
def sandbox(server: Served) -> Iterator[Sandbox]:
    found = Sandbox.create(envs={"CITY": "Bern"}, **server.e2b)
    yield found
    found.kill()


@pytest.fixture
async def same(sandbox: Sandbox, server: Served) -> AsyncSandbox:
    return await AsyncSandbox.connect(sandbox.sandbox_id, **server.e2b)


# -- Python ----------------------------------------------------------------------------------------------------


def test_only_callers_who_may_run_commands_may_run_code(server: Served, sandbox: Sandbox) -> None:
    aim = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49999", "X-Access-Token": "guessed"}
    told = httpx.post(f"{server.url}/execute", headers=aim, json={"code": "1"})
    assert told.status_code == 401


def test_the_value_of_the_last_line_is_the_main_result(sandbox: Sandbox) -> None:
    done = sandbox.run_code("x = 20\nx + 22")
    assert done.text == "42"
    assert [each.is_main_result for each in done.results] == [True]
    assert done.error is None


def test_state_stays_and_executions_are_counted(sandbox: Sandbox) -> None:
    context = sandbox.create_code_context()
    assert sandbox.run_code("y = 7", context=context).execution_count == 1
    second = sandbox.run_code("y", context=context)
    assert (second.text, second.execution_count) == ("7", 2)


@pytest.mark.parametrize(
    ("code", "stdout", "stderr"),
    [
        pytest.param("print('a'); print('b')", "a\nb\n", "", id="print"),
        pytest.param("import sys; print('e', file=sys.stderr)", "", "e\n", id="stderr"),
        pytest.param("!pwd", "/home/user\n", "", id="shell"),
        pytest.param("import os; os.system('echo sub; echo err >&2')", "sub\n", "err\n", id="child"),
        pytest.param("import sys; _ = sys.stdout.buffer.write('ü'.encode())", "ü", "", id="bytes"),
        pytest.param("print('\\ud800 x')", "\\ud800 x\n", "", id="lone-surrogate"),
        pytest.param("import asyncio\nawait asyncio.sleep(0)\nprint('later')", "later\n", "", id="await"),
        pytest.param("print('x' * 300000, end='')", "x" * 300000, "", id="much"),
        pytest.param("%%bash\necho $CITY", "Bern\n", "", id="magic"),
    ],
)
def test_what_python_prints_is_reported(sandbox: Sandbox, code: str, stdout: str, stderr: str) -> None:
    done = sandbox.run_code(code)
    assert done.error is None
    assert "".join(done.logs.stdout).replace("\r\n", "\n") == stdout
    assert "".join(done.logs.stderr) == stderr


@pytest.mark.parametrize(
    ("code", "form", "value"),
    [
        pytest.param("'text'", "text", "text", id="text-without-quotes"),
        pytest.param("from IPython.display import HTML; HTML('<b>x</b>')", "html", "<b>x</b>", id="html"),
        pytest.param("from IPython.display import Markdown; Markdown('# t')", "markdown", "# t", id="markdown"),
        pytest.param("from IPython.display import Latex; Latex('$x$')", "latex", "$x$", id="latex"),
        pytest.param("from IPython.display import JSON; JSON({'a': 1})", "json", {"a": 1}, id="json"),
        pytest.param("from IPython.display import SVG; SVG('<svg/>')", "svg", "<svg/>", id="svg"),
        pytest.param("from IPython.display import Javascript; Javascript('1')", "javascript", "1", id="javascript"),
        pytest.param(
            "import pandas as pd; pd.DataFrame({'a': [1, 2], 't': pd.to_datetime(['2026-01-01', None])})",
            "data",
            {"a": [1, 2], "t": ["2026-01-01T00:00:00", None]},
            id="table",
        ),
        pytest.param(
            "from IPython.display import display; display({'x/y': 'z'}, raw=True)", "extra", {"x/y": "z"}, id="other"
        ),
    ],
)
def test_values_are_returned_in_every_format_they_have(sandbox: Sandbox, code: str, form: str, value: object) -> None:
    done = sandbox.run_code(code)
    assert done.error is None
    assert done.results[-1][form] == value


def test_a_table_has_its_html_too(sandbox: Sandbox) -> None:
    result = sandbox.run_code("import pandas as pd; pd.DataFrame({'a': [1]})").results[0]
    assert {"text", "html", "data"} <= set(result.formats())
    assert "<table" in (result.html or "")


@pytest.mark.parametrize(
    ("code", "kind", "first"),
    [
        pytest.param("plt.plot([1, 2], [3, 4], label='l')", LineChart, [(1, 3), (2, 4)], id="line"),
        pytest.param("plt.scatter([1, 2], [3, 4])", ScatterChart, [(1, 3), (2, 4)], id="scatter"),
        pytest.param("plt.bar(['a', 'b'], [1, 2])", BarChart, "a", id="bar"),
        pytest.param("plt.pie([1, 3], labels=['a', 'b'])", PieChart, "a", id="pie"),
        pytest.param("plt.boxplot([[1, 2, 3, 4, 5], [1, 4, 9]], patch_artist=True)", BoxAndWhiskerChart, 3, id="box"),
        pytest.param("plt.boxplot([[1, 2, 3, 4, 5], [1, 4, 9]])", BoxAndWhiskerChart, 3, id="box of lines"),
        pytest.param(
            "plt.boxplot([[1, 2, 3], [1, 4, 9]], labels=['a', 'b'])", BoxAndWhiskerChart, "a", id="box with labels"
        ),
        pytest.param("f, a = plt.subplots(1, 2); a[0].plot([1]); a[1].bar(['x'], [1])", SuperChart, "line", id="two"),
    ],
)
def test_a_figure_is_a_picture_and_a_chart(sandbox: Sandbox, code: str, kind: type[Any], first: object) -> None:
    done = sandbox.run_code(f"{DRAW}{code}\nplt.title('T')\nplt.show()")
    assert done.error is None, done.error
    result = next(each for each in done.results if each.png)
    assert base64.b64decode(result.png or "").startswith(PNG)
    chart = result.chart
    assert isinstance(chart, kind)
    element = chart.elements[0]
    told = [getattr(element, name, None) for name in ("points", "label", "median", "type")]
    assert first in told


def test_a_figure_that_code_leaves_open_is_shown_once(sandbox: Sandbox) -> None:
    done = sandbox.run_code(f"{DRAW}plt.plot([1, 2]); plt.savefig('/tmp/f.png')\nNone")
    assert [bool(each.png) for each in done.results] == [True]


@pytest.mark.parametrize("act", ["show()", "save('/tmp/p.png')"], ids=["shown", "saved"])
def test_a_picture_that_code_shows_or_saves_is_displayed(sandbox: Sandbox, act: str) -> None:
    done = sandbox.run_code(f"from PIL import Image; Image.new('RGB', (4, 4)).{act}")
    assert done.error is None
    assert base64.b64decode(done.results[0].png or "").startswith(PNG)


@pytest.mark.parametrize(
    ("code", "name", "value"),
    [
        pytest.param("1 / 0", "ZeroDivisionError", "division by zero", id="runtime"),
        pytest.param("def f(:", "SyntaxError", "invalid syntax", id="syntax"),
        pytest.param("input()", "EOFError", "", id="no-keyboard"),
        pytest.param("import sys; sys.exit(3)", "SystemExit", "3", id="exit"),
    ],
)
def test_an_error_is_reported_without_colours(sandbox: Sandbox, code: str, name: str, value: str) -> None:
    error = sandbox.run_code(code).error
    assert error is not None
    assert error.name == name
    assert value in error.value
    assert name in error.traceback
    assert "\x1b" not in error.traceback


def test_a_dead_kernel_is_reported_and_the_next_code_gets_a_new_one(sandbox: Sandbox) -> None:
    context = sandbox.create_code_context()
    error = sandbox.run_code("import os; os._exit(4)", context=context).error
    assert error is not None
    assert error.name == "KernelDied"
    again = sandbox.run_code("1 + 1", context=context)
    assert (again.text, again.execution_count) == ("2", 1)


def test_everything_is_reported_as_it_happens(sandbox: Sandbox) -> None:
    out: list[OutputMessage] = []
    err: list[OutputMessage] = []
    results: list[Result] = []
    errors: list[ExecutionError] = []
    sandbox.run_code(
        "import sys\nprint('o')\nprint('e', file=sys.stderr)\ndisplay('r')\n1/0",
        on_stdout=out.append,
        on_stderr=err.append,
        on_result=results.append,
        on_error=errors.append,
    )
    assert [each.line for each in out] == ["o\n"]
    assert [(each.line, each.error) for each in err] == [("e\n", True)]
    assert abs(out[0].timestamp / 1e9 - time.time()) < 3600
    assert [each.text for each in results] == ["r"]
    assert [each.name for each in errors] == ["ZeroDivisionError"]


def test_an_execution_can_be_serialised_as_json(sandbox: Sandbox) -> None:
    done = sandbox.run_code("print('o')\ndisplay('r')\n1/0")
    told = json.loads(done.to_json())
    assert json.loads(told["logs"]) == json.loads(done.logs.to_json()) == {"stdout": ["o\n"], "stderr": []}
    assert [each["text"] for each in told["results"]] == ["r"]
    assert done.error is not None
    assert json.loads(done.error.to_json())["name"] == "ZeroDivisionError"
    assert (done.results[0]._repr_html_(), str(OutputMessage("line", 0))) == (None, "line")


# -- languages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "code", "stdout", "text"),
    [
        pytest.param("javascript", "console.log('hi'); 6 * 7", "hi\n", "42", id="value"),
        pytest.param("js", "const s = await Promise.resolve('later'); s", "", "later", id="await"),
        pytest.param("js", "import { basename } from 'path'; basename('/a/b')", "", "b", id="import"),
        pytest.param("js", "import fs from 'node:fs'\ntypeof fs.readFileSync", "", "function", id="import-default"),
        pytest.param("js", "require('os').EOL.length", "", "1", id="require"),
        pytest.param("js", "process.env.CITY", "", "Bern", id="variables"),
        pytest.param("bash", "echo $CITY; cd /tmp; pwd", "Bern\n/tmp\n", None, id="bash"),
        pytest.param("bash", "x=1; f() { echo f$x; }; f", "f1\n", None, id="bash-function"),
    ],
)
def test_other_languages_run(sandbox: Sandbox, language: str, code: str, stdout: str, text: str | None) -> None:
    done = sandbox.run_code(code, language=language)
    assert done.error is None, done.error
    assert "".join(done.logs.stdout) == stdout
    assert done.text == text


@pytest.mark.parametrize(
    ("language", "first", "second", "seen"),
    [
        pytest.param("javascript", "let kept = 5", "console.log(kept)", "5\n", id="javascript"),
        pytest.param("bash", "kept=5", "echo $kept", "5\n", id="bash"),
    ],
)
def test_state_stays_in_every_language(sandbox: Sandbox, language: str, first: str, second: str, seen: str) -> None:
    context = sandbox.create_code_context(language=language)
    sandbox.run_code(first, context=context)
    assert sandbox.run_code(second, context=context).logs.stdout == [seen]


@pytest.mark.parametrize(
    ("language", "code", "name", "value"),
    [
        pytest.param("javascript", "throw new TypeError('no')", "TypeError", "no", id="thrown"),
        pytest.param("javascript", "await Promise.reject(new Error('late'))", "Error", "late", id="rejected"),
        pytest.param("javascript", "let = ;", "SyntaxError", "Unexpected", id="syntax"),
        pytest.param("javascript", "if (1) {", "SyntaxError", "Unexpected end", id="unfinished"),
        pytest.param("bash", "(exit 3)", "ExitStatus", "3", id="bash"),
        pytest.param("bash", "exit 2", "KernelDied", "ended with exit code 2", id="bash-ends"),
    ],
)
def test_errors_of_other_languages_are_reported(
    sandbox: Sandbox, language: str, code: str, name: str, value: str
) -> None:
    error = sandbox.run_code(code, language=language).error
    assert error is not None
    assert error.name == name
    assert value in error.value


@pytest.mark.parametrize("language", ["typescript", "r", "java", "cobol"])
def test_an_unsupported_language_is_refused_with_the_supported_ones(sandbox: Sandbox, language: str) -> None:
    with pytest.raises(SandboxException, match="the languages are python, javascript, bash"):
        sandbox.run_code("1", language=language)


# -- variables -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "code"),
    [
        pytest.param("python", "import os; print(os.environ.get('CITY'), os.environ.get('ONCE'))", id="python"),
        pytest.param("javascript", "console.log(process.env.CITY, process.env.ONCE ?? 'None')", id="javascript"),
        pytest.param("bash", "echo $CITY ${ONCE-None}", id="bash"),
    ],
)
def test_variables_of_a_call_are_restored_afterwards(sandbox: Sandbox, language: str, code: str) -> None:
    told = sandbox.run_code(code, language=language, envs={"CITY": "It's Oslo", "ONCE": "a b"})
    assert told.logs.stdout == ["It's Oslo a b\n"]
    assert sandbox.run_code(code, language=language).logs.stdout == ["Bern None\n"]


# -- contexts --------------------------------------------------------------------------------------------------


def test_contexts_are_made_listed_restarted_and_removed(sandbox: Sandbox) -> None:
    context = sandbox.create_code_context(cwd="/tmp", language="python")
    assert (context.language, context.cwd) == ("python", "/tmp")
    assert sandbox.run_code("import os; z = 1; os.getcwd()", context=context).text == "/tmp"
    listed = sandbox.list_code_contexts()
    assert {"python", "javascript"} <= {each.language for each in listed}
    assert listed[-1].id == context.id
    sandbox.restart_code_context(context)
    error = sandbox.run_code("z", context=context).error
    assert error is not None
    assert error.name == "NameError"
    sandbox.remove_code_context(context.id)
    assert context.id not in {each.id for each in sandbox.list_code_contexts()}
    with pytest.raises(NotFoundException):
        sandbox.run_code("1", context=context)


def test_a_context_is_read_from_the_servers_reply(server: Served, sandbox: Sandbox) -> None:
    aim = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49999"}
    aim["E2B-Traffic-Access-Token"] = str(sandbox.traffic_access_token)
    told = [Context.from_json(each) for each in httpx.get(f"{server.url}/contexts", headers=aim).json()]
    assert {each.id for each in told} == {each.id for each in sandbox.list_code_contexts()}
    with pytest.raises(KeyError, match="id"):
        Context.from_json({})


def test_contexts_do_not_see_each_other(sandbox: Sandbox) -> None:
    sandbox.run_code("secret = 1", context=sandbox.create_code_context())
    error = sandbox.run_code("secret", context=sandbox.create_code_context()).error
    assert error is not None
    assert error.name == "NameError"


def test_an_unknown_context_is_not_found(sandbox: Sandbox) -> None:
    with pytest.raises(NotFoundException):
        sandbox.remove_code_context("nobody")
    with pytest.raises(NotFoundException):
        sandbox.restart_code_context("nobody")


def test_a_context_in_a_folder_that_is_not_there_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxException, match="is not a folder"):
        sandbox.create_code_context(cwd="/nowhere")


def test_a_context_and_a_language_at_once_are_refused(sandbox: Sandbox) -> None:
    context = sandbox.list_code_contexts()[0]
    with pytest.raises(InvalidArgumentException):
        sandbox.run_code("1", language="python", context=context)


# -- time ------------------------------------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("language", "code", "kept"),
    [
        pytest.param("python", "a = 1\nwhile True: pass", "print(a)", id="python"),
        pytest.param("python", "a = 1\nimport time; time.sleep(60)", "print(a)", id="python-sleeps"),
        pytest.param("javascript", "var a = 1; while (true) {}", "console.log(a)", id="javascript"),
        pytest.param("javascript", "var a = 1; await new Promise(() => {})", "console.log(a)", id="javascript-waits"),
        pytest.param("bash", "a=1; sleep 60", "echo $a", id="bash"),
    ],
)
def test_code_that_takes_too_long_is_stopped_and_its_state_kept(
    sandbox: Sandbox, language: str, code: str, kept: str
) -> None:
    context = sandbox.create_code_context(language=language)
    with pytest.raises(TimeoutException):
        sandbox.run_code(code, context=context, timeout=1)
    assert sandbox.run_code(kept, context=context, timeout=30).logs.stdout == ["1\n"]


def test_code_that_ignores_an_interrupt_loses_its_kernel(sandbox: Sandbox) -> None:
    context = sandbox.create_code_context()
    stubborn = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    with pytest.raises(TimeoutException):
        sandbox.run_code(stubborn, context=context, timeout=1)
    assert sandbox.run_code("1 + 1", context=context, timeout=30).text == "2"


@pytest.mark.long
def test_code_may_be_silent_for_longer_than_a_keepalive(sandbox: Sandbox) -> None:
    assert sandbox.run_code("import time; time.sleep(6); 'done'").text == "done"


# -- asynchronous programs ---------------------------------------------------------------------------------------


async def test_an_async_program_runs_code_and_gets_its_output(same: AsyncSandbox) -> None:
    heard: list[str] = []

    async def hear(message: OutputMessage) -> None:
        heard.append(message.line)

    done = await same.run_code("print('x')\n'v'", on_stdout=hear)
    assert (done.text, heard) == ("v", ["x\n"])


async def test_an_async_program_manages_contexts(same: AsyncSandbox) -> None:
    context = await same.create_code_context(cwd="/tmp", language="bash")
    assert context.id in {each.id for each in await same.list_code_contexts()}
    await same.run_code("v=1", context=context)
    await same.restart_code_context(context)
    assert (await same.run_code("echo -$v-", context=context)).logs.stdout == ["--\n"]
    await same.remove_code_context(context)
    with pytest.raises(NotFoundException):
        await same.run_code("1", context=context)


async def test_an_async_program_gets_errors(same: AsyncSandbox) -> None:
    errors: list[str] = []
    results: list[str | None] = []
    done = await same.run_code(
        "import sys\nprint('e', file=sys.stderr)\ndisplay('r')\n1/0",
        on_stderr=lambda message: errors.append(message.line),
        on_result=lambda result: results.append(result.text),
        on_error=lambda error: errors.append(error.name),
    )
    assert (errors, results) == (["e\n", "ZeroDivisionError"], ["r"])
    assert done.error is not None
    with pytest.raises(SandboxException, match="is not a folder"):
        await same.create_code_context(cwd="/nowhere")
    with pytest.raises(NotFoundException):
        await same.restart_code_context("nobody")
    with pytest.raises(NotFoundException):
        await same.remove_code_context("nobody")
    with pytest.raises(SandboxException, match="the languages are python, javascript, bash"):
        await same.run_code("1", language="cobol")
    with pytest.raises(TimeoutException):
        await same.run_code("while True: pass", timeout=1)


async def test_code_in_one_context_waits_its_turn(same: AsyncSandbox) -> None:
    context = await same.create_code_context()
    code = "n = globals().get('n', 0); import time; m = n; time.sleep(0.2); n = m + 1; n"
    done = await asyncio.gather(*(same.run_code(code, context=context) for _ in range(3)))
    assert sorted(each.text or "" for each in done) == ["1", "2", "3"]


# -- sandboxes that run no code -----------------------------------------------------------------------------------


async def test_code_in_a_sandbox_without_an_interpreter_or_in_an_ended_one_is_refused(server: Served) -> None:
    plain = Sandbox.create("base", timeout=60, **server.e2b)
    other = await AsyncSandbox.connect(plain.sandbox_id, **server.e2b)
    with pytest.raises(SandboxException, match="port is not open"):
        plain.list_code_contexts()
    with pytest.raises(SandboxException, match="port is not open"):
        await other.list_code_contexts()
    plain.kill()
    with pytest.raises(TimeoutException, match="not found"):
        plain.run_code("1")
    with pytest.raises(TimeoutException, match="not found"):
        await other.run_code("1")


# -- ready desks --------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_desk_that_is_kept_ready_runs_code_with_the_variables_it_is_opened_with(home: Path) -> None:
    folder = home / f"ready-{time.monotonic_ns()}"
    folder.mkdir(mode=0o755)
    spec = Spec(image="code-interpreter-v1", env={"CITY": "Rome"})
    async with Host(settings_in(folder)) as host:
        host.keep_ready(spec, 1)
        await host.pool.wait_until_full()
        desk = await host.open(spec)
        await templates.start(desk, spec.image)
        told = json.dumps({"code": "import os; os.environ['CITY']"})
        done = await desk.run(["curl", "--silent", "http://127.0.0.1:49999/execute", "--data", told])
        assert '"text": "Rome"' in done.text
        await host.burn(desk.id)
