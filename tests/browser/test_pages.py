"""Pages of `dsv4 show --html`, as a browser shows them: light and dark, wide and on a phone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serving import first_is_smoke

import dsv4
from dsv4._view.html_page import html_fragment, html_page
from dsv4._view.view_rows import view_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "conversation.json"
LONG = "A long text.\n" + "".join(f"  Line {n} of it, \twith  spaces \n" for n in range(60))
WORDS = (
    "Look: "
    + "x" * 2_000
    + " 日本語 <script>document.title = 'run'</script> <｜User｜> \u202e\x9b end"
)
WIDTHS = {"wide": 1280, "tablet": 700, "phone": 390, "small phone": 320}


def conversation() -> dict[str, Any]:
    body = json.loads(EXAMPLE.read_text("utf-8"))
    body["messages"] += [
        {"role": "assistant", "reasoning_content": "Rain.", "content": "To a museum."},
        {"role": "user", "content": LONG},
        {"role": "assistant", "content": WORDS},
        {"role": "user", "content": "And?", "task": "query"},
    ]
    return body


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Callable[..., Any]:
    """Opens a page of the conversation."""

    def opened(width: int = 1280, scheme: str = "light", full: bool = True, **options: Any) -> Any:
        body = conversation()
        prompt = dsv4.encode(body["messages"], tools=body["tools"])
        file = tmp_path / "page.html"
        file.write_text(
            html_page(view_of(prompt, body["messages"], **options), "A title", full), "utf-8"
        )
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        tab = context.new_page()
        tab.goto(file.as_uri())
        return tab

    return opened


# Every text: its colour against what is behind it, by the formula of WCAG 2.
CONTRASTS = """() => {
  const parse = c => c.match(/[\\d.]+/g).map(Number);
  const channel = v => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; };
  const luminance = ([r, g, b]) => .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const [r, g, b, a = 1] = parse(getComputedStyle(e).backgroundColor);
      if (a > 0) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const found = {};
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !e.getClientRects().length) continue;
    const back = behind(e);
    for (const pseudo of [null, '::before', '::after']) {
      const [x, y] = [luminance(parse(getComputedStyle(e, pseudo).color)), luminance(back)];
      const ratio = (Math.max(x, y) + .05) / (Math.min(x, y) + .05);
      const name = `${e.className} ${pseudo || ''}`;
      found[name] = Math.min(found[name] || 99, ratio);
    }
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("policy", [None, "assistant"])
def test_every_text_has_contrast(opened: Any, scheme: str, policy: str | None) -> None:
    found = opened(scheme=scheme, policy=policy).evaluate(CONTRASTS)
    assert len(found) > 20
    assert {name: ratio for name, ratio in found.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS.keys())
@pytest.mark.parametrize("full", [True, False])
def test_nothing_is_wider_than_the_screen(opened: Any, width: int, full: bool) -> None:
    tab = opened(width=width, full=full)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", first_is_smoke(WIDTHS.values()), ids=WIDTHS.keys())
def test_copying_gives_the_prompt(opened: Any, width: int) -> None:
    """All of it, to the last character. Controls alone are signs: HTML has no way to write them."""
    body = conversation()
    prompt = dsv4.encode(body["messages"], tools=body["tools"])
    tab = opened(width=width)
    copied = tab.evaluate(
        """() => { const range = document.createRange();
             range.selectNodeContents(document.body);
             getSelection().removeAllRanges(); getSelection().addRange(range);
             return getSelection().toString(); }"""
    )
    expected = str(prompt).replace("\u202e", "[U+202E]").replace("\x9b", "[U+009B]")
    assert copied == expected


@pytest.mark.parametrize("width", [1280, 390])
def test_pills_stay_in_one_piece(opened: Any, width: int) -> None:
    pieces = opened(width=width).evaluate(
        "[...document.querySelectorAll('.pill')].map(e => e.getClientRects().length)"
    )
    assert pieces
    assert set(pieces) == {1}


def test_long_texts_fold_and_unfold(opened: Any) -> None:
    tab = opened(full=False)
    last = tab.get_by_text("Line 59 of it")
    assert not last.is_visible()
    tab.locator("label.fold", has_text="more lines").first.click()
    assert last.is_visible()


def test_folds_work_with_the_keyboard(opened: Any) -> None:
    tab = opened(full=False)
    box = tab.locator("input.fold").first
    box.focus()
    tab.keyboard.press("Space")
    assert box.is_checked()


def test_the_list_leads_to_every_message(opened: Any) -> None:
    tab = opened()
    links = tab.locator("nav a")
    assert links.count() == len(conversation()["messages"])
    links.nth(5).click()
    assert tab.url.endswith("#m5")
    assert tab.locator("#m5").is_visible()


def test_labels_stand_beside_their_text(opened: Any) -> None:
    tab = opened(width=1280)
    tops = tab.evaluate(
        """[...document.querySelectorAll('.row')].map(row => {
             const text = [...row.children].find(e => !e.matches('.label, input'));
             const label = row.querySelector('.label').getBoundingClientRect();
             return Math.abs(text.getClientRects()[0].top - label.top); })"""
    )
    assert max(tops) < 8


@pytest.mark.smoke
def test_nothing_runs_and_nothing_is_loaded(opened: Any) -> None:
    asked: list[str] = []
    tab = opened()
    tab.on("request", lambda request: asked.append(request.url))
    tab.reload()
    assert tab.title() == "A title"
    assert [url for url in asked if not url.startswith("file:")] == []


def test_a_notebook_keeps_its_own_style(browser: Any, tmp_path: Path) -> None:
    prompt = dsv4.encode([{"role": "user", "content": "Hi"}])
    file = tmp_path / "notebook.html"
    outside = '<p id="mine" class="total">Text of the notebook.</p>'
    file.write_text(f"<!DOCTYPE html><meta charset=utf-8>{outside}{html_fragment(prompt)}", "utf-8")
    tab = browser.new_page()
    tab.goto(file.as_uri())
    assert tab.evaluate("getComputedStyle(mine).userSelect") == "auto"
    assert tab.locator(".dsv4 .pill").count() == 4
