"""Tests of a pod's first program and the guest it runs, as a process that connects to a real listener."""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path

import anyio
import pytest
from tests.pod_room import open_pod_room, run_pod

from hotdesk.desk.pod.seed import build_seed
from hotdesk.errors import HotdeskError
from hotdesk_guest.dial import connect

pytestmark = pytest.mark.anyio


async def test_programs_and_files_over_a_connection_that_the_pod_made(tmp_path: Path) -> None:
    async with open_pod_room() as room:
        guest = room.expect()
        guest.locate("127.0.0.1")
        with run_pod(room.build_order(guest)) as pod:
            desk = await room.link(guest)
            done = await desk.run(["sh", "-c", "echo $COLOUR; env; exit 3"])
            assert (done.exit_code, done.text.splitlines()[0]) == (3, "blue")
            assert "HOTDESK_TOKEN" not in done.text
            assert "HOTDESK_CERTIFICATE" not in done.text
            data = bytes(range(256)) * 16384
            await desk.write("data.bin", data)
            assert await desk.read("data.bin") == data
            assert (await desk.run(["sh", "-c", "wc -c < data.bin"])).text.strip() == str(len(data))
            assert (await desk.run(["wc", "-c"], stdin=b"x" * 2_000_000)).text == "2000000\n"
            assert (await desk.run(["sh", "-c", "yes | head -c 5000000"])).stdout == b"y\n" * 2_500_000
            desk.hang_up()
            with anyio.fail_after(10):
                while pod.poll() is None:
                    await anyio.sleep(0.02)
        assert room.ended == [guest.desk]


async def test_programs_reach_the_gate_and_only_with_a_door(tmp_path: Path) -> None:
    dial = (
        "import socket,sys\n"
        "s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5)\n"
        "s.sendall(b'question'); s.shutdown(1); print(s.makefile().read())"
    )
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "gate.sock"))
        door.listen()
        async with open_pod_room() as room:
            guest = room.expect()
            guest.locate("127.0.0.1")
            with run_pod(room.build_order(guest)):
                desk = await room.link(guest)
                argv = [sys.executable, "-c", dial, str(room.gate[1])]
                refused = await desk.run(argv)
                assert refused.text.strip() == ""
                assert guest.streams is not None
                guest.streams.gate = str(tmp_path / "gate.sock")

                def answer() -> bytes:
                    sock, _ = door.accept()
                    with sock:
                        question = sock.recv(100)
                        sock.sendall(b"answer")
                    return question

                async with anyio.create_task_group() as tasks:
                    questions: list[bytes] = []

                    async def serve() -> None:
                        questions.append(await anyio.to_thread.run_sync(answer))

                    tasks.start_soon(serve)
                    done = await desk.run(argv)
                assert (done.text.strip(), questions) == ("answer", [b"question"])


async def test_ports_inside_are_reached_through_the_guest() -> None:
    async with open_pod_room() as room:
        guest = room.expect()
        guest.locate("127.0.0.1")
        with run_pod(room.build_order(guest)):
            desk = await room.link(guest)
            ask = await desk.link.open({"op": "dial", "port": 1})
            item = await ask.receive()
            assert "error" in getattr(item, "body", {})


async def test_another_python_gets_the_source() -> None:
    async with open_pod_room() as room:
        guest = room.expect()
        guest.build_seed = lambda python: build_seed(b"other", {}, gate=room.gate)
        guest.locate("127.0.0.1")
        with run_pod(room.build_order(guest)):
            desk = await room.link(guest)
            assert (await desk.run(["true"])).ok


async def test_a_killed_pod_ends_its_link() -> None:
    async with open_pod_room() as room:
        guest = room.expect()
        guest.locate("127.0.0.1")
        with run_pod(room.build_order(guest)) as pod:
            desk = await room.link(guest)
            pod.kill()
            with pytest.raises(HotdeskError), anyio.fail_after(10):
                await desk.run(["sleep", "20"])
        assert room.ended == [guest.desk]


def test_a_pod_whose_first_packets_are_refused_connects_later() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))  # nothing accepts yet, so attempts are refused
        threading.Timer(0.5, listening.listen).start()
        with connect(*listening.getsockname()) as sock:
            assert sock.getpeername() == listening.getsockname()
            assert sock.gettimeout() == 60
