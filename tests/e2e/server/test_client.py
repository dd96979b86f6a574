"""Tests of `hotdesk.Client`: the library's methods at a server."""

from __future__ import annotations

import anyio
import pytest

import hotdesk
from hotdesk.client import Approval, Client
from hotdesk.desk.wall.registry import survey
from hotdesk.errors import BriefError, DeskGone, FileError
from tests.e2e.server import job_template
from tests.e2e.server.conftest import Served

pytestmark = [pytest.mark.container, pytest.mark.anyio]
SMALL = hotdesk.Spec(memory=256 << 20)


async def test_a_desk_is_used_as_one_of_this_machine_and_burns_with_its_block(server: Served) -> None:
    async with Client(server.url, server.key) as client:
        async with client.open_desk(SMALL) as desk:
            await desk.write("a.bin", bytes(range(256)))
            done = await desk.run(["sh", "-c", "cat; wc -c < a.bin; exit 3"], stdin=b"\xff\n")
            assert (done.exit_code, done.stdout) == (3, b"\xff\n256\n")
            assert await desk.read("a.bin") == bytes(range(256))
            assert "a.bin" in [each.name for each in await desk.list()]
            assert (await desk.usage()).pids > 0
            with pytest.raises(FileError) as refused:
                await desk.read("none")
            assert refused.value.reason == "missing"
            assert desk.id in {each.id for each in await client.desks()}
        with pytest.raises(DeskGone):
            await client.find(desk.id)


async def test_a_desk_that_needs_a_stronger_wall_is_opened_behind_it_or_not_at_all(server: Served) -> None:
    async with Client(server.url, server.key) as client:
        if survey(server.settings).find("microvm").is_available:
            async with client.open_desk(hotdesk.Spec(wall="microvm")) as desk:
                (shown,) = [each for each in await client.desks() if each.id == desk.id]
                assert shown.wall == "microvm"
        else:
            with pytest.raises(BriefError, match="hotdesk does not fall back"):
                await client.open(hotdesk.Spec(wall="microvm"))
        async with client.open_desk(SMALL) as desk:
            (shown,) = [each for each in await client.desks() if each.id == desk.id]
            assert (shown.wall, shown.kernel, shown.boundary) == ("container", "host", True)
            assert shown.wall_version.startswith("crun ")


async def test_a_job_is_started_approved_answered_and_delivers(server: Served) -> None:
    job_template.install(server.settings.lib / "templates", "client")
    async with Client(server.url, server.key) as client:
        job = await client.work(template="client", files={"names.txt": b"Bo"}, approve="plan")
        await client.approve(await asked(client, job.id, "plan"))
        await client.answer(await asked(client, job.id, "question"), "Hi")
        with anyio.fail_after(60):
            while not (told := await client.job(job.id)).over:
                await anyio.sleep(0.1)
        assert told.state == "done", told.why
        [item] = told.deliverables
        assert item.name is not None
        assert await client.get(item.name) == b'{"hello": "Hi Bo"}'
        assert await client.certificate(item.name)
        names = [each.name async for each in client.events(job.id, follow=False)]
        assert names[0] == "JobBegun"


async def asked(client: Client, job: str, kind: str) -> Approval:
    with anyio.fail_after(60):
        while True:
            for each in await client.approvals():
                if (each.job, each.kind) == (job, kind):
                    return each
            await anyio.sleep(0.1)


async def test_secrets_are_stored_listed_by_name_and_removed(server: Served) -> None:
    async with Client(server.url, server.key) as client:
        assert await client.vault.ls() == []
        for version in (1, 2):
            kept = await client.vault.put("erp-token", f"hunter2-number-{version}")
            assert (kept.name, kept.kind, kept.version) == ("erp-token", "token", version)
        await client.vault.put("login", "anna:hunter2-login", "basic")
        listed = await client.vault.ls()
        assert [(each.name, each.kind) for each in listed] == [("erp-token", "token"), ("login", "basic")]
        assert "hunter2" not in repr(listed)
        await client.vault.remove("erp-token")
        with pytest.raises(hotdesk.HotdeskError, match="secret erp-token not found"):
            await client.vault.remove("erp-token")
        with pytest.raises(hotdesk.HotdeskError, match="a shorter secret") as refused:
            await client.vault.put("short", "abc")
        assert "abc" not in str(refused.value)
        assert [each.name for each in await client.vault.ls()] == ["login"]
        await client.vault.remove("login")


async def test_an_invalid_key_is_reported_at_once(server: Served) -> None:
    with pytest.raises(hotdesk.HotdeskError, match="unknown key; create one"):
        async with Client(server.url, "e2b_" + "0" * 40):
            pass


def test_the_client_works_without_async(server: Served) -> None:
    with hotdesk.blocking.Client(server.url, server.key) as client:
        with client.open_desk(SMALL) as desk:
            assert desk.run(["sh", "-c", "echo $A; pwd"], env={"A": "hi"}, cwd="/tmp").text == "hi\n/tmp\n"
            desk.write("a.txt", "1")
            before = desk.snapshot()
            desk.write("a.txt", "2")
            [copy] = desk.fork()
            assert client.find(copy.id).read("a.txt") == b"2"
            client.burn(copy.id)
            desk.rollback(before)
            desk.pause()
            desk.resume()
            assert desk.read("a.txt") == b"1"
        client.put("notes/a.txt", b"1")
        assert [each.name for each in client.ls("notes/")] == ["notes/a.txt"]
        assert client.get("notes/a.txt@1") == b"1"
        client.rm("notes/a.txt")
        assert client.ls("notes/") == []
        client.vault.put("crm-token", "hunter2-and-more")
        assert [each.name for each in client.vault.ls()] == ["crm-token"]
        client.vault.remove("crm-token")
        assert client.vault.ls() == []
