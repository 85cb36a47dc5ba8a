"""Writes the playground as static files: the same page, whose calls Python answers in the browser.

    python scripts/build_playground.py build/site/playground --packages build/npm

`--packages` is a folder into which npm has installed what PACKAGES names; `make site` does that.
All that the page loads is in the folder that is written. Beside each file that compresses well is
its `.gz`, for servers that send such files.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import shutil
import sys
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from dsv4 import _playground
from dsv4._playground.page_functions import BrowserPlayground
from dsv4._view.html_page import STYLE
from dsv4._why.doc_pages import doc_pages
from dsv4.tokens.vocabulary import find_vocabulary

ROOT = Path(__file__).resolve().parent.parent
PAGE = Path(_playground.__file__).parent / "page"
WORKER = Path(__file__).resolve().parent / "static_playground"
PACKAGES = ("pyodide@314.0.7", "@huggingface/tokenizers@0.2.0")
PYTHON_FILES = (
    *("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "pyodide-lock.json"),
    "python_stdlib.zip",
)
# The answers to the first calls, which the page has before Python.
PREPARED = "python/prepared.json"
# Parts of the package that no function of the page imports.
LEFT_OUT = ("serve", "_cli")
# Everything that a first visit loads, compressed.
MOST_BYTES = 12_000_000
WELL_COMPRESSED = (".css", ".html", ".js", ".json", ".mjs", ".svg", ".wasm")
# Only files of this page are loaded, and only it may be asked. WebAssembly is what Python runs in.
SECURITY_POLICY = "; ".join(
    (
        *("default-src 'none'", "script-src 'self' 'wasm-unsafe-eval'", "worker-src 'self'"),
        *("style-src 'self'", "connect-src 'self'", "img-src 'self' data:", "font-src 'self'"),
        *("base-uri 'none'", "form-action 'none'"),
    )
)


def build(target: Path, packages: Path) -> int:
    """Writes all files, and returns how many bytes a first visit loads."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(PAGE, target)
    (target / "view.css").write_text(STYLE, "utf-8")
    _write_python(target / "python", packages / "node_modules")
    _write_page(target)
    _write_service_worker(target)
    return sum(_compressed_size(path) for path in _files(target))


def _write_page(target: Path) -> None:
    policy = f'<meta http-equiv="Content-Security-Policy" content="{SECURITY_POLICY}">'
    page = (target / "index.html").read_text("utf-8")
    page = _replaced(page, '<html lang="en">', '<html lang="en" data-python="python/">')
    page = _replaced(page, "<head>\n", f"<head>\n{policy}\n")
    card = '<meta property="og:image" content="card.png">'
    page = _replaced(page, "</head>", f"{card}\n</head>")
    shutil.copy(ROOT / "docs" / "card.png", target)
    (target / "index.html").write_text(page, "utf-8")


def _replaced(text: str, old: str, new: str) -> str:
    if old not in text:
        raise SystemExit(f"index.html does not have {old!r}")
    return text.replace(old, new, 1)


def _write_python(target: Path, modules: Path) -> None:
    """The worker, Python, the package, the vocabulary, and the answers to the first calls."""
    (target / "pyodide").mkdir(parents=True)
    shutil.copy(WORKER / "worker.js", target)
    for name in PYTHON_FILES:
        shutil.copy(modules / "pyodide" / name, target / "pyodide")
    tokenizers = modules / "@huggingface" / "tokenizers" / "dist" / "tokenizers.min.mjs"
    shutil.copy(tokenizers, target / "tokenizers.mjs")
    (target / "dsv4.zip").write_bytes(_packed_package())
    vocabulary = Path(find_vocabulary(None)).read_bytes()
    (target / "vocabulary.json.gz").write_bytes(gzip.compress(vocabulary, mtime=0))
    _write_json(target.parent / PREPARED, prepared_answers())
    _write_json(target / "files.json", _file_list(target))


def _packed_package() -> bytes:
    """The package as a zip file, the same bytes for the same sources."""
    source = Path(_playground.__file__).parent.parent
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(source.rglob("*")):
            name = path.relative_to(source)
            if path.suffix not in (".py", ".txt", ".jinja", ".json", ".css") or _is_left_out(name):
                continue
            entry = zipfile.ZipInfo(f"dsv4/{name.as_posix()}")
            file.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
        errors = zipfile.ZipInfo("dsv4/_docs/errors.md")  # which verdicts are read from
        file.writestr(errors, doc_pages()["errors"].read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _is_left_out(name: Path) -> bool:
    return name.parts[0] in LEFT_OUT


def prepared_answers() -> dict[str, Any]:
    """What the page asks for when it is first opened -> the answer, by the name of the function and
    the JSON that `JSON.stringify` writes.
    """
    playground = BrowserPlayground()
    _use_tokenizer(playground)
    settings = _answer(playground, "settings", {})
    source = settings["examples"][0]["source"]
    calls = [
        ("settings", {}),
        ("prompt", {"source": source, "ids": False, "sides": ["dsv4"]}),
    ]
    return {f"{name} {_as_sent(body)}": _answer(playground, name, body) for name, body in calls}


def _use_tokenizer(playground: BrowserPlayground) -> None:
    """Any engine: the ids are the same."""
    from dsv4.tokens.coder import engine_named
    from dsv4.tokens.vocabulary import Vocabulary

    path = find_vocabulary(None)
    encode = engine_named("auto")(Vocabulary.read(path))
    playground.use_tokenizer(Path(path).read_text("utf-8"), encode)


def _answer(playground: BrowserPlayground, name: str, body: dict[str, Any]) -> Any:
    status, text = playground.answer(name, _as_sent(body))
    assert status == 200, text
    return json.loads(text)


def _as_sent(body: dict[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def _file_list(target: Path) -> dict[str, Any]:
    python = [f"pyodide/{name}" for name in PYTHON_FILES if name.endswith((".wasm", ".zip"))]
    names = {"package": "dsv4.zip", "vocabulary": "vocabulary.json.gz", "python": python}
    total = sum(
        (target / name).stat().st_size for name in ("dsv4.zip", "vocabulary.json.gz", *python)
    )
    return {**names, "total": total}


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, separators=(",", ":")), "utf-8")


def _write_service_worker(target: Path) -> None:
    """It is named for the contents of all other files: another build is another cache."""
    digest = sha256()
    for path in _files(target):
        digest.update(path.relative_to(target).as_posix().encode() + b"\0" + path.read_bytes())
    source = (WORKER / "service-worker.js").read_text("utf-8")
    marked = _replaced(
        source, 'const VERSION = "";', f'const VERSION = "{digest.hexdigest()[:16]}";'
    )
    names = (path.relative_to(target).as_posix() for path in _files(target))
    first = ["./", *(n for n in names if not n.startswith("python/") or n == PREPARED)]
    marked = _replaced(marked, "const FIRST = [];", f"const FIRST = {json.dumps(first)};")
    (target / "service-worker.js").write_text(marked, "utf-8")


def _files(target: Path) -> Iterator[Path]:
    beside = {path.with_name(f"{path.name}.gz") for path in target.rglob("*")}
    return (p for p in sorted(target.rglob("*")) if p.is_file() and p not in beside)


def _compressed_size(path: Path) -> int:
    """What a server sends of a file. The compressed form is written beside it."""
    data = path.read_bytes()
    if path.suffix not in WELL_COMPRESSED:
        return len(data)
    compressed = gzip.compress(data, mtime=0)
    path.with_name(f"{path.name}.gz").write_bytes(compressed)
    return len(compressed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", type=Path, help="folder to write; what is in it is replaced")
    parser.add_argument("--packages", type=Path, default=ROOT / "build" / "npm")
    args = parser.parse_args()
    if not (args.packages / "node_modules" / "pyodide").is_dir():
        sys.exit(
            f"found no Pyodide in {args.packages}: npm install --prefix it {' '.join(PACKAGES)}"
        )
    size = build(args.target, args.packages)
    print(f"{args.target}: {size / 1e6:.1f} MB compressed")
    if size > MOST_BYTES:
        sys.exit(f"found {size:,} bytes, expected at most {MOST_BYTES:,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
