"""Attacks by image archives: from an unknown author, or from a signer whose machine was taken over."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from hotdesk.desk.image.chroot import remove_leftovers
from hotdesk.desk.image.fetch import open_url, parse_file_url
from hotdesk.desk.image.image import Image, ls
from hotdesk.desk.image.importer import import_image
from hotdesk.drive import certificate
from hotdesk.drive.certificate import encode_canonical
from hotdesk.drive.image_archive import import_archive, open_source, read_manifest
from hotdesk.drive.image_manifest import MAGIC, MAX_MANIFEST_BYTES
from hotdesk.errors import BriefError, HotdeskError, ImageError
from hotdesk.linux import uids
from hotdesk.linux.openat2 import RootDirectory
from tests.deep_trees import deepen, removing
from tests.exported_image import PYTHON, Entry, archive, fields_of, new_signer, pack, sign_line, trust
from tests.security.guards import Removal, falls_without, no_guard
from tests.upstream import Upstream, upstream

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]
SIGNER = new_signer()
GOOD = pack(PYTHON)
Import = Callable[..., Image]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    with removing(tmp_path / "images") as store:
        yield store


@pytest.fixture
def take(store: Path) -> Import:
    def take(data: bytes, signers: Mapping[str, str] | None = None) -> Image:
        stream = io.BytesIO(data)
        manifest = read_manifest(stream, trust(SIGNER) if signers is None else signers)
        return import_archive(store, stream, manifest, None, lambda line: None)

    return take


@pytest.fixture
def refuse(take: Import, store: Path) -> Callable[[bytes], str]:
    """Return a function that checks that an archive is refused and leaves nothing behind, and returns the reason."""

    def refuse(data: bytes) -> str:
        with pytest.raises(HotdeskError) as caught:
            take(data)
        assert ls(store) == []
        left = [each for each in store.rglob("*") if each.name not in ("lock", "tmp", "layers", "images")]
        assert left == []
        return str(caught.value)

    return refuse


@no_guard("no attack: the others must fail for their own reason")
def test_an_honest_archive_is_imported(take: Import, store: Path) -> None:
    image = take(archive(GOOD, fields_of(GOOD, SIGNER, recipe="ab" * 32), SIGNER))
    assert ls(store) == [image]
    assert (image.name, image.python, image.built_from) == ("mine", "/usr/bin/python3", "ab" * 32)
    assert (image.layers[0] / "usr/bin/python3").read_bytes() == PYTHON[2]


@falls_without(
    "trusted signers",
    Removal("drive/image_archive.py", "    if signer not in signers:\n", "    if False:\n"),
)
def test_an_image_of_an_untrusted_signer_is_not_unpacked(refuse: Callable[[bytes], str]) -> None:
    stranger = new_signer()
    why = refuse(archive(GOOD, fields_of(GOOD, stranger), stranger))
    assert "unknown key" in why


@falls_without(
    "signatures of images",
    Removal("drive/image_manifest.py", "    if not is_signed(public,", "    if False and not is_signed(public,"),
)
@pytest.mark.parametrize("change", [{"name": "base"}, {"recipe": "ab" * 32}, {"entries": 2_000_000}])
def test_a_manifest_that_was_changed_is_refused(refuse: Callable[[bytes], str], change: dict[str, object]) -> None:
    signed = sign_line(encode_canonical(fields_of(GOOD, SIGNER)), SIGNER)
    other = encode_canonical(fields_of(GOOD, SIGNER, **change))
    line = other[:-1] + signed[signed.index(b',"signature"') :]
    assert "signature is not valid" in refuse(MAGIC + line + GOOD)


@falls_without("signatures of images")
def test_a_manifest_that_names_a_trusted_key_but_was_signed_by_another_is_refused(
    refuse: Callable[[bytes], str],
) -> None:
    assert "signature is not valid" in refuse(archive(GOOD, fields_of(GOOD, SIGNER), new_signer()))


@falls_without(
    "a domain of its own",
    Removal("drive/image_manifest.py", 'DOMAIN = b"hotdesk-image 1\\n"', 'DOMAIN = b"hotdesk-certificate 1\\n"'),
)
def test_a_signature_of_a_certificate_is_not_valid_for_an_image(refuse: Callable[[bytes], str]) -> None:
    line = sign_line(encode_canonical(fields_of(GOOD, SIGNER)), SIGNER, certificate.DOMAIN)
    assert "signature is not valid" in refuse(MAGIC + line + GOOD)


@falls_without(
    "digests of payloads",
    Removal(
        "drive/image_archive.py",
        "    if sha256.hexdigest() != manifest.payload.sha256:\n",
        "    if False:\n",
    ),
)
def test_another_payload_of_the_same_length_is_refused(refuse: Callable[[bytes], str]) -> None:
    plain: Entry = ("etc/motd", {}, b"a")
    good, bad = pack(PYTHON, plain), pack(PYTHON, ("etc/motd", {}, b"b"))
    assert len(good) == len(bad)
    line = sign_line(encode_canonical(fields_of(good, SIGNER)), SIGNER)
    assert "does not have the signed digest" in refuse(MAGIC + line + bad)


@falls_without(
    "nothing after the payload",
    Removal("drive/image_archive.py", "    if stream.read(1):\n", "    if False:\n"),
)
def test_bytes_after_the_payload_are_refused(refuse: Callable[[bytes], str]) -> None:
    assert "longer than its manifest says" in refuse(archive(GOOD, fields_of(GOOD, SIGNER), SIGNER) + b"x")


@no_guard("what is missing cannot be read")
def test_an_archive_that_is_cut_is_refused(refuse: Callable[[bytes], str]) -> None:
    whole = archive(GOOD, fields_of(GOOD, SIGNER), SIGNER)
    assert "bytes are missing" in refuse(whole[:-1])
    assert "incomplete" in refuse(whole[:300])
    assert "not an image" in refuse(whole[:10])


@falls_without(
    "canonical manifests",
    Removal("drive/image_manifest.py", "    if encode_canonical(asdict(manifest)) != body:\n", "    if False:\n"),
)
def test_a_manifest_in_another_spelling_is_refused(refuse: Callable[[bytes], str]) -> None:
    body = encode_canonical(fields_of(GOOD, SIGNER)).replace(b'"built":', b'"built": ')
    assert "not canonical" in refuse(MAGIC + sign_line(body, SIGNER) + GOOD)


@falls_without(
    "bounds in the manifest",
    Removal("drive/image_manifest.py", "    name: Annotated[str, NAME_SHAPE]\n", "    name: str\n"),
    Removal(
        "drive/image_archive.py",
        "    called = as_name(name or manifest.name)\n",
        "    called = name or manifest.name\n",
    ),
    Removal("drive/image_manifest.py", "    size: Annotated[int, Range(0, MAX_FILE_BYTES)]\n", "    size: int\n"),
    Removal(
        "drive/image_manifest.py",
        "        manifest = read(ImageManifest, parse_json(body))\n",
        "        found = parse_json(body)\n"
        "        payload = PayloadDigest(**found.pop('payload'))\n"
        "        manifest = ImageManifest(payload=payload, **{k: v for k, v in found.items() if k != 'extra'})\n",
    ),
    Removal("drive/image_manifest.py", "    if encode_canonical(asdict(manifest)) != body:", "    if False:"),
    Removal(
        "drive/image_archive.py", "    if (free := shutil.disk_usage(store).free) < needed:", "    if (free := 0):"
    ),
    cases="climbing | sized | unknown",
)
@no_guard("the rest of the code does not get on with such a value either", cases="format | twice | long | number")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(encode_canonical(fields_of(GOOD, SIGNER, name="../escaped")), id="climbing"),
        pytest.param(encode_canonical(fields_of(GOOD, SIGNER, size=1 << 50)), id="sized"),
        pytest.param(encode_canonical(fields_of(GOOD, SIGNER, extra=1)), id="unknown"),
        pytest.param(encode_canonical(fields_of(GOOD, SIGNER, format=2)), id="format"),
        pytest.param(
            encode_canonical(fields_of(GOOD, SIGNER)).replace(b'"format":1', b'"format":1,"format":1'), id="twice"
        ),
        pytest.param(encode_canonical(fields_of(GOOD, SIGNER, source="x" * MAX_MANIFEST_BYTES)), id="long"),
        pytest.param(encode_canonical(fields_of(GOOD, SIGNER, entries=True)), id="number"),
    ],
)
def test_a_malformed_manifest_is_refused_even_with_a_valid_signature(
    refuse: Callable[[bytes], str], body: bytes
) -> None:
    assert "manifest" in refuse(MAGIC + sign_line(body, SIGNER) + GOOD)


@falls_without(
    "the manifest's own limits",
    Removal(
        "drive/image_archive.py",
        "replace(ArchiveLimits(), entries=manifest.entries, size=manifest.size)",
        "ArchiveLimits()",
    ),
)
@pytest.mark.parametrize("limit", [{"entries": 2}, {"size": 100}])
def test_a_payload_that_holds_more_than_was_signed_is_refused(
    refuse: Callable[[bytes], str], limit: dict[str, object]
) -> None:
    payload = pack(PYTHON, ("etc/a", {}, bytes(200)), ("etc/b", {}, b""))
    assert "more than" in refuse(archive(payload, fields_of(payload, SIGNER, **limit), SIGNER))


@falls_without(
    "names that stay inside",
    Removal("image/untar.py", '    if b".." in parts:\n', "    if False:\n"),
    Removal(
        "linux/openat2.py",
        "return openat2(self.fd, path, flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS, mode)",
        "return openat2(self.fd, path, flags, RESOLVE_NO_MAGICLINKS, mode)",
    ),
    cases="dots",
)
@falls_without(
    "links that stay inside",
    Removal(
        "linux/openat2.py",
        "        return openat2(self.fd, path, flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS, mode)",
        "        return openat2(self.fd, path, flags, RESOLVE_NO_MAGICLINKS, mode)",
    ),
    cases="link",
)
@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([("../../../escaped", {}, b"x")], id="dots"),
        pytest.param(
            [("up", {"type": tarfile.SYMTYPE, "linkname": "../../.."}, b""), ("up/escaped", {}, b"x")], id="link"
        ),
    ],
)
def test_a_payload_writes_nothing_outside_of_its_image(
    take: Import, store: Path, entries: list[tuple[str, dict[str, object], bytes]]
) -> None:
    payload = pack(PYTHON, *entries)
    try:
        take(archive(payload, fields_of(payload, SIGNER), SIGNER))
    except ImageError:
        pass
    outside = [each for each in store.rglob("escaped") if "layers" not in each.parts[len(store.parts) :]]
    assert outside == []


@falls_without(
    "no rights in an import",
    Removal("image/untar.py", "    os.fchmod(fd, info.mode & 0o1777)\n", "    os.fchmod(fd, info.mode & 0o7777)\n"),
    cases="setuid",
)
@no_guard("the program that unpacks may not make devices at all", cases="device")
@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(("usr/bin/evil", {"mode": 0o6755}, b"x"), id="setuid"),
        pytest.param(("dev/fuse", {"type": tarfile.CHRTYPE, "devmajor": 10, "devminor": 229}, b""), id="device"),
    ],
)
def test_a_payload_adds_no_rights(take: Import, entry: tuple[str, dict[str, object], bytes]) -> None:
    payload = pack(PYTHON, entry)
    image = take(archive(payload, fields_of(payload, SIGNER), SIGNER))
    modes = [each.lstat().st_mode for each in image.layers[0].rglob("*")]
    assert not any(mode & 0o6000 and stat.S_ISREG(mode) for mode in modes)
    assert not any(stat.S_ISCHR(mode) or stat.S_ISBLK(mode) for mode in modes)


@falls_without(
    "the depth that links lead to",
    Removal(
        "image/untar.py",
        "        if level + len(missing) >= budget.limits.depth:\n",
        "        if False:\n",
    ),
)
def test_a_tree_made_deep_by_links_is_refused_and_blocks_no_other_image(
    refuse: Callable[[bytes], str], take: Import, store: Path
) -> None:
    far = "/".join("d" * 110)
    entries: list[Entry] = [(f"{far}/x", {}, b"")]
    for number in range(12):
        target = f"l{number - 1}/{far}" if number else far
        entries += [
            (f"l{number}", {"type": tarfile.SYMTYPE, "linkname": target}, b""),
            (f"l{number}/{far}/x", {}, b""),
        ]
    payload = pack(PYTHON, *entries)
    why = refuse(archive(payload, fields_of(payload, SIGNER, entries=10_000), SIGNER))
    assert "in 256 levels" in why
    assert take(archive(GOOD, fields_of(GOOD, SIGNER), SIGNER)) in ls(store)


@falls_without(
    "leftovers of any depth",
    Removal(
        "image/store.py",
        "    done = subprocess.run(\n"
        '        ["rm", "-rf", "--one-file-system", "--", str(path)], '
        "check=False, stdin=subprocess.DEVNULL, capture_output=True\n"
        "    )\n",
        "    import shutil\n\n    shutil.rmtree(path)\n    done = subprocess.run(['true'], capture_output=True)\n",
    ),
)
def test_a_deep_tree_left_in_the_store_blocks_no_other_image(take: Import, store: Path) -> None:
    (store / "tmp").mkdir(parents=True)
    deepen(store / "tmp")
    assert take(archive(GOOD, fields_of(GOOD, SIGNER), SIGNER)) in ls(store)
    assert os.listdir(store / "tmp") == []


@falls_without(
    "parents that are counted",
    Removal(
        "image/untar.py",
        "            budget.spend(0)\n            os.mkdir(name, 0o755, dir_fd=fd)\n",
        "            os.mkdir(name, 0o755, dir_fd=fd)\n",
    ),
)
def test_folders_that_no_entry_names_are_counted(refuse: Callable[[bytes], str]) -> None:
    payload = pack(PYTHON, *((f"{number}/" * 100 + "x", {}, b"") for number in range(10)))
    assert "more than 20 entries" in refuse(archive(payload, fields_of(payload, SIGNER, entries=20), SIGNER))


@falls_without(
    "one copy that is hashed and unpacked",
    Removal("image/importer.py", "unwrap(spool.fileno(), tree,", "unwrap(archive, tree,"),
)
def test_a_file_that_changes_while_it_is_imported_puts_nothing_into_a_signed_image(
    take: Import, store: Path, tmp_path: Path
) -> None:
    good, evil = (pack(PYTHON, ("etc/motd", {}, text)) for text in (b"good", b"evil"))
    path = tmp_path / "archive"
    path.write_bytes(good)

    def exchange(_: str) -> None:
        path.write_bytes(evil)

    import_image(store, path, "theirs", exchange)
    image = take(archive(good, fields_of(good, SIGNER), SIGNER))
    assert (image.layers[0] / "etc/motd").read_bytes() == b"good"


# -- builds ------------------------------------------------------------------------------------------------------------


@falls_without(
    "a clean-up that follows no link",
    Removal(
        "image/chroot.py",
        "fd = open_strictly(root.fd, folder, os.O_RDONLY | os.O_DIRECTORY)\n",
        'fd = os.open(b"/proc/self/fd/%d/%b" % (root.fd, folder), os.O_RDONLY | os.O_DIRECTORY)\n',
    ),
)
def test_a_linked_folder_of_a_parent_image_deletes_nothing_outside(tmp_path: Path) -> None:
    outside, tree = tmp_path / "host-log", tmp_path / "tree"
    (outside / "apt").mkdir(parents=True)
    (tree / "var").mkdir(parents=True)
    for name in ("mail.log", "apt/history"):
        (outside / name).touch()
    (tree / "var/log").symlink_to(outside)
    with RootDirectory(tree) as root:
        remove_leftovers(root)
    assert sorted(each.name for each in outside.rglob("*")) == ["apt", "history", "mail.log"]


# -- servers -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    tmp_path.chmod(0o755)
    for above in tmp_path.parents[:3]:
        above.chmod(above.stat().st_mode | 0o011)
    with upstream(tmp_path, "localhost") as found:
        found.ca.chmod(0o644)
        monkeypatch.setenv("SSL_CERT_FILE", str(found.ca))
        monkeypatch.setenv("NO_PROXY", "localhost")
        yield found


def fetch(url: str, limit: int = 1000) -> bytes:
    with open_url(url, limit) as stream:
        data = stream.read()
        if len(data) != 3:
            raise ImageError(f"{len(data)} bytes came")
        return data


@no_guard("no attack: the others must fail for their own reason")
def test_an_honest_server_is_read(server: Upstream) -> None:
    server.answers["/image"] = (200, {}, b"abc")
    server.answers["/moved"] = (302, {"Location": "/image"}, b"")
    assert fetch(f"https://localhost:{server.port}/image") == b"abc"
    assert fetch(f"https://localhost:{server.port}/moved") == b"abc"


@falls_without(
    "redirects to https alone",
    Removal("image/fetch.py", '        if urlsplit(newurl).scheme != "https":\n', "        if False:\n"),
    Removal(
        "image/fetch.py",
        "        urllib.request.HTTPErrorProcessor(),\n",
        "        urllib.request.HTTPErrorProcessor(),\n        urllib.request.HTTPHandler(),\n",
    ),
)
def test_a_redirect_out_of_https_is_not_followed(server: Upstream, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with upstream(tmp_path / "plain", "localhost", tls=False) as plain:
        plain.answers["/image"] = (200, {}, b"abc")
        server.answers["/image"] = (302, {"Location": f"http://localhost:{plain.port}/image"}, b"")
        with pytest.raises(ImageError, match="not https"):
            fetch(f"https://localhost:{server.port}/image")
        assert plain.seen == []


@no_guard("the library reads no file: it was given no handler for one")
def test_a_redirect_to_a_file_is_not_followed(server: Upstream) -> None:
    server.answers["/image"] = (302, {"Location": "file:///etc/hostname"}, b"")
    with pytest.raises(ImageError, match=r"not https|not allowed"):
        fetch(f"https://localhost:{server.port}/image")


@falls_without(
    "a bounded length",
    Removal("image/fetch.py", "        if size > limit:\n", "        if False:\n"),
)
def test_a_server_that_never_ends_is_cut(server: Upstream) -> None:
    server.answers["/image"] = (200, {}, b"abc" * 1000)
    with pytest.raises(ImageError, match="more than 2 bytes"):
        fetch(f"https://localhost:{server.port}/image", limit=2)


@falls_without(
    "certificates of servers",
    Removal(
        "image/fetch.py",
        "    context = ssl.create_default_context()\n",
        "    context = ssl._create_unverified_context()\n",
    ),
)
def test_a_server_without_a_trusted_certificate_is_not_read(server: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    server.answers["/image"] = (200, {}, b"abc")
    with pytest.raises(ImageError, match=r"(?i)certificate"):
        fetch(f"https://localhost:{server.port}/image")


@falls_without(
    "a fetcher without rights",
    Removal("image/fetch.py", "    jail.drop_privileges(uids.FETCHER)\n", "    pass\n"),
)
def test_the_process_that_downloads_runs_as_its_own_user(server: Upstream) -> None:
    server.answers["/image"] = (200, {}, b"abc" * 100_000)
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    before = {*listed.read_text().split()}  # of other tests in this process
    with open_url(f"https://localhost:{server.port}/image", 1 << 20) as stream:
        stream.read(1)
        children = {*listed.read_text().split()} - before
        owners = {os.stat(f"/proc/{pid}/task").st_uid for pid in children}
        status = [Path(f"/proc/{pid}/status").read_text() for pid in children]
    users = {line.split()[1] for text in status for line in text.splitlines() if line.startswith("Uid:")}
    assert (users, len(owners)) == ({str(uids.FETCHER)}, 1)


@falls_without(
    "https and files alone",
    Removal(
        "image/fetch.py",
        '    if parts.scheme == "https" and parts.hostname and not parts.username:\n',
        "    if parts.hostname:\n",
    ),
    cases="http | ftp | user",
)
@no_guard("the path of such a URL is none on this machine", cases="remote | relative | data")
@pytest.mark.parametrize(
    "url",
    [
        pytest.param("http://localhost/image", id="http"),
        pytest.param("ftp://localhost/image", id="ftp"),
        pytest.param("https://me@localhost/image", id="user"),
        pytest.param("file://elsewhere/image", id="remote"),
        pytest.param("file:image", id="relative"),
        pytest.param("data://,abc", id="data"),
    ],
)
def test_other_urls_are_refused_before_any_request(url: str) -> None:
    with pytest.raises(BriefError, match="cannot be fetched"):
        parse_file_url(url)
    with pytest.raises(BriefError), open_source(url):
        pass
