"""What pyproject.toml cannot say of a distribution: links that work away from the repository, the
recorded cases of `dsv4 conform`, which a wheel has compressed, and the pages of `dsv4 docs`.

The page of a package index shows README.md without the files beside it. So its links are made
absolute, from the one setting `repository` in pyproject.toml. While that is empty they stay as
they are.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from zipfile import ZIP_LZMA, ZipFile, ZipInfo

from setuptools import setup
from setuptools.command.build_py import build_py

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent
VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
CASES = (("vectors", "encode-*.jsonl"), ("vectors", "parse-*.jsonl"), ("corpus", "*.jsonl"))
# A Markdown link or image whose target is a path: no scheme, no anchor of the page itself.
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<path>(?![a-z]+:|#)[^)\s]+)\)")


def absolute(markdown: str, repository: str, tag: str) -> str:
    """The text with its relative links as addresses: images as files, everything else as pages."""

    def address(link: re.Match[str]) -> str:
        view = "raw" if link["image"] else "blob"
        return f"{link['image']}[{link['text']}]({repository}/{view}/{tag}/{link['path']})"

    return LINK.sub(address, markdown) if repository else markdown


def metadata() -> dict[str, object]:
    settings = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))
    repository = settings["tool"]["dsv4"]["repository"].rstrip("/")
    found = VERSION.search(ROOT.joinpath("src", "dsv4", "version.py").read_text("utf-8"))
    assert found, "src/dsv4/version.py: found no __version__"
    readme = ROOT.joinpath("README.md").read_text("utf-8")
    return {
        "long_description": absolute(readme, repository, f"v{found[1]}"),
        "long_description_content_type": "text/markdown",
        "project_urls": {"Repository": repository} if repository else {},
    }


class BuildWithCases(build_py):
    """Packs the files that `dsv4 conform` reads, and the pages that `dsv4 docs` prints."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:  # a checkout has the files themselves
            return
        target = Path(self.build_lib, "dsv4", "compat", "conformance_cases.zip")
        with ZipFile(target, "w", ZIP_LZMA) as archive:
            for folder, pattern in CASES:
                for path in sorted(ROOT.joinpath("tests", folder).glob(pattern)):
                    # The same bytes every time: no time of the file.
                    archive.writestr(ZipInfo(path.name), path.read_bytes(), ZIP_LZMA)
        pages = Path(self.build_lib, "dsv4", "_docs")
        pages.mkdir(exist_ok=True)
        for path in sorted(ROOT.joinpath("docs").glob("*.md")):
            pages.joinpath(path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    setup(**metadata(), cmdclass={"build_py": BuildWithCases})
