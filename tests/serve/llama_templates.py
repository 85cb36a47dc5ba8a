"""llama.cpp's own chat templates for V4, from the source of the xllamacpp that is installed.

Wheels have no templates, the source distribution has. It is fetched once (38 MB) from the index
that pip uses; its templates stay in `build/`.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import urllib.request
from functools import cache
from html.parser import HTMLParser
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from urllib.parse import urldefrag, urljoin

PACKAGE = "xllamacpp"
INDEX = "https://pypi.org/simple"
FOLDER = Path(__file__).parents[2] / "build" / "llamacpp-templates"
# The template with the effort texts of 31 July, which the profiles describe, and that of April.
JULY, APRIL = "deepseek-ai-DeepSeek-V4-Flash-0731.jinja", "deepseek-ai-DeepSeek-V4.jinja"


class NoTemplates(Exception):
    """Why there are none."""


@cache
def template(name: str) -> Path:
    """A template as a file."""
    try:
        folder = FOLDER / version(PACKAGE)
    except PackageNotFoundError:
        raise NoTemplates(f"no {PACKAGE}, whose source has llama.cpp's templates") from None
    if not (folder / name).exists():
        try:
            _extract(_source(folder.name), folder)
        except (OSError, ValueError, KeyError, tarfile.TarError) as error:
            problem = f"no source of {PACKAGE} {folder.name}, which has the templates: {error}"
            raise NoTemplates(problem) from None
    return folder / name


def _source(release: str) -> bytes:
    """The source distribution of a release."""
    page = f"{_index().rstrip('/')}/{PACKAGE}/"
    links = _Links()
    links.feed(_fetched(page).decode())
    address, digest = urldefrag(urljoin(page, links.to[f"{PACKAGE}-{release}.tar.gz"]))
    found = _fetched(address)
    if digest.startswith("sha256=") and digest != f"sha256={hashlib.sha256(found).hexdigest()}":
        raise ValueError(f"{address} is not what the index says")
    return found


def _index() -> str:
    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    configured = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return os.environ.get("PIP_INDEX_URL") or configured or INDEX


def _fetched(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=60) as answer:
        found: bytes = answer.read()
    return found


class _Links(HTMLParser):
    """The files that a page of an index links to, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.to: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href") or ""
        self.to[urldefrag(address)[0].rpartition("/")[2]] = address


def _extract(source: bytes, folder: Path) -> None:
    """Only the templates, into a folder."""
    with tarfile.open(fileobj=BytesIO(source)) as archive:
        for member in archive:
            name = member.name.rpartition("/")[2]
            file = archive.extractfile(member) if name in (JULY, APRIL) else None
            if file is not None:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(file.read())
    for name in (JULY, APRIL):
        if not (folder / name).exists():
            raise ValueError(f"it has no {name}")
