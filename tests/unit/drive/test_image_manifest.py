"""Tests of an exported image's manifest, and that it bounds what is unpacked."""

from __future__ import annotations

import pytest
from tests.exported_image import fields_of, new_signer

from hotdesk.drive.image_manifest import parse, sign
from hotdesk.errors import ImageError

SIGNER = new_signer()


def test_a_manifest_is_read_as_it_was_signed() -> None:
    fields = fields_of(b"payload", SIGNER)
    line = sign(fields, SIGNER)
    manifest, public = parse(line)
    assert (manifest.name, manifest.payload.size, manifest.source) == ("mine", 7, "a test")
    assert public.public_bytes_raw() == SIGNER.public.public_bytes_raw()
    assert sign(fields, SIGNER) == line


@pytest.mark.parametrize("change", [{"arch": "m68k"}, {"name": "a/b"}, {"size": -1}, {"source": "\n"}, {"more": 1}])
def test_a_manifest_that_could_not_be_read_back_is_not_signed(change: dict[str, object]) -> None:
    with pytest.raises(ImageError, match="cannot be exported"):
        sign(fields_of(b"payload", SIGNER, **change), SIGNER)
