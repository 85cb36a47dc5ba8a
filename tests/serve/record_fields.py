"""Writes server_fields.json, the fields that the requests of vLLM and SGLang have, and
server_metrics.json, what they call the numbers of their requests in their metrics.

    python tests/serve/record_fields.py vllm==0.32.0=FOLDER sglang==0.5.23=FOLDER

A folder is the unpacked package of a wheel. Files are read, nothing is imported.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

FIELDS = Path(__file__).parent / "server_fields.json"
METRICS = Path(__file__).parent / "server_metrics.json"
# Where the class of the request is that a backend of the gateway sends, in each package.
CLASSES = {
    "vllm": [("entrypoints/openai/completion/protocol.py", "CompletionRequest", "")],
    "sglang": [
        ("srt/managers/io_struct.py", "GenerateReqInput", ""),
        ("srt/sampling/sampling_params.py", "SamplingParams", "sampling_params."),
    ],
}


def fields_of(file: Path, name: str) -> list[str]:
    """The fields of a class that are not private."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ClassDef) and node.name == name:
            targets = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            return [each for each in names if not each.startswith("_")]
    raise SystemExit(f"{file}: found no class {name}")


def metrics_of(folder: Path) -> list[str]:
    """The metrics of a package that count something now, by the names in its source."""
    sources = (file.read_text("utf-8", "replace") for file in folder.rglob("*.py"))
    name = re.compile(r"""["']((?:vllm|sglang):num_\w+)["']""")
    return sorted({found for source in sources for found in name.findall(source)})


def main(arguments: list[str]) -> None:
    found, metrics = {}, {}
    for argument in arguments:
        release, _, folder = argument.rpartition("=")
        found[release] = sorted(
            prefix + name
            for path, class_name, prefix in CLASSES[release.partition("==")[0]]
            for name in fields_of(Path(folder) / path, class_name)
        )
        metrics[release] = metrics_of(Path(folder))
    FIELDS.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    METRICS.write_text(json.dumps(metrics, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
