"""`sudo` inside a desk: asks the guest for root to run a command, with the caller's own streams.

There is no password, and no setuid program: the host decides who may be root, and records every act.
"""

from __future__ import annotations

import _socket
import array
import os
import signal
import sys
import time

from hotdesk_guest.wire import WireError, decode, encode

USAGE = "usage: sudo [-EHSiknsv] [-u root] [NAME=value ...] [command [argument ...]]"
PASSED_VARIABLES = (
    *("TERM", "LANG", "LC_ALL", "COLORTERM", "DEBIAN_FRONTEND", "DISPLAY", "http_proxy", "https_proxy", "no_proxy"),
    *("APT_CONFIG", "PIP_INDEX_URL", "PIP_RETRIES", "npm_config_fetch_retries"),
)
"""Variables that root gets from the caller; `-E` passes all."""
FORWARDED = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)
REQUEST_LIMIT = 24576
"""Maximum bytes of one request."""
SHORT_OPTIONS = set("EHSiknsv")
LONG_OPTIONS = {"--preserve-env": "E", "--set-home": "H", "--login": "i", "--non-interactive": "n", "--shell": "s"}
FAILED = 1
START_TRIES, START_PAUSE_S = 220, 0.005
"""Attempts to reach a guest for root that is starting, and the first interval in seconds: about 20 s in all."""


class UsageError(Exception):
    """Arguments that this `sudo` does not support."""


def parse(words: list[str]) -> tuple[list[str], dict[str, str], str]:
    """Parse a command line; return the command, its variables, and the folder to run it in."""
    flags = set()
    while words and words[0].startswith("-") and words[0] != "--":
        word = words.pop(0)
        if word in ("-u", "--user", "-g", "--group"):
            require_root(words.pop(0) if words else "")
        elif word.startswith(("--user=", "--group=")):
            require_root(word.partition("=")[2])
        elif word in LONG_OPTIONS:
            flags.add(LONG_OPTIONS[word])
        elif set(word[1:]) <= SHORT_OPTIONS:
            flags.update(word[1:])
        else:
            raise UsageError("%s is not supported" % word)
    if words and words[0] == "--":
        words.pop(0)
    assignments = {}
    while words and "=" in words[0].split("/")[0] and not words[0].startswith("="):
        name, _, value = words.pop(0).partition("=")
        assignments[name] = value
    if flags & {"i", "s"}:
        words = ["/bin/bash", *(["-l"] if "i" in flags else []), *(["-c", " ".join(words)] if words else [])]
    if not words and flags & {"k", "v"}:
        words = ["true"]
    if not words:
        raise UsageError("no command given")
    env = (
        dict(os.environ)
        if "E" in flags
        else {name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ}
    )
    env.update(assignments, SUDO_USER="user", SUDO_UID=str(os.getuid()), SUDO_GID=str(os.getgid()))
    return words, env, "/root" if "i" in flags else os.getcwd()


def require_root(name: str) -> None:
    if name not in ("root", "#0", "0"):
        raise UsageError("a command can run as root only, not as %s" % (name or "an empty name"))


def connect(sock: _socket.socket, knock: str, inside: str) -> None:
    """Connect to the guest for root. If it listens inside the desk, a connection to `knock` starts it on first use."""
    if not inside:
        sock.connect(knock)
        return
    bell = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    pause = START_PAUSE_S
    for _ in range(START_TRIES):
        try:
            sock.connect(inside)
            return
        except (FileNotFoundError, ConnectionRefusedError):
            pass
        if pause == START_PAUSE_S:
            bell.connect(knock)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
    raise OSError(0, "hotdesk's process for root did not start")


def call(path: str, request: bytes, inside: str = "") -> int:
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    sent_request = False  # the first byte must be the request's

    def forward(number: int, _: object) -> None:
        if not sent_request and number != signal.SIGWINCH:
            sys.exit(128 + number)
        try:
            sock.send(bytes((number,)) if sent_request else b"")
        except OSError:
            pass  # the program has just ended

    for number in FORWARDED:
        signal.signal(number, forward)
    connect(sock, path, inside)
    streams = array.array("i", [0, 1, 2])
    # A signal for the started program may arrive before this process continues, and must not end this process.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    sent = sock.sendmsg([request], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    while sent < len(request):
        sent += sock.send(request[sent:])
    sent_request = True
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    answer = b""
    try:
        while data := sock.recv(4096):
            answer += data
    except ConnectionResetError:
        pass  # closed with an unread signal: the answer came before
    try:
        reply = decode(answer)
    except WireError:
        reply = None
    if not isinstance(reply, dict):
        raise OSError(0, "hotdesk's process for root closed the connection")
    if reply.get("text"):
        print(reply["text"], file=sys.stderr)
    return int(reply["code"])


def main(folder: str, inside: str = "") -> None:
    """Run as `sudo`. With `inside`, the guest for root listens at that path, and not at the host's socket."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        words, env, cwd = parse(sys.argv[1:])
        value = encode({"argv": words, "cwd": cwd, "env": env})
        if len(value) + 4 > REQUEST_LIMIT:
            raise UsageError("the command and its variables are too long (%d bytes); put them into a file" % len(value))
        code = call(folder + "/sudo.sock", len(value).to_bytes(4, "big") + value, inside)
    except UsageError as e:
        print("sudo: %s\n%s" % (e, USAGE), file=sys.stderr)
        code = FAILED
    except (OSError, WireError) as e:
        print("sudo: root is not available: %s" % (getattr(e, "strerror", None) or e), file=sys.stderr)
        code = FAILED
    sys.exit(code)
