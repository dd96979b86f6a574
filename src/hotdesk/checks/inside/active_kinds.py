"""Recognises formats by their structure, and names under which a file does nothing. Runs inside a clean desk."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import PurePosixPath

BITMAP_HEADERS = (12, 16, 40, 52, 56, 64, 108, 124)
"""Sizes of the header that follows that of a bitmap file."""
RIFF_FORMS = (b"WEBP", b"WAVE", b"AVI ")
OFFICE = frozenset(
    """
    doc docm docx dot dotm dotx odg odm odp ods odt otg otp ots ott pot potm potx pps ppsm ppsx ppt pptm pptx xla xlam
    xls xlsb xlsm xlsx xlt xltm xltx xlw
    """.split()
)
"""Suffixes of files that an office program opens, whatever their content is."""
INERT = frozenset(
    """
    adoc asc bib bmp bst c cc cfg cls conf cpp cs css csv cxx dat diff doc dockerignore docm docx dot dtd
    editorconfig env epub fasta fodp fods fodt geojson gif gitattributes gitignore gitkeep go gz h hpp htm html ics
    ini ipynb java jpeg jpg json jsonl keep kt lock log m markdown md mp3 mp4 mpeg nfo odp ods odt ogg org otf
    parquet patch pdf plist png po pot potx ppt pptm pptx properties proto psv r rels rs rst rtf scala sql srt sub sum
    svg swift tab tar tex text tf tif tiff toml ts tsv tsx ttf txt vcf vtt wav webm webp woff woff2 xht xhtml xls
    xlsb xlsm xlsx xml xsd xsl xslt yaml yml zip
    asm astro bazel bbl bzl clj cljs cmake cu cuh d dart elm f f90 f95 for frag fsi gemspec glsl gql gradle graphql hcl
    hh hlsl hxx in json5 jsonc kts less map mdx mk ml mli mod ndjson nim pas podspec pyi sass scss sty svelte
    tfvars thrift typed vb vert vue zig
    apache bsd gpl lgpl mit mpl
    """.split()
)
"""Suffixes of files that a desktop shows, edits or does not know. It may start a file of any other suffix.

Projects of Visual Studio are missing, because it runs what they contain when it opens them; so are Haskell, Erlang and
PostScript, which some desktops start in an interpreter.
"""
DOTFILES = frozenset(
    """
    .babelrc .browserslistrc .clang-format .clang-tidy .coveragerc .eslintignore .eslintrc .flake8 .gitmodules .hgignore
    .jshintrc .mailmap .node-version .npmignore .npmrc .nvmrc .nycrc .prettierignore .prettierrc .pylintrc
    .python-version .ruby-version .stylelintrc .swcrc .tool-versions
    """.split()
)
"""Settings of tools. Those of shells are missing, because a shell runs them."""
PLATFORMS = frozenset("alpine amd64 arm64 base build ci cuda debian dev gpu linux local prod test ubuntu".split())
"""What may follow the name of a Dockerfile."""
VERSION = re.compile(r"v\d+")


def is_archive(data: bytes) -> bool:
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return True
    return zipfile.is_zipfile(io.BytesIO(data)) and not data.startswith(b"%PDF-")


def is_picture(data: bytes) -> bool:
    """Return whether the data are a picture or a sound, by more than the letters they start with."""
    if data.startswith(b"\xff\xd8\xff"):
        return data[3:4] >= b"\xc0" and b"\xff\xda" in data
    if data.startswith((b"GIF87a", b"GIF89a")):
        table = 3 << (data[10] & 7) + 1 if len(data) > 13 and data[10] & 0x80 else 0
        return data[13 + table : 14 + table] in (b"!", b",", b";") and b"\0" in data[6 : 24 + table]
    if data.startswith(b"BM"):
        size, unused, start, header = (int.from_bytes(data[at : at + 4], "little") for at in (2, 6, 10, 14))
        return max(size, start) <= len(data) and unused == 0 and header in BITMAP_HEADERS
    if data.startswith(b"RIFF"):
        return data[8:12] in RIFF_FORMS and int.from_bytes(data[4:8], "little") <= len(data)
    if data.startswith((b"II*\0", b"MM\0*")):
        return 8 <= int.from_bytes(data[4:8], "little" if data[:1] == b"I" else "big") < len(data)
    if data.startswith(b"\x01\0\0\0"):
        return data[40:44] == b" EMF"
    return data.startswith((b"\xd7\xcd\xc6\x9a", b"VCLMTF\x01\0"))


def is_inert_name(name: str) -> bool:
    """Return whether a desktop only shows or edits a file of this name. Windows drops final dots and spaces."""
    *folders, last = [each.rstrip(". ").lower() for each in PurePosixPath(name).parts] or [""]
    if last == "desktop.ini" or ".git" in folders:
        return False
    suffix = last.rpartition(".")[2] if "." in last else ""
    if last in DOTFILES or VERSION.fullmatch(suffix) or (last == f"dockerfile.{suffix}" and suffix in PLATFORMS):
        return True
    return suffix in INERT or not any(each.isalpha() for each in suffix)
