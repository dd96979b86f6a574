"""Tests of apt and pip with this machine's package sources, through the door: packages install, and nothing is left."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hotdesk.brief import Scope
from hotdesk.config import Config
from hotdesk.desk.seam import Spec
from hotdesk.door.policy.presets import PackageSources, build_preset_environment, get_preset_rules
from hotdesk.event import Exchange, RootAct, RootActEnded
from hotdesk.host import Host
from tests.e2e.installing import SPEC, apt_install, done, events, python_index, rules
from tests.upstream import upstream

pytestmark = [pytest.mark.container, pytest.mark.timeout(200)]
FETCHED = re.compile(r"^Get:\d+ \S+ \S+ \S+ ([a-z0-9.+-]+) \S+ \S+ \[", re.MULTILINE)


async def test_apt_installs_a_package_with_its_dependencies_scripts_and_user(settings: Config) -> None:
    async with Host(settings, control=False) as host:
        async with host.open_desk(SPEC, Scope(rules())) as desk:
            assert (await desk.run(["getent", "passwd", "tcpdump"])).exit_code == 2
            told = await apt_install(desk, "tcpdump")
            assert (await done(desk, "getent passwd tcpdump")).startswith("tcpdump:x:")
            assert "libpcap" in await done(desk, "tcpdump --version")
            assert await done(desk, "dpkg --audit") == ""
        happened = events(settings, desk.id)
        acts = {event.argv: event.number for event in happened if isinstance(event, RootAct) and event.by == "sudo"}
        assert list(acts) == [("apt-get", "update"), ("apt-get", "install", "-y", "tcpdump")]
        ended = {event.number: event.exit_code for event in happened if isinstance(event, RootActEnded)}
        assert ended == dict.fromkeys(acts.values(), 0)
        fetched = [event for event in happened if isinstance(event, Exchange)]
        packages = FETCHED.findall(told)
        assert "tcpdump" in packages
        assert len(packages) > 1
        assert {event.verdict for event in fetched} == {"allow"}
        assert {event.host for event in fetched} <= {rule.host for rule in rules()}
        assert all(any(f"/{name}_" in event.path for event in fetched) for name in packages)
        async with host.open_desk(SPEC, Scope(rules())) as fresh:
            assert (await fresh.run(["getent", "passwd", "tcpdump"])).exit_code == 2
            assert (await fresh.run(["tcpdump", "--version"])).exit_code == 127


@pytest.mark.long
async def test_apt_reports_that_the_door_refuses_an_unlisted_archive(settings: Config) -> None:
    source = "echo 'deb [trusted=yes] http://elsewhere.test/debian x main' | sudo tee /etc/apt/sources.list"
    async with Host(settings, control=False) as host, host.open_desk(SPEC, Scope(rules())) as desk:
        await done(desk, source)
        told = await desk.run(["sudo", "apt-get", "update", "--error-on=any"], timeout=60)
        assert told.exit_code == 100
        assert "403" in told.stderr.decode()
    denied = [event for event in events(settings, desk.id) if isinstance(event, Exchange)]
    assert {(event.verdict, event.host) for event in denied} == {("deny", "elsewhere.test")}


async def test_pip_installs_and_says_that_the_door_refuses_another_index(settings: Config) -> None:
    async with Host(settings, control=False) as host, host.open_desk(SPEC, Scope(rules())) as desk:
        await done(desk, "pip install idna")
        assert await done(desk, "python3 -c 'import idna; print(idna.encode(\"bücher.test\"))'") != ""
        assert "/home/user/" in await done(desk, "python3 -c 'import idna; print(idna.__file__)'")
        other = "pip download --retries=1 --no-deps --index-url https://elsewhere.test/simple idna"
        refused = await desk.run(["sh", "-c", other], timeout=60)
        assert not refused.ok
        assert "403 hotdesk refuses elsewhere.test:443" in refused.text + refused.stderr.decode()
    asked = [event for event in events(settings, desk.id) if isinstance(event, Exchange)]
    assert any("/idna" in event.path for event in asked if event.verdict == "allow")
    assert {event.host for event in asked if event.verdict != "allow"} == {"elsewhere.test"}


async def test_pip_uses_an_index_on_plain_http_at_a_port_without_knowing_its_password(
    settings: Config, tmp_path: Path
) -> None:
    machine = PackageSources(pip=("http://someone:secret-word@mirror.test:3141/root/simple/",), default_pip=False)
    spec = Spec(env=build_preset_environment(["pypi"], machine))
    with upstream(tmp_path, "mirror.test", tls=False) as mirror:
        mirror.answers |= {
            path: (200, {"Content-Type": "text/html"}, data) for path, data in python_index("/root").items()
        }
        scope = Scope(get_preset_rules("pypi", machine), names={"mirror.test": mirror.address})
        async with Host(settings, control=False) as host, host.open_desk(spec, scope) as desk:
            await done(desk, "pip install tiny && python3 -c 'import tiny'")
            assert "secret-word" not in await done(desk, "env")
        assert mirror.seen[0].path == "/root/simple/tiny/"
        assert [seen.header("Authorization") for seen in mirror.seen] == [None] * len(mirror.seen)
