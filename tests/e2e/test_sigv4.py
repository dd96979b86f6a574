"""Tests of AWS requests that a desk signs with a placeholder: the door re-signs them with the key; own computation."""

from __future__ import annotations

import hashlib
import hmac
import json
import shutil
import tempfile
import urllib.parse
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hotdesk.brief import Scope, parse_grant, parse_rule
from hotdesk.config import Config
from hotdesk.desk.seam import Desk
from hotdesk.host import Host
from hotdesk.linux import private_files, uids
from hotdesk.vault import SigV4, Vault
from tests.upstream import Seen, Upstream, upstream

pytestmark = pytest.mark.container

S3, SQS = "s3.eu-west-1.amazonaws.com", "sqs.eu-west-1.amazonaws.com"
SECRETS = {"AKIDFILES": "the-key-of-the-bucket/+0123456789", "AKIDQUEUE": "the-key-of-the-queue/+0123456789"}
CLIENT = Path(__file__).with_name("sigv4_client.py").read_text()


@dataclass
class Place:
    """A desk, and the server behind its door."""

    desk: Desk
    up: Upstream

    async def ask(self, method: str, url: str, options: Mapping[str, object]) -> tuple[int, dict[str, object]]:
        argv = ["python3", "-c", CLIENT, json.dumps({"method": method, "url": url, **options})]
        done = await self.desk.run(argv, timeout=60)
        assert done.ok, done.stderr
        status, _, told = done.text.partition(" ")
        return int(status), json.loads(told)


@pytest.fixture(scope="module")
def keyed(settings: Config) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="sigv4-", dir=settings.run.parent))
    folder.chmod(0o755)
    private_files.make_folder(folder / "lib/keys", uids.KEYS)
    vault = Vault.make(folder / "lib/keys", "file")
    vault.put("files", SigV4("AKIDFILES", "s3", "eu-west-1", "files"), SECRETS["AKIDFILES"].encode())
    vault.put("queue", SigV4("AKIDQUEUE", "sqs", "eu-west-1"), SECRETS["AKIDQUEUE"].encode())
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def place(settings: Config, keyed: Path) -> AsyncIterator[Place]:
    with upstream(keyed, S3, SQS) as up:
        own = replace(settings, run=keyed / "run", lib=keyed / "lib", ca=str(up.ca))
        scope = Scope(
            rules=tuple(parse_rule(f"GET,PUT,POST {host}/**") for host in (S3, SQS)),
            grants=(parse_grant(f"files@{S3} env=AWS_ACCESS_KEY_ID"), parse_grant(f"queue@{SQS} env=QUEUE_KEY_ID")),
            names={S3: up.address, SQS: up.address},
        )
        async with Host(own, control=False) as host, host.open_desk(scope=scope) as desk:
            yield Place(desk, up)


def expected(seen: Seen) -> str:
    """Compute the signature a request should have, as its server would: from its content and the key it names."""
    said = dict(part.strip().split("=", 1) for part in (seen.header("Authorization") or "").split(" ", 1)[1].split(","))
    key, day, region, service, ending = said["Credential"].split("/")
    names = said["SignedHeaders"].split(";")
    assert "host" in names
    assert {name.lower() for name, _ in seen.headers if name.lower().startswith("x-amz-")} <= set(names)
    path, _, query = seen.path.partition("?")
    pairs = sorted(urllib.parse.parse_qsl(query, keep_blank_values=True))
    decoded = urllib.parse.unquote(path)
    asked = [seen.method, urllib.parse.quote(decoded if service == "s3" else path, safe="/-_.~")]
    asked.append(urllib.parse.urlencode(pairs, safe="-_.~", quote_via=urllib.parse.quote))
    asked += [f"{name}:{' '.join((seen.header(name) or '').split())}" for name in names] + ["", ";".join(names)]
    digest = hashlib.sha256(seen.body).hexdigest()
    if seen.header("x-amz-content-sha256") == "UNSIGNED-PAYLOAD":
        digest = "UNSIGNED-PAYLOAD"
    whole = hashlib.sha256("\n".join([*asked, digest]).encode()).hexdigest()
    made = ("AWS4" + SECRETS[key]).encode()
    for step in (day, region, service, ending):
        made = hmac.new(made, step.encode(), hashlib.sha256).digest()
    stamp = seen.header("x-amz-date") or ""
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, f"{day}/{region}/{service}/{ending}", whole])
    assert stamp.startswith(day)
    return hmac.new(made, text.encode(), hashlib.sha256).hexdigest()


def is_signed(seen: Seen, key: str) -> bool:
    """Return whether a request arrived signed with a key, and without any placeholder."""
    said = seen.header("Authorization") or ""
    assert "hotdesk-secret" not in repr(seen)
    return f"Credential={key}/" in said and said.endswith(f"Signature={expected(seen)}")


async def test_a_desk_signs_with_placeholders_and_the_door_with_the_keys(place: Place) -> None:
    at_s3, at_sqs = f"https://{S3}/files", f"https://{SQS}/7/orders"
    sent: list[tuple[str, str, dict[str, object]]] = [
        ("GET", f"{at_s3}/a%20b/c@d?list-type=2&prefix=a%2Fb&empty", {}),
        ("PUT", f"{at_s3}/copy", {"headers": {"x-amz-copy-source": "/files/other", "x-amz-meta-of": "two  words"}}),
        ("PUT", f"{at_s3}/small", {"body": "hello", "headers": {"Content-Type": "text/plain"}}),
        ("PUT", f"{at_s3}/large", {"body": "x" * 17, "times": 200_000}),
        ("PUT", f"{at_s3}/unsigned", {"body": "x" * 17, "times": 200_000, "digest": "UNSIGNED-PAYLOAD"}),
    ]
    for method, url, options in sent:
        status, _ = await place.ask(method, url, options)
        assert (status, is_signed(place.up.seen[-1], "AKIDFILES")) == (200, True), url
    assert len(place.up.seen[-1].body) == 17 * 200_000
    for body in ("", "Action=SendMessage&MessageBody=hello"):
        status, _ = await place.ask("POST", at_sqs, {"body": body, "service": "sqs", "key": "QUEUE_KEY_ID"})
        assert (status, is_signed(place.up.seen[-1], "AKIDQUEUE")) == (200, True)
        assert place.up.seen[-1].body == body.encode()


@pytest.mark.long
async def test_a_request_that_the_key_does_not_cover_never_leaves_and_the_reason_is_reported(place: Place) -> None:
    at_s3 = f"https://{S3}/files/x"
    large: dict[str, object] = {"body": "x" * 17, "times": 100_000, "service": "sqs", "key": "QUEUE_KEY_ID"}
    sent: list[tuple[str, str, str, dict[str, object]]] = [
        ("the bucket files only", "GET", f"https://{S3}/theirs/x", {}),
        ("the bucket files only", "GET", f"https://{S3}/", {}),
        ("the bucket files only", "PUT", at_s3, {"headers": {"x-amz-copy-source": "theirs/x"}}),
        ("s3 in eu-west-1 only", "GET", at_s3, {"region": "us-east-1"}),
        ("s3 in eu-west-1 only", "POST", at_s3, {"service": "sts"}),
        ("presigned", "GET", at_s3, {"presigned": True}),
        ("in chunks", "PUT", at_s3, {"body": "x", "digest": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}),
        ("in a place that no grant covers", "GET", f"https://{SQS}/7/orders", {"service": "sqs"}),
        ("would send other ones", "GET", at_s3, {"key": "AWS_SECRET_ACCESS_KEY"}),
        ("limit 1 MiB", "POST", f"https://{SQS}/", large),
    ]
    for why, method, url, options in sent:
        status, told = await place.ask(method, url, options)
        assert status in (403, 413), url
        assert why in str(told["rule"]), told
    assert place.up.seen == []


async def test_a_request_without_a_signature_gets_none(place: Place) -> None:
    assert (await place.ask("GET", f"https://{S3}/files/open", {"unsigned": True}))[0] == 200
    assert place.up.seen[-1].header("Authorization") is None
