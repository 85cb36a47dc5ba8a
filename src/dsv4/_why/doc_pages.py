"""The pages of the documentation, as files: a wheel has them inside the package, a checkout beside
it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent
# The folders that may have the pages: the first that exists is used.
_FOLDERS = (_PACKAGE / "_docs", _PACKAGE.parents[1] / "docs")


@cache
def doc_pages() -> dict[str, Path]:
    """The pages by their names, such as `why-dsml`."""
    folder = next((folder for folder in _FOLDERS if folder.is_dir()), None)
    return {} if folder is None else {path.stem: path for path in sorted(folder.glob("*.md"))}


def page_text(name: str) -> str:
    """The text of a page. Raises a `KeyError` if there is no page with this name."""
    return doc_pages()[name].read_text("utf-8")


def page_title(name: str) -> str:
    """The heading of a page."""
    return page_text(name).partition("\n")[0].lstrip("# ")
