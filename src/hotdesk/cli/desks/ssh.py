"""`hotdesk ssh`: connect to an open desk with OpenSSH."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.ids import find_desk
from hotdesk.cli.quick.arguments import DESK_SUFFIX
from hotdesk.cli.quick.place import SOURCE
from hotdesk.cli.quick.ssh import dial_owner
from hotdesk.cli.ssh.host_key import ALIAS, KeyFiles
from hotdesk.cli.ssh.stdio import serve
from hotdesk.desk.seam import as_id
from hotdesk.errors import BriefError, HostError
from hotdesk.host import find_owner_path, find_server

START = "import sys;sys.path.insert(0,{source!r});from hotdesk.cli import main;main()"
ENTRY = """\
Host *{suffix}
    User user
    ProxyCommand hotdesk ssh --stdio %h
    HostKeyAlias {alias}
    UserKnownHostsFile {known}"""
KNOWN = "~/.local/share/hotdesk/known_hosts /run/hotdesk/known_hosts"
"""Files with the host key of an ordinary user and of root."""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("desk", nargs="?", metavar="ID", help="the desk's id, or a prefix of it")
    parser.add_argument("--user", choices=("user", "root"), default="user", help="the user in the desk (default: user)")
    parser.add_argument(
        "--stdio", action="store_true", help="speak SSH on standard input and output, for a ProxyCommand"
    )
    parser.add_argument(
        "--server", metavar="URL", help="with --stdio: use a desk of this server, with the key in HOTDESK_API_KEY"
    )
    parser.add_argument("--config", action="store_true", help="print an entry for ~/.ssh/config, and exit")
    options.add_command(parser)


def main(arguments: argparse.Namespace) -> int:
    """Sign in to a desk with OpenSSH. The desk needs no SSH server and no key.

    With the entry that --config prints in ~/.ssh/config, ssh, scp, sftp and rsync reach every open
    desk as ID.desk. -L and -D reach ports of the desk only; -R, agent and X11 forwarding are
    refused. rsync must be installed in the desk.

    For example:

      hotdesk ssh $ID
      hotdesk ssh $ID -- ls -l
      hotdesk ssh --config >> ~/.ssh/config
      ssh $ID.desk
      scp report.csv $ID.desk:
      ssh -N -L 8080:localhost:8000 $ID.desk
    """
    if arguments.config:
        known_hosts = f'"{KeyFiles().public}"' if os.environ.get("HOTDESK_HOME") else KNOWN
        print(ENTRY.format(suffix=DESK_SUFFIX, alias=ALIAS, known=known_hosts))
        return 0
    if arguments.server and not arguments.stdio:
        raise BriefError("--server works only with --stdio, in a ProxyCommand: `hotdesk ssh --stdio --server URL %h`")
    if arguments.desk is None:
        raise BriefError("no desk given; write `hotdesk ssh ID`; `hotdesk ps` lists open desks")
    name = arguments.desk.partition(".")[0]
    if arguments.stdio and (os.isatty(0) or os.isatty(1)):
        raise BriefError("--stdio is for ssh's ProxyCommand, not for a terminal; use `hotdesk ssh ID`")
    if arguments.server:
        from hotdesk.cli.ssh.server import ServerDialer

        return serve(as_id(name), ServerDialer(arguments.server), dials=True)
    settings = config.load()
    desk = find_desk(settings, name)
    if not arguments.stdio:
        return _start_client(desk, arguments.user, arguments.command)
    path = find_owner_path(settings, desk) if os.geteuid() == 0 else find_server(settings)
    return serve(desk, dial_owner(str(path)))


def _start_client(desk: str, user: str, command: list[str]) -> int:
    program = shutil.which("ssh")
    if program is None:
        raise HostError("ssh is not installed; run `apt install openssh-client`, or use `hotdesk shell`")
    start = shlex.join([sys.executable, "-I", "-c", START.format(source=SOURCE), "ssh", "--stdio"])
    chosen = {
        "ProxyCommand": f"{start.replace('%', '%%')} %h",
        "HostKeyAlias": ALIAS,
        "UserKnownHostsFile": f'"{KeyFiles().public}"',
        "User": user,
    }
    settings_of_ssh = [word for name, value in chosen.items() for word in ("-o", f"{name}={value}")]
    sys.stdout.flush()
    line = [shlex.join(command)] if command else []
    os.execv(program, ["ssh", *settings_of_ssh, f"{desk}{DESK_SUFFIX}", *line])  # noqa: S606 - a fixed program, no shell
