"""The Python kernel: IPython's shell, whose output, results and errors are sent to the server as events."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from IPython.core import page
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from hotdesk_interpreter import showing

BATCH = 0.05
"""Seconds that output is collected before it is sent."""
LARGE = 1 << 14
"""Characters of output above which it is sent at once."""


class EventChannel:
    """The destination of events, shared by all threads."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.lock = threading.RLock()
        self.waiting: list[tuple[str, str]] = []
        self.size = 0
        self.something = threading.Event()
        threading.Thread(target=self.flush_now_and_then, daemon=True, name="output").start()

    def say(self, kind: str, text: str) -> None:
        """Queue output, to be sent together with output that follows soon."""
        with self.lock:
            self.waiting.append((kind, text))
            self.size += len(text)
            if self.size > LARGE:
                self.flush()
        self.something.set()

    def flush(self) -> None:
        with self.lock:
            waiting, self.waiting, self.size = self.waiting, [], 0
            while waiting:
                kind = waiting[0][0]
                many = next((n for n, each in enumerate(waiting) if each[0] != kind), len(waiting))
                text = "".join(each[1] for each in waiting[:many])
                del waiting[:many]
                self.write({"type": kind, "text": text, "timestamp": time.time_ns()})

    def flush_now_and_then(self) -> None:
        """Send pending output after a short delay, even if no more follows."""
        while True:
            self.something.wait()
            self.something.clear()
            time.sleep(BATCH)
            self.flush()

    def tell(self, event: Mapping[str, object]) -> None:
        with self.lock:
            self.flush()
            self.write(event)

    def write(self, event: Mapping[str, object]) -> None:
        view = memoryview(json.dumps(event, default=str).encode("utf-8", "replace") + b"\n")
        while view:
            view = view[os.write(self.fd, view) :]


class OutputStream(io.RawIOBase):
    """The bytes of an output stream, reported as text."""

    def __init__(self, channel: EventChannel, kind: str, fd: int) -> None:
        self.channel, self.kind, self.fd = channel, kind, fd
        self.rest = b""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.fd

    def write(self, data: Any) -> int:
        """Send text; the bytes of an incomplete character are kept until the rest arrives."""
        whole = self.rest + bytes(data)
        cut = len(whole) if not whole or whole[-1] < 0x80 else _find_partial_character(whole)
        text, self.rest = whole[:cut].decode("utf-8", "replace"), whole[cut:]
        if text:
            self.channel.say(self.kind, text)
        return len(data)


def _find_partial_character(data: bytes) -> int:
    for back in range(1, min(4, len(data)) + 1):
        lead = data[-back]
        if lead >= 0xC0:
            length = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return len(data) if back >= length else len(data) - back
    return len(data)


class ResultHook(DisplayHook):  # type: ignore[misc]
    """Reports the value of the last expression of code."""

    def start_displayhook(self) -> None:
        """Write nothing before the value."""

    def write_output_prompt(self) -> None:
        """Write no number before the value."""

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        self.shell.channel.tell(showing.make_result(format_dict, main=True))

    def finish_displayhook(self) -> None:
        """Write nothing after the value."""


class Displayed(DisplayPublisher):  # type: ignore[misc]
    """Reports output that code displays."""

    def publish(self, data: Any, *_: Any, **__: Any) -> None:
        self.shell.channel.tell(showing.make_result(data, main=False))

    def clear_output(self, wait: bool = False) -> None:
        """Do nothing: events that were sent cannot be taken back."""


class InterpreterShell(InteractiveShell):  # type: ignore[misc]
    """IPython's shell without a terminal."""

    channel: EventChannel
    interrupt_handler: Any = signal.default_int_handler
    """What SIGINT does while code runs; code may change it."""

    def init_displayhook(self) -> None:
        self.displayhook_class = ResultHook
        super().init_displayhook()

    def init_display_pub(self) -> None:
        self.display_pub_class = Displayed
        super().init_display_pub()

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        name = getattr(etype, "__name__", str(etype))
        self.channel.tell({"type": "error", "name": name, "value": as_text(evalue), "traceback": "\n".join(stb)})


def as_text(value: object) -> str:
    try:
        return str(value)
    except Exception as e:  # noqa: BLE001 - whatever a program's own error does
        return f"(the message of the error cannot be shown: str() raised {type(e).__name__})"


def _make_shell(channel: EventChannel) -> InterpreterShell:
    InterpreterShell.channel = channel
    shell: InterpreterShell = InterpreterShell.instance(colors="nocolor", history_length=1000)
    shell.history_manager.enabled = False
    shell.user_ns["__name__"] = "__main__"
    page.page = lambda text, *_, **__: print(text["text/plain"] if isinstance(text, dict) else text)
    shell.set_hook("show_in_pager", lambda _self, text, *_: page.page(text))
    showing.equip(shell)
    return shell


def settle(env: Mapping[str, str], cwd: str) -> None:
    os.environ.clear()
    os.environ.update({"MPLBACKEND": showing.BACKEND, **env})
    os.chdir(cwd)


def carry_out(shell: InterpreterShell, code: str, env: Mapping[str, str]) -> None:
    before = {key: os.environ.get(key) for key in env}
    os.environ.update(env)
    run_interruptible(shell, code)
    for key, value in before.items():
        if value is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = value


def run_interruptible(shell: InterpreterShell, code: str) -> None:
    """Run code, which SIGINT interrupts. It interrupts nothing else: it may arrive when the code has ended."""
    try:
        signal.signal(signal.SIGINT, shell.interrupt_handler)
        shell.run_cell(code, store_history=True)
        shell.interrupt_handler = _ignore_interrupts()
    except KeyboardInterrupt:  # at the very beginning or end of the code
        shell.interrupt_handler = _ignore_interrupts()


def _ignore_interrupts() -> Any:
    """Ignore SIGINT in this process, but not in programs it starts; return the handler that was set."""
    return signal.signal(signal.SIGINT, lambda *_: None) or signal.default_int_handler


def main(orders: int, events: int) -> None:
    os.set_inheritable(orders, False)
    os.set_inheritable(events, False)
    channel = EventChannel(events)
    for kind, fd in (("stdout", 1), ("stderr", 2)):
        stream = io.TextIOWrapper(OutputStream(channel, kind, fd), "utf-8", "backslashreplace", write_through=True)  # type: ignore[type-var]
        setattr(sys, kind, stream)
        setattr(sys, f"__{kind}__", stream)
    os.environ.setdefault("MPLBACKEND", showing.BACKEND)
    os.environ.setdefault("TERM", "dumb")
    shell = _make_shell(channel)
    del sys.path[0]
    sys.path.insert(0, "")
    _ignore_interrupts()
    channel.tell({"type": "up"})
    with open(orders, "rb", buffering=1 << 16) as lines:
        for line in iter(lines.readline, b""):
            number, _, text = line.partition(b" ")
            order = json.loads(text)
            if "settle" in order:
                settle(order["settle"], order["cwd"])
                continue
            carry_out(shell, order["code"], order["env"])
            channel.tell({"type": "end", "number": int(number)})


if __name__ == "__main__":
    sys.argv, arguments = [""], sys.argv[1:]
    main(int(arguments[0]), int(arguments[1]))
