"""The bundle of CodeMirror that is committed: what is in it, and that its recipe makes it."""

from __future__ import annotations

from hashlib import sha256

import pytest

from loading import ROOT, loaded

SCRIPTS = str(ROOT / "scripts")
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(SCRIPTS)
    bundle_codemirror = loaded("scripts/bundle_codemirror.py")

BUNDLE = bundle_codemirror.VENDOR / "codemirror.js"
SHA256 = "29eb0547c180c5e055ced039ce591ab0fa049068b54e90d9ce89ab3780898ca4"


def test_the_bundle_is_the_one_that_was_looked_at() -> None:
    assert sha256(BUNDLE.read_bytes()).hexdigest() == SHA256


def test_each_package_has_its_licence() -> None:
    text = (bundle_codemirror.VENDOR / "codemirror.LICENSE.txt").read_text("utf-8")
    for package in (*bundle_codemirror.EXPORTS, *bundle_codemirror.INSIDE):
        assert f"{package} " in text
    assert text.count("Permission is hereby granted") == text.count("----\n") + 1


def test_the_recipe_makes_the_bundle() -> None:
    if not (bundle_codemirror.TOOLS / "node_modules" / "esbuild").is_dir():
        pytest.skip("esbuild was not found: scripts/check_javascript.py installs it")
    assert bundle_codemirror.bundled() == BUNDLE.read_bytes()
    assert bundle_codemirror.licences() == (
        bundle_codemirror.VENDOR / "codemirror.LICENSE.txt"
    ).read_text("utf-8")


def test_the_font_is_the_one_that_was_drawn() -> None:
    font = bundle_codemirror.VENDOR.parent / "tokenbars.woff"
    digest = "ee189cede70ebda08ab1a63d5102b474b88d33c3ffcdd0b08b14328726688822"
    assert sha256(font.read_bytes()).hexdigest() == digest
