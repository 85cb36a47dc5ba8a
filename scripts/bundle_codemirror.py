"""Bundles CodeMirror, the editor of the playground's page, into one file that is committed.

    python scripts/bundle_codemirror.py

Its packages have their exact versions in tests/javascript/package.json. For a new version, change
them there, run this, and put the new SHA-256 into tests/playground/test_vendored_editor.py, which
builds the file again and compares.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from check_javascript import TOOLS, install_packages

ROOT = Path(__file__).resolve().parents[1]
VENDOR = ROOT / "src" / "dsv4" / "_playground" / "page" / "vendor"
BANNER = "/* CodeMirror 6, bundled by scripts/bundle_codemirror.py. MIT: codemirror.LICENSE.txt */"
# What the page uses, by package.
EXPORTS = {
    "@codemirror/state": "EditorSelection EditorState StateEffect StateField",
    "@codemirror/view": (
        "Decoration EditorView drawSelection highlightSpecialChars keymap lineNumbers placeholder"
    ),
    "@codemirror/language": (
        "HighlightStyle codeFolding ensureSyntaxTree foldEffect foldGutter foldKeymap foldedRanges"
        " syntaxHighlighting syntaxTree unfoldAll unfoldEffect"
    ),
    "@codemirror/commands": "defaultKeymap history historyKeymap",
    "@codemirror/search": "openSearchPanel search searchKeymap",
    "@codemirror/lang-json": "json",
    "@lezer/highlight": "tags",
}
# Other packages whose code is in the bundle.
INSIDE = (
    *("@lezer/common", "@lezer/json", "@lezer/lr", "@marijn/find-cluster-break"),
    *("crelt", "style-mod", "w3c-keyname"),
)


def bundled() -> bytes:
    """The bundle, made of the packages that are installed in build/javascript."""
    entry = "".join(
        f'export {{ {", ".join(names.split())} }} from "{package}";\n'
        for package, names in EXPORTS.items()
    )
    program = str(TOOLS / "node_modules" / ".bin" / "esbuild")
    options = ["--bundle", "--minify", "--format=esm", "--target=es2022", "--legal-comments=none"]
    banner = (
        "/* CodeMirror 6, bundled by scripts/bundle_codemirror.py. MIT: codemirror.LICENSE.txt */"
    )
    command = [program, *options, f"--banner:js={banner}"]
    return subprocess.run(
        command, input=entry.encode(), cwd=TOOLS, check=True, capture_output=True
    ).stdout


def licences() -> str:
    """The licence of each package in the bundle, with its version."""
    parts = []
    for package in (*EXPORTS, *INSIDE):
        folder = TOOLS / "node_modules" / package
        version = json.loads((folder / "package.json").read_text("utf-8"))["version"]
        parts.append(f"{package} {version}\n\n{(folder / 'LICENSE').read_text('utf-8').strip()}\n")
    return "\n----\n\n".join(parts)


def main() -> int:
    npm = shutil.which("npm")
    if npm is None or not install_packages(npm):
        sys.exit("npm could not install the packages")
    VENDOR.mkdir(exist_ok=True)
    (VENDOR / "codemirror.js").write_bytes(bundled())
    (VENDOR / "codemirror.LICENSE.txt").write_text(licences(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
