"""Tests of what envd promises beyond the needs of E2B's SDKs: keepalives, tags, deadlines, encodings, file metadata."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from e2b import Sandbox

from tests.e2e.server.conftest import Served
from tests.e2e.server.envd_raw import FILESYSTEM, PROCESS, Envd, envd, envelope, octets, said

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def sandbox(server: Served) -> Iterator[Sandbox]:
    made = Sandbox.create(envs={"GIVEN": "by the sandbox"}, **server.e2b)
    yield made
    made.kill()


@pytest.fixture
def raw(server: Served, sandbox: Sandbox) -> Iterator[Envd]:
    with envd(server, sandbox) as found:
        yield found


def test_a_silent_programs_stream_has_keepalives(raw: Envd) -> None:
    with raw.stream(f"{PROCESS}/Start", raw.start("sleep 2.5"), Keepalive_Ping_Interval="1") as events:
        kinds = [next(iter(event.get("event", {"last": 0}))) for event in events]
    assert kinds == ["start", "keepalive", "keepalive", "end", "last"]


def test_a_silent_folders_stream_has_keepalives(raw: Envd) -> None:
    with raw.stream(f"{FILESYSTEM}/WatchDir", {"path": "/tmp"}, Keepalive_Ping_Interval="1") as events:
        assert [next(events), next(events)] == [{"start": {}}, {"keepalive": {}}]


def test_a_program_is_found_by_its_tag(raw: Envd) -> None:
    chosen = {"process": {"tag": "mine"}}
    start = raw.start("read x; echo $x", tag="mine", stdin=True)
    with raw.stream(f"{PROCESS}/Start", start) as events:
        pid = next(events)["event"]["start"]["pid"]
        listed = raw.unary(f"{PROCESS}/List", {}).json()["processes"]
        assert [one["pid"] for one in listed if one.get("tag") == "mine"] == [pid]
        with raw.stream(f"{PROCESS}/Connect", chosen) as others:
            assert next(others)["event"]["start"]["pid"] == pid
            fed = raw.unary(f"{PROCESS}/SendInput", {**chosen, "input": {"stdin": octets("told\n")}})
            assert fed.json() == {}
            assert said(next(others)) == said(next(events)) == "told\n"
    assert raw.unary(f"{PROCESS}/SendSignal", {"process": {"tag": "other"}, "signal": 9}).status_code == 404


def test_a_follower_has_a_deadline_and_the_program_none(raw: Envd) -> None:
    with raw.stream(f"{PROCESS}/Start", raw.start("sleep 30")) as events:
        chosen = {"process": {"pid": next(events)["event"]["start"]["pid"]}}
        with raw.stream(f"{PROCESS}/Connect", chosen, Connect_Timeout_Ms="500") as others:
            *_, last = others
        assert last["error"]["code"] == "deadline_exceeded"
        assert raw.unary(f"{PROCESS}/SendSignal", {**chosen, "signal": "SIGNAL_SIGTERM"}).json() == {}
        end = next(events)["event"]["end"]
    assert (end["exitCode"], end["exited"], end["status"]) == (-1, False, "signal: terminated")


def test_a_program_out_of_time_ends_with_the_deadline_alone(raw: Envd) -> None:
    with raw.stream(f"{PROCESS}/Start", raw.start("sleep 30"), Connect_Timeout_Ms="500") as events:
        first, last = events
    assert "start" in first["event"]
    assert last["error"]["code"] == "deadline_exceeded"


def test_a_watch_has_a_deadline(raw: Envd) -> None:
    with raw.stream(f"{FILESYSTEM}/WatchDir", {"path": "/tmp"}, Connect_Timeout_Ms="500") as events:
        first, last = events
    assert first == {"start": {}}
    assert last["error"]["code"] == "deadline_exceeded"


@pytest.mark.parametrize(
    ("accepted", "status", "encoding"),
    [
        ("gzip", 200, "gzip"),
        ("gzip, deflate", 200, None),
        ("identity", 200, None),
        ("", 200, None),
        ("gzip;q=1, identity;q=0", 200, "gzip"),
        ("br, identity;q=0", 406, None),
        ("*;q=0", 406, None),
    ],
)
def test_a_file_is_sent_in_an_encoding_its_caller_accepts(
    raw: Envd, accepted: str, status: int, encoding: str | None
) -> None:
    raw.client.post("/files?path=f", content=b"text" * 100, headers={"Content-Type": "application/octet-stream"})
    answer = raw.client.get("/files?path=f", headers={"Accept-Encoding": accepted})
    assert (answer.status_code, answer.headers.get("content-encoding")) == (status, encoding)
    assert answer.status_code != 200 or answer.content == b"text" * 100


@pytest.mark.parametrize(
    ("notes", "status"),
    [
        ({"a": "b"}, 200),
        ({"k" * 246: "v"}, 200),
        ({"k" * 247: "v"}, 400),
        ({f"k{n}": "v" * 500 for n in range(8)}, 200),
        ({f"k{n}": "v" * 600 for n in range(8)}, 400),
        ({"a": "h\xe4"}, 400),
    ],
    ids=["one", "a long name", "too long a name", "many", "too many", "no ASCII"],
)
def test_metadata_of_a_file_is_limited(raw: Envd, notes: dict[str, str], status: int) -> None:
    lines = [(f"X-Metadata-{key}".encode(), value.encode("latin-1")) for key, value in notes.items()]
    lines.append((b"Content-Type", b"application/octet-stream"))
    answer = raw.client.post("/files?path=noted", content=b"", headers=lines)
    assert answer.status_code == status, answer.text
    if status == 200:
        assert answer.json()[0]["metadata"] == notes
        assert raw.unary(f"{FILESYSTEM}/Stat", {"path": "noted"}).json()["entry"]["metadata"] == notes


def test_programs_have_the_variables_of_the_sandbox_and_their_own_above_them(raw: Envd) -> None:
    start = {"process": {"cmd": "/bin/bash", "args": ["-c", "echo $GIVEN $OWN"], "envs": {"OWN": "and mine"}}}
    with raw.stream(f"{PROCESS}/Start", start) as events:
        assert said(list(events)[1]) == "by the sandbox and mine\n"
    start["process"]["envs"] = {"GIVEN": "by me"}
    with raw.stream(f"{PROCESS}/Start", start) as events:
        assert said(list(events)[1]) == "by me\n"
    assert raw.client.get("/envs").json()["GIVEN"] == "by the sandbox"


def test_input_streamed_to_a_program_arrives_in_order(raw: Envd) -> None:
    with raw.stream(f"{PROCESS}/Start", raw.start("head -c 3", stdin=True)) as events:
        chosen = {"process": {"pid": next(events)["event"]["start"]["pid"]}}
        letters = [envelope({"data": {"input": {"stdin": octets(letter)}}}) for letter in "abc"]
        body = b"".join([envelope({"start": chosen}), envelope({"keepalive": {}}), *letters])
        with raw.stream(f"{PROCESS}/StreamInput", body) as answers:
            assert list(answers) == [{}, {}]
        assert "".join(said(one) for one in events if "data" in one.get("event", {})) == "abc"


# -- a sandbox that is killed -------------------------------------------------------------------------------------


def killed_while(server: Served, act: Callable[[Envd, Callable[[], None]], None]) -> None:
    """Kill a sandbox during a call; the call must fail as interrupted, and the next one must report that it is gone."""
    made = Sandbox.create(**server.e2b)
    with envd(server, made) as raw:
        with pytest.raises(httpx.TransportError):
            act(raw, lambda: threading.Timer(0.3, made.kill).start())
        for _ in range(100):
            if not made.is_running():
                break
            time.sleep(0.1)
        gone = raw.client.get("/health")
    assert (gone.status_code, gone.json()["message"]) == (502, "The sandbox was not found")


def test_an_upload_is_interrupted_when_its_sandbox_is_killed(server: Served) -> None:
    def upload(raw: Envd, kill: Callable[[], None]) -> None:
        def data() -> Iterator[bytes]:
            yield bytes(1 << 16)
            kill()
            while True:
                time.sleep(0.05)
                yield bytes(1 << 10)

        raw.client.post("/files?path=f", content=data(), headers={"Content-Type": "application/octet-stream"})

    killed_while(server, upload)


def test_a_download_is_interrupted_when_its_sandbox_is_killed(server: Served) -> None:
    def download(raw: Envd, kill: Callable[[], None]) -> None:
        with raw.stream(f"{PROCESS}/Start", raw.start("truncate -s 500G big")) as events:
            list(events)
        with raw.client.stream("GET", "/files?path=big") as answer:
            kill()
            for _ in answer.iter_raw():
                time.sleep(0.01)

    killed_while(server, download)


def test_a_watch_is_interrupted_when_its_sandbox_is_killed(server: Served) -> None:
    def watch(raw: Envd, kill: Callable[[], None]) -> None:
        with raw.stream(f"{FILESYSTEM}/WatchDir", {"path": "/tmp"}) as events:
            kill()
            list(events)

    killed_while(server, watch)


def test_files_are_handled_again_after_their_program_was_killed(sandbox: Sandbox) -> None:
    sandbox.files.write("kept", "kept")
    sandbox.commands.run("pkill -f '[e]xec.sys.stdin.buffer'", user="root")
    assert sandbox.files.read("kept") == "kept"
    sandbox.commands.run("(sleep 0.2; pkill python3) >/dev/null 2>&1 &", user="root")
    time.sleep(1)
    assert sandbox.files.read("kept") == "kept"
