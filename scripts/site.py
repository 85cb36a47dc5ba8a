"""What mkdocs cannot do from docs/ alone. mkdocs calls these functions; mkdocs.yml names this file.

- The pages that stand beside the code they speak of (CHANGELOG.md, bench/README.md, …) join in.
- Each public module gets a page of reference, made from its docstrings: a module is public if it
  says what it offers, in `__all__`.
- Each page says what other sites show of a link to it.
- A link whose text is the name of a file gets the title of the page as its text.
- A link to the guide of the playground whose title is the name of a request in
  docs/playground_links.json opens that request in the playground, which is built beside the pages.
- The page of servers gets the table of all their differences, which the comparison speaks from.
- Links to files that are no pages, such as source code, lead to the repository if its address is
  set in pyproject.toml. Without one they are not links.
"""

from __future__ import annotations

import ast
import base64
import json
import posixpath
import re
import sys
import zlib
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"

# Pages from outside docs/, and where they are in the navigation.
OTHER_PAGES = {
    "bench/README.md": "Benchmarks",
    "fuzz/README.md": "Fuzzing",
    "tests/corpus/README.md": "Corpus",
    "tests/vectors/README.md": "Vectors",
    "CHANGELOG.md": "Changelog",
    "CONTRIBUTING.md": "Contributing",
    "SECURITY.md": "Security",
}
LINK = re.compile(r"(?P<text>!?\[[^\]]*\])\((?P<path>(?![a-z]+:|#)[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")

TO_PLAYGROUND = re.compile(r'\[(?P<text>[^\]]*)\]\(playground-guide\.md "(?P<name>[^"]+)"\)')

# Where the page of servers has a table that is not kept in it.
DIFFERENCES_HERE = "<!-- differences -->"

# What the theme writes that keeps screen readers from telling parts apart: a dialog without a name,
# parts of the navigation that are named by what is hidden, empty headers of columns.
MENDED = {
    r'role="dialog">': 'role="dialog" aria-label="Search">',
    r'(data-md-level="\d") aria-labelledby="__nav_([\d_]+)_label"': r'\1 aria-label="Section \2"',
    r"<th></th>": "<td></td>",
}


def public_modules() -> dict[str, list[str]]:
    """Every module with an `__all__`, with the names in it, from the top down."""
    found = {}
    for path in sorted(SRC.rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        names = offered(path)
        if names and not any(part.startswith("_") for part in module.split(".")):
            found[module] = names
    return dict(sorted(found.items(), key=lambda item: (not item[0].startswith("dsv4"), item[0])))


def offered(path: Path) -> list[str]:
    """The names in a module's `__all__`, which is a list of strings. Most modules have none, and
    need not be parsed to know."""
    source = path.read_text("utf-8")
    for node in statements(source) if "__all__" in source else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


@cache
def statements(source: str) -> list[ast.stmt]:
    """Those of a module, with what it imports for type checkers, and loads when it is used. A
    package is asked about each of its names."""
    body = ast.parse(source).body
    return [inner for node in body for inner in (node.body if isinstance(node, ast.If) else [node])]


def source_of(module: str) -> Path:
    path = SRC / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def defined_in(module: str, name: str) -> tuple[str, str]:
    """The module in which a public name gets its value, and its name there, through all imports.

    A package that imports a module of its own says nothing of a value: the name is that module's.
    """
    for node in statements(source_of(module).read_text("utf-8")):
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            if (alias.asname or alias.name) == name:
                found = str(node.module), alias.name
                return found if found == (module, name) else defined_in(*found)
    return module, name


def is_module(path: str) -> bool:
    return source_of(path).exists()


def reference_page(module: str, names: list[str]) -> str:
    """A page that mkdocstrings fills in, name by name."""
    parts = [f"# {module}\n", f"::: {module}\n    options:\n      members: false\n"]
    parts += [entry(module, name) for name in names if name != "__version__"]
    return "\n".join(parts)


def entry(module: str, name: str) -> str:
    """Where a name's documentation goes. A module has a page of its own."""
    home, original = defined_in(module, name)
    path = f"{module}.{name}"
    if is_module(f"{home}.{original}"):
        return f"## {name}\n\nA module: see [{path}]({path}.md).\n"
    # A function in a module of its own name: only its whole path tells it from the module.
    shown = f"{home}.{original}" if home.endswith(f".{original}") else path
    options = f"      heading: {name!r}\n      show_root_heading: true\n"
    return f"::: {shown}\n    options:\n{options}      show_root_toc_entry: true\n"


def page_name(module: str) -> str:
    return f"reference/{module}.md"


def repository() -> str:
    """The address that pyproject.toml gives, or nothing."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    settings = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))
    return str(settings["tool"]["dsv4"]["repository"]).rstrip("/")


def on_config(config: Any) -> Any:
    config.repo_url = repository() or None
    modules = [{module: page_name(module)} for module in public_modules()]
    parts = {title: pages for entry in config.nav for title, pages in entry.items()}
    parts["Library"] += [{title_of(page): page.name} for page in pages_not_in(str(config.nav))]
    parts["Project"] += [{title: path} for path, title in OTHER_PAGES.items()]
    parts["Reference"] += modules
    return config


def pages_not_in(navigation: str) -> list[Path]:
    """Pages of docs/ that mkdocs.yml does not name: a new page is about the library unless
    it says more."""
    return [page for page in sorted(ROOT.glob("docs/*.md")) if f"'{page.name}'" not in navigation]


def title_of(page: Path) -> str:
    return page.read_text("utf-8").splitlines()[0].lstrip("# ")


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for path in OTHER_PAGES:
        text = ROOT.joinpath(path).read_text("utf-8")
        files.append(File.generated(config, path, content=text))
    for module, names in public_modules().items():
        page = reference_page(module, names)
        files.append(File.generated(config, page_name(module), content=page))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    # Where the page stands in the repository: those of docs/ are not at the top there.
    source = page.file.src_uri
    place = source if source in OTHER_PAGES else f"docs/{source}"
    if DIFFERENCES_HERE in markdown:
        markdown = markdown.replace(DIFFERENCES_HERE, differences_table())

    def in_site(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(place), link["path"]))
        target = path.removeprefix("docs/") if path.startswith("docs/") else path
        anchor = link["anchor"] or ""
        if path == "README.md":
            target = "index.md"
        if files.get_file_from_path(target):
            relative = posixpath.relpath(target, posixpath.dirname(source) or ".")
            return f"{titled(link['text'], path)}({relative}{anchor})"
        if path.startswith("docs/"):
            return link[0]  # there is no such page, as mkdocs will say
        return in_repository(link["text"], path + anchor, config.repo_url)

    def in_playground(link: re.Match[str]) -> str:
        up = "../" * page.url.count("/")
        return f'<a href="{up}playground/{fragment(link["name"])}">{link["text"]}</a>'

    def change(prose: str) -> str:
        return LINK.sub(in_site, TO_PLAYGROUND.sub(in_playground, prose))

    return "".join(outside_code(markdown, change))


def differences_table() -> str:
    """What servers do differently: a row for each topic, a column for each server."""
    sys.path.insert(0, str(SRC))
    from dsv4.profiles import PROFILES
    from dsv4.profiles.comparison import DIFFERENCE_COLUMNS, DIFFERENCES

    def words(cell: str | tuple[str, str]) -> str:
        return cell if isinstance(cell, str) else f"V4: {cell[0]}; V4.1: {cell[1]}"

    names = list(DIFFERENCE_COLUMNS)
    rows = [
        ["", *(PROFILES[each].server for each in names)],
        ["---"] * (len(names) + 1),
        *(
            [row.title, *(words(row.cell(name)) for name in DIFFERENCE_COLUMNS)]
            for row in DIFFERENCES
        ),
    ]
    escaped = ((cell.replace("|", "\\|") for cell in row) for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in escaped)


@cache
def playground_links() -> dict[str, Any]:
    text = ROOT.joinpath("docs/playground_links.json").read_text("utf-8")
    return dict(json.loads(text))


def fragment(name: str) -> str:
    """The end of an address that opens a request, as the page's state.js writes it."""
    linked = playground_links()[name]
    source = json.dumps(linked["request"], indent=2, ensure_ascii=False)
    shown = {"shown": linked["shown"], "beside": linked["beside"]}
    state = json.dumps({"request": {"source": source}, "prompt": shown}, ensure_ascii=False)
    packer = zlib.compressobj(9, wbits=-15)  # without a head, as "deflate-raw" has it
    packed = packer.compress(state.encode()) + packer.flush()
    return f"#prompt/1.{base64.urlsafe_b64encode(packed).decode().rstrip('=')}"


def on_post_page(output: str, page: Any, config: Any) -> str:
    """What other sites show of a link to a page: its title, and a picture of the playground."""
    up = config.site_url or "../" * page.url.count("/")
    title = page.title if page.title == config.site_name else f"{page.title} · {config.site_name}"
    card = {
        "og:title": title,
        "og:description": config.site_description,
        "og:image": f"{up}card.png",
        "og:type": "website",
        "twitter:card": "summary_large_image",
    }
    written = (f'<meta property="{name}" content="{escape(text)}">' for name, text in card.items())
    output = output.replace("</head>", "".join(written) + "</head>", 1)
    for theirs, ours in MENDED.items():
        output = re.sub(theirs, ours, output)
    return output


def titled(text: str, path: str) -> str:
    """The text of a link in the site, where files have no names: a page's title instead of one."""
    page = ROOT / path
    is_file_name = text[1:-1].strip("`") in (path, page.name) and page.suffix == ".md"
    return f"[{title_of(page)}]" if is_file_name and page.exists() else text


def in_repository(text: str, path: str, address: str | None) -> str:
    return f"{text}({address}/blob/main/{path})" if address else text[1:-1]


def outside_code(markdown: str, change: Any) -> Iterator[str]:
    """The text in which everything but fenced code is changed."""
    fence = ""
    for line in markdown.splitlines(keepends=True):
        opened = re.match(r"\s*(```+|~~~+)", line)
        if fence:
            fence = "" if opened and line.strip() == fence else fence
            yield line
        elif opened:
            fence = opened[1]
            yield line
        else:
            yield change(line)
