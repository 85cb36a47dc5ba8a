"""What it costs a program to import the encoder: processor time over a bare interpreter.

    python bench/imports.py [ROUNDS]

The released file is not part of this project, so it is stood in for by its imports and by the time
that Python takes to compile and run a module of its size: `bench/imports.py` writes one of 750
lines of functions and templates. Each round starts every program once, in turn; the least of all
rounds counts, because other work on the machine can only add to it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
FILE_OF_THAT_KIND = "file_of_that_kind"

PROGRAMS = {
    "a bare interpreter": "",
    "a file of that kind": f"import {FILE_OF_THAT_KIND}",
    "import encoding_dsv4": "import encoding_dsv4",
    "import encoding_dsv41": "import encoding_dsv41",
    "import encoding_dsv32": "import encoding_dsv32",
    "dsv4.encode": "import dsv4; dsv4.encode",
    "dsv4.parse": "import dsv4; dsv4.parse",
    "dsv4.api": "import dsv4.api",
    "all of dsv4": "import dsv4; [getattr(dsv4, name) for name in dsv4.__all__]",
}


def write_file_of_that_kind(folder: Path) -> None:
    """A module with the imports of the released one, and as many lines."""
    function = '''
def render_{n}(index: int, messages: List[Dict[str, Any]], mode: str = "chat") -> str:
    """Renders a message."""
    message = copy.deepcopy(messages[index])
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "\\n\\n".join(block.get("text", "") for block in content)
    calls = [json.dumps(call, ensure_ascii=False) for call in message.get("tool_calls") or []]
    prompt = TEMPLATE_{n}.format(content=content, calls="\\n".join(calls))
    if mode != "chat" and re.search(r"<t{n}>(.*?)</t{n}>", prompt, re.DOTALL):
        raise ValueError(f"unexpected tag in message {{index}}")
    return prompt
'''
    head = (
        "import copy\nimport json\nimport re\nfrom typing import Any, Dict, List, Optional, Tuple\n"
    )
    parts = [f'\nTEMPLATE_{n} = "{{content}}{{calls}}"\n' + function.format(n=n) for n in range(52)]
    (folder / f"{FILE_OF_THAT_KIND}.py").write_text(head + "".join(parts), encoding="utf-8")


def seconds(program: str, folder: Path) -> float:
    """The processor time of a program, without what the site's packages add."""
    paths = f"import sys; sys.path[:0] = [{str(SOURCE)!r}, {str(folder)!r}]\n"
    # Compiled files are used, as in an installation, and not those that may be out of date.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    variables = {**kept, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    child = subprocess.Popen([sys.executable, "-S", "-c", paths + program], env=variables)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{program}: failed")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_file_of_that_kind(folder)
        least = dict.fromkeys(PROGRAMS, float("inf"))
        for _ in range(rounds):
            for title, program in PROGRAMS.items():
                least[title] = min(least[title], seconds(program, folder))
    bare = least["a bare interpreter"]
    unit = least["a file of that kind"] - bare
    print(f"{'':24}  over a bare interpreter ({bare * 1000:.0f} ms)")
    for title, time in least.items():
        over = time - bare
        if title != "a bare interpreter":
            print(f"{title:24}  {over * 1000:6.1f} ms  {over / unit:5.2f} ×")


if __name__ == "__main__":
    main()
