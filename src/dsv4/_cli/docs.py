"""dsv4 docs: prints a page of the documentation, which is installed with the package."""

from __future__ import annotations

from dataclasses import dataclass

from dsv4._cli.command_output import DONE, Failure, write_text
from dsv4._cli.option_fields import argument
from dsv4._why.doc_pages import doc_pages, page_text, page_title


@dataclass(kw_only=True)
class DocsOptions:
    page: str | None = argument("NAME", "?")


def run(args: DocsOptions) -> int:
    if args.page is None:
        write_text(None, "".join(f"{name:<20} {page_title(name)}\n" for name in doc_pages()))
        return DONE
    # A page may be given as links and error messages have it: docs/why-dsml.md#which-cause-is-it.
    name = args.page.partition("#")[0].removeprefix("docs/").removesuffix(".md")
    if name not in doc_pages():
        from difflib import get_close_matches

        close = get_close_matches(name, doc_pages(), n=1)
        hint = f"did you mean {close[0]}?" if close else "without a name, it lists all"
        raise Failure(f"there is no page {name} ({hint})")
    write_text(None, page_text(name))
    return DONE
