"""How long the playground takes to show a change of a request: as static files, in which Python
runs in the browser, beside the same page with a server. Both run in turns, in one Chromium.

    make site && python bench/playground.py

A request of 30 messages with tools is changed in its last message. The clock runs from the key to
the new prompt on the page, and so through the 120 ms in which the page waits for another key.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parent.parent
STATIC = ROOT / "build" / "site" / "playground"
CHANGES = 20
FLAGS = ["--no-sandbox", "--disable-gpu"]

# Resolves to milliseconds: from an input event until the row that shows the new words is there.
CHANGE = """async ([insert, words]) => {
  const { EditorView } = await import(new URL("vendor/codemirror.js", document.baseURI).href);
  const host = document.querySelector(".editor .shadow");
  const view = EditorView.findFromDOM(host.shadowRoot.querySelector(".cm-editor"));
  const changes = { from: 0, to: view.state.doc.length, insert };
  return new Promise((resolve) => {
  const begun = performance.now();
  const seen = () => {
    const rows = document.querySelector(".rows");
    if (rows.ariaBusy === "false" && rows.textContent.includes(words)) {
      watching.disconnect();
      resolve(performance.now() - begun);
    }
  };
  const watching = new MutationObserver(seen);
  watching.observe(document.body, { childList: true, subtree: true, attributes: true });
  view.dispatch({ changes });
  });
}"""


def request(words: str) -> str:
    """15 questions with calls, results and answers, the last of which says something new."""
    tools = [
        {"type": "function", "function": {"name": f"tool_{n}", "description": "Does it. " * 20}}
        for n in range(8)
    ]
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You help. " * 40}]
    for n in range(14):
        messages += [
            {"role": "user", "content": f"Question {n}. " + "Some more words about it. " * 15},
            {"role": "assistant", "reasoning_content": "Hm. " * 50, "content": "An answer. " * 30},
        ]
    messages.append({"role": "user", "content": words})
    return json.dumps({"messages": messages, "tools": tools}, indent=2)


@contextmanager
def static_page() -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    handler = partial(Quiet, directory=str(STATIC))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@contextmanager
def served_page() -> Iterator[str]:
    command = [sys.executable, "-m", "dsv4", "playground", "--no-browser", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = (re.search(r"playground +(\S+)", line) for line in process.stderr)
        yield next(match[1] for match in found if match)
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    if not (STATIC / "index.html").exists():
        raise SystemExit("build/site/playground is not there: `make site` writes it")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with static_page() as static, served_page() as served, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        tabs = {"static": browser.new_page(), "served": browser.new_page()}
        tabs["static"].goto(static)
        tabs["static"].wait_for_selector(".loading", state="detached", timeout=120_000)
        tabs["served"].goto(served)
        took: dict[str, list[float]] = {name: [] for name in tabs}
        for n in range(CHANGES + 1):
            for name, tab in tabs.items():
                tab.bring_to_front()
                words = f"Change number {n} of {name}."
                took[name].append(tab.evaluate(CHANGE, [request(words), words]))
        browser.close()
    report({name: times[1:] for name, times in took.items()})  # the first is a whole new request


def report(took: dict[str, list[float]]) -> None:
    for name, times in took.items():
        print(f"{name}: median {statistics.median(times):.0f} ms, longest {max(times):.0f} ms")
    ratio = statistics.median(took["static"]) / statistics.median(took["served"])
    print(f"static files take {ratio:.2f} times as long as a server on this machine")


if __name__ == "__main__":
    main()
