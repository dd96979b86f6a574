"""`hotdesk journal`: show the recorded events, and verify that none was changed or removed."""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.parser import add_acts
from hotdesk.drive.chain import Head, Row, parse_head
from hotdesk.drive.export import export as export_lines
from hotdesk.drive.export import verify_export
from hotdesk.drive.journal import FILE, export_head, find_chain, follow, read, read_heads
from hotdesk.drive.journal_audit import AuditReport
from hotdesk.drive.journal_audit import verify as prove
from hotdesk.drive.outbox import take_in_at
from hotdesk.drive.signing import compute_fingerprint, load_own_public, load_public
from hotdesk.errors import BriefError, make_printable
from hotdesk.job.record.summary import find_job, summarize

PLAIN = re.compile(r'[^\s"=,]+')
_FAULTY = 1


def add(parser: argparse.ArgumentParser) -> None:
    add_acts(parser, ACTS, ARGUMENTS)


def add_show(parser: argparse.ArgumentParser) -> None:
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--desk", metavar="ID", help="print only the events about this desk, also those that its job recorded"
    )
    chosen.add_argument(
        "--chain", metavar="ID", help="print only the events that this job or desk recorded itself (its own hash chain)"
    )
    parser.add_argument("--follow", action="store_true", help="keep printing new events")
    parser.add_argument("--limit", type=parse_count, metavar="N", help="print only the newest N events")
    options.add_json(parser)


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--since",
        action="append",
        metavar="HEAD",
        help="also verify that no event was removed from the end of a chain since HEAD was saved; HEAD is a line that "
        "`hotdesk journal head` printed, or a file of such lines; repeatable",
    )
    parser.add_argument(
        "--key",
        type=Path,
        metavar="FILE",
        help="a file with the public key you trust (default: the one next to the journal)",
    )
    parser.add_argument(
        "--export",
        metavar="FILE",
        help="verify this file of `hotdesk journal export` instead, or - for standard input; needs --key",
    )
    options.add_json(parser)


def _add_head(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--chain", metavar="ID", help="print only the number and hash of the last event of this job or desk"
    )


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--job", metavar="JOB", help="export only the events of this job and its desks")
    parser.add_argument("file", metavar="FILE", help="the file to write, or - for standard output")


def parse_count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"must be a number of events from 0 to 999999999, not {text!r}")
    return int(text)


ARGUMENTS = {"show": add_show, "verify": _add_verify, "head": _add_head, "export": _add_export}


def main(arguments: argparse.Namespace) -> int:
    """Read the record of what happened at desks and at the door, and verify that it is complete.

    For example:

      hotdesk journal show --desk $ID
      hotdesk journal verify
    """
    if os.geteuid() == 0:
        take_in_at(config.load().lib)
    code: int = arguments.main(arguments)
    return code


def show(arguments: argparse.Namespace) -> int:
    """Show events, one per line.

    hotdesk journal show --limit 20
    hotdesk journal show --desk $ID --follow
    hotdesk journal show --json | jq 'select(.event == "Alarm")'
    """
    return stream(select_rows(arguments), as_json if arguments.json else as_line)


def verify(arguments: argparse.Namespace) -> int:
    """Verify that no event of the journal was changed, removed, inserted or moved. Exit code 1 if one was.

      hotdesk journal verify
      hotdesk journal verify --since heads.txt --key trusted.pub
      hotdesk journal verify --export job.jsonl --key trusted.pub

    Events cut off at the end are detected only against a head that you saved elsewhere: see `hotdesk journal head`.
    """
    saved_heads = [head for text in arguments.since or [] for head in _read_heads(text)]
    if arguments.export and not arguments.key:
        raise BriefError("--export needs --key FILE, a public key that you trust")
    key = load_public(arguments.key) if arguments.key else load_own_public(get_path().parent)
    report = (
        _prove_export(arguments.export, key, saved_heads) if arguments.export else prove(get_path(), key, saved_heads)
    )
    if arguments.json:
        print(json.dumps({"sound": not report.faults, "key": compute_fingerprint(key), **asdict(report)}, indent=1))
    else:
        print("\n".join(map(make_printable, _describe_report(report, compute_fingerprint(key), saved_heads))))
    return _FAULTY if report.faults else 0


def head(arguments: argparse.Namespace) -> int:
    """Print the signed head of each chain. Save it elsewhere; `verify --since` compares the journal with it.

    hotdesk journal head > heads.txt
    hotdesk journal head --chain $ID
    """
    path = get_path()
    chain = find_chain(path, arguments.chain) if arguments.chain else None
    lines = [export_head(path, chain)] if chain else [str(each) for each in read_heads(path)]
    for line in lines:
        print(make_printable(line))
    return 0


def export(arguments: argparse.Namespace) -> int:
    """Write events as lines of JSON that can be verified without this machine.

    hotdesk journal export journal.jsonl
    hotdesk journal export --job $JOB - | gzip > job.jsonl.gz
    """
    chains = None
    if arguments.job is not None:
        summary = summarize(get_path(), find_job(get_path(), arguments.job))
        chains = [summary.job, *summary.desks]
    lines = export_lines(get_path(), chains)
    if arguments.file == "-":
        return print_all(lines)
    path = Path(arguments.file)
    partial = path.with_name(f".{path.name[:100]}.{os.getpid()}")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
            file.writelines(f"{line}\n" for line in lines)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return 0


def print_all(lines: Iterator[str]) -> int:
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        return _silence_output()
    return 0


def _prove_export(name: str, key: Ed25519PublicKey, saved_heads: list[Head]) -> AuditReport:
    if name == "-":
        return verify_export(sys.stdin, key, saved_heads)
    try:
        with Path(name).open(encoding="ascii", errors="replace", newline="\n") as file:
            return verify_export(file, key, saved_heads)
    except OSError as e:
        raise BriefError(f"the export {name[:200]!r} cannot be read: {e.strerror}") from e


def get_path() -> Path:
    return config.load().lib / "keys" / FILE


def select_rows(arguments: argparse.Namespace) -> Generator[Row | None, None, None]:
    path = get_path()
    chain, desk = (find_chain(path, text) if text else None for text in (arguments.chain, arguments.desk))
    if arguments.follow:
        return follow(path, chain, desk=desk, limit=arguments.limit)
    return read(path, chain, desk=desk, limit=arguments.limit)


def stream(rows: Generator[Row | None, None, None], write: Callable[[Row], str | None]) -> int:
    """Print events until they end, the reader has gone, or SIGINT.

    A shell starts background commands with SIGINT ignored, for which Python installs no handler.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with closing(rows):
        try:
            for row in rows:
                if row is None:
                    sys.stdout.flush()
                    if _is_reader_gone():
                        raise BrokenPipeError
                elif (line := write(row)) is not None:
                    print(line)
            sys.stdout.flush()
        except BrokenPipeError:
            return _silence_output()
    return 0


def _silence_output() -> int:
    """Return the exit code for a reader that has gone, and discard output that is still buffered."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 128 + signal.SIGPIPE


def _is_reader_gone() -> bool:
    line = select.poll()
    line.register(1, 0)
    return any(event & (select.POLLERR | select.POLLNVAL) for _, event in line.poll(0))


def as_json(row: Row) -> str:
    try:
        data = json.loads(row.data)
    except (ValueError, RecursionError):
        data = row.data
    fields = {"id": row.id, "chain": row.chain, "seq": row.seq, "at": row.at / 1000, "actor": row.actor}
    return json.dumps({**fields, "event": row.name, "version": row.version, "data": data, "hash": row.hash.hex()})


def as_line(row: Row) -> str:
    try:
        fields = format_fields(
            {name: value for name, value in asdict(row.read_event()).items() if (name, value) != ("desk", row.chain)}
        )
    except (ValueError, RecursionError):
        fields = row.data  # of a later version, or damaged: shown as it is
    return make_printable(
        f"{format_moment(row.at)}  {row.chain:21} {row.seq:5}  {row.actor:6}  {row.name:12}  {fields}".rstrip()
    )


def format_fields(fields: Mapping[str, object]) -> str:
    """Format fields as `name=value`, without empty ones."""
    return " ".join(f"{name}={format_value(value)}" for name, value in fields.items() if value not in ("", (), None))


def format_value(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(format_value(part) for part in value)
    text = str(value)
    return text if PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def format_moment(at: int) -> str:
    seconds, rest = divmod(at, 1000)
    try:
        return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(seconds))}.{rest:03}Z"
    except (ValueError, OverflowError, OSError):
        return f"@{at}"


def _read_heads(text: str) -> list[Head]:
    if text.startswith("hotdesk-head "):
        return [parse_head(text)]
    try:
        lines = Path(text).read_text().splitlines()
    except (OSError, ValueError) as e:
        raise BriefError(
            f"--since must be a line that `hotdesk journal head` printed or a file of such lines, not {text[:200]!r}: "
            f"{e}"
        ) from e
    found = [parse_head(line) for line in lines if line.strip()]
    if not found:
        raise BriefError(f"the file {text[:200]!r} is empty; write to it what `hotdesk journal head` prints")
    return found


def format_count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _describe_report(report: AuditReport, key: str, saved_heads: list[Head]) -> list[str]:
    faults = [f"{fault.what:10}  {fault.chain} {fault.seq}: {fault.why}" for fault in report.faults]
    counted = f"{format_count(report.events, 'event')} in {format_count(report.chains, 'chain')}, key {key}"
    if faults:
        return [*faults, f"NOT INTACT: {format_count(len(faults), 'fault')}; {counted}"]
    if saved_heads:
        compared = len(saved_heads) - report.skipped_heads
        lines = [f"intact, and consistent with {format_count(compared, 'head')} that you saved: {counted}"]
        if report.skipped_heads:
            lines.append(
                f"not compared: {format_count(report.skipped_heads, 'head')} of chains that are not in the export"
            )
        return lines
    return [f"intact: {counted}", "without --since HEAD, events removed from the end of the journal cannot be detected"]


ACTS = {"show": show, "verify": verify, "head": head, "export": export}
