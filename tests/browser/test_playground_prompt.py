"""The Prompt view in a real browser: every switch, and light both ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from accessibility import violations
from serving import answered, first_is_smoke, served, settle

import dsv4
from dsv4._format.tokens import USER
from dsv4._playground.page_examples import EXAMPLE_REQUESTS

Open = Callable[..., Any]
TITLES = list(EXAMPLE_REQUESTS)
LIT_JSON = """() => {
  const lit = CSS.highlights.get("json-lit");
  return lit ? [...lit].map(String).join("") : "";
}"""
# A choice that is as wide as its longest option has room for the one that is chosen.
IS_CUT = """select => {
  const free = select.cloneNode(true);
  Object.assign(free.style, { maxWidth: "none", position: "absolute" });
  free.selectedIndex = select.selectedIndex;
  for (const other of [...free.options]) if (!other.selected) other.remove();
  select.after(free);
  const wanted = free.getBoundingClientRect().width;
  free.remove();
  return wanted > select.getBoundingClientRect().width + 1;
}"""
WRONG = "[...CSS.highlights.get('json-wrong')].join('')"
# At once: what a driver types is slow in a long text.
PUT = "(area, text) => { area.value = text; area.dispatchEvent(new Event('input')); }"
# Key by key, with no pause that a busy machine could make longer.
BURST = """(area, text) => {
  for (let end = 1; end <= text.length; end++) {
    area.value = text.slice(0, end);
    area.dispatchEvent(new Event('input'));
  }
}"""
HOSTILE = [
    """<img src=x onerror="document.title='run'"><script>document.title='run'</script>""",
    "</textarea></pre><style>body{display:none}</style>{{7*7}}${7*7}",
    "\x00\x1b[31m\x07\x9b \u202eRTL \u2066 \u200f العربية עברית \ud800",
    f"{USER} &lt;b&gt; javascript:alert(1)",
]


def write(tab: Any, value: Any) -> None:
    """Puts a request in the editor, and waits for its prompt."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    with answered(tab, "prompt"):
        tab.get_by_label("Request, as JSON").evaluate(PUT, text)
    settle(tab)


def choose(tab: Any, label: str, value: str) -> None:
    with answered(tab, "prompt"):
        tab.locator("section.prompt").get_by_label(label, exact=True).select_option(value)
    settle(tab)


def example(tab: Any, title: str) -> None:
    with answered(tab, "prompt"):
        tab.locator("section.prompt").get_by_label("Examples").select_option(label=title)
    settle(tab)


def turn_to(tab: Any, pane: str) -> None:
    """Shows a pane, where the page has no room for both."""
    side = tab.locator(".sides button", has_text=pane)
    if side.is_visible():
        side.click()


def prompt_text(tab: Any) -> str:
    rows = tab.locator("section.prompt .rows .row:not(.ghost) .text")
    return "".join(rows.evaluate_all("rows => rows.map(row => row.textContent)"))


def lit(tab: Any) -> str:
    parts = tab.locator("section.prompt .rows .lit")
    return "".join(parts.evaluate_all("parts => parts.map(part => part.textContent)"))


# What is shown.


@pytest.mark.parametrize("title", TITLES)
def test_each_example_is_shown(tab: Any, title: str) -> None:
    example(tab, title)
    assert USER in prompt_text(tab)
    assert tab.locator(".trouble").is_hidden()


def test_special_tokens_are_pills_and_spelled_ones_are_marked(tab: Any) -> None:
    example(tab, "Text that spells tokens")
    assert USER in tab.locator(".rows .pill").all_inner_texts()
    assert USER in tab.locator(".rows .flag").all_inner_texts()
    assert "3 places in the text spell a special token" in tab.locator(".facts").inner_text()


def test_tokens_stand_in_the_margin_and_as_a_bar(tab: Any) -> None:
    counts = tab.locator(".rows .count").all_inner_texts()
    total = sum(int(count.replace(",", "")) for count in counts)
    assert tab.locator(".summary .total").inner_text().startswith(f"{total} tokens")
    assert tab.locator(".bar-of-shares .share").count() == tab.locator(".legend li").count() > 3


def test_a_ghost_stands_where_reasoning_was_dropped(tab: Any) -> None:
    example(tab, "Old reasoning, a list of messages")
    ghost = tab.locator(".rows .row.ghost")
    assert "Rayleigh scattering" in ghost.inner_text()
    assert "dropped: reasoning before the last user turn is left out" in ghost.inner_text()
    choose(tab, "Old reasoning", "false")
    assert tab.locator(".rows .row.ghost").count() == 0
    assert "Rayleigh scattering" in prompt_text(tab)


@pytest.mark.smoke
def test_every_switch_changes_the_prompt(tab: Any) -> None:
    seen = {prompt_text(tab)}
    for label, value in (
        ("Dialect", "v4.1"),
        ("Effort", "low"),
        ("Dialect", "v4"),
        ("Effort", "max"),
        ("Effort", ""),
        ("Thinking", "false"),
        ("Tool choice", "none"),
        ("Tool choice", "get_forecast"),
    ):
        choose(tab, label, value)
        if label != "Dialect" or value != "v4":
            seen.add(prompt_text(tab))
    assert len(seen) == 7  # without an effort it is the first again


def test_read_as_another_protocol(tab: Any) -> None:
    example(tab, "The same agent, Anthropic Messages")
    assert "Anthropic" in tab.get_by_label("Read as").locator("option").first.inner_text()
    choose(tab, "Read as", "responses")
    assert tab.locator(".trouble").is_visible()


def test_borders_and_ids_of_tokens(tab: Any) -> None:
    text = prompt_text(tab)
    choose(tab, "Tokens", "borders")
    assert tab.locator(".rows .even").count() > 20
    assert tab.locator(".rows [data-ids]").count() == 0
    choose(tab, "Tokens", "ids")
    assert tab.locator(".rows .pill [data-ids]").first.get_attribute("data-ids") == "0"
    assert prompt_text(tab) == text


def test_ids_of_white_space_stand_on_its_line(tab: Any) -> None:
    write(tab, [{"role": "user", "content": "One\n\n\n        Two x = 1 \n\nEnd"}])
    choose(tab, "Tokens", "ids")
    found = tab.locator(".rows .row", has_text="One").locator("[data-ids]")
    carried = found.evaluate_all(
        """found => found.map((one) => [
          one.parentElement.className.split(" ")[0],
          one.textContent,
          Math.round(one.getBoundingClientRect().top),
        ])"""
    )
    kinds, texts, tops = zip(*carried, strict=True)
    assert texts[:4] == ("One", "", " " * 7, "Two")
    assert kinds[1:3] == ("newline", "spaces")
    # Of the line breaks after "One" on the line of "One", of the spaces on that of "Two".
    assert abs(tops[1] - tops[0]) < 8 < abs(tops[2] - tops[1])
    assert abs(tops[3] - tops[2]) < 8
    signed = tab.locator(".rows .blank")
    assert "\u2423" in signed.first.evaluate("one => getComputedStyle(one, '::before').content")


def test_another_manner_keeps_the_place(tab: Any) -> None:
    turns = [("user", "A question"), ("assistant", "An answer")] * 60
    write(tab, [{"role": role, "content": f"{text} {n}"} for n, (role, text) in enumerate(turns)])
    read = tab.locator(".rows .row", has_text="An answer 71")
    read.evaluate("row => row.scrollIntoView({ block: 'start' })")
    at = read.bounding_box()["y"]
    for label, value in (
        *(("Tokens", "borders"), ("Tokens", "ids"), ("Show", "dialect:v3.2")),
        *(("Beside", "dialect:v4"), ("Tokens", "off")),
    ):
        choose(tab, label, value)
        tab.wait_for_timeout(200)
        now = tab.locator(".rows .row", has_text="An answer 71").first.bounding_box()["y"]
        assert abs(now - at) < 30, (label, value)


def test_two_dialects_side_by_side(tab: Any) -> None:
    choose(tab, "Beside", "dialect:v4.1")
    assert tab.locator(".titles b").all_inner_texts() == ["dsv4, v4", "dsv4, v4.1"]
    assert "Reasoning Effort" in tab.locator(".rows .differs").first.inner_text() or (
        tab.locator(".rows .differs").count() > 1
    )
    choose(tab, "Beside", "dialect:v4")
    assert "Both prompts are the same." in tab.locator(".facts").inner_text()
    assert tab.locator(".rows .differs").count() == 0


def test_two_servers_side_by_side_with_reasons(tab: Any) -> None:
    choose(tab, "Show", "profile:vllm-0.32")
    choose(tab, "Beside", "profile:sglang-0.5.23")
    assert "vLLM 0.32 lets the model think" in tab.locator(".facts").inner_text()
    assert tab.locator(".rows .differs").count() > 1


def test_long_texts_are_folded_until_they_are_wanted(tab: Any) -> None:
    write(tab, [{"role": "user", "content": "a line\n" * 500}])
    assert len(prompt_text(tab)) < 2_000
    fold = tab.locator(".rows .fold")
    assert fold.get_attribute("aria-expanded") == "false"
    fold.click()
    assert prompt_text(tab).count("a line") == 500


# Light both ways.


def test_pointing_at_the_prompt_lights_the_json(tab: Any) -> None:
    tab.locator(".rows .text .reasoning").first.hover()
    assert json.loads(tab.evaluate(LIT_JSON)) == "The weather decides. I need the forecast."
    tab.locator(".rows .text .user").first.hover()
    assert json.loads(tab.evaluate(LIT_JSON)).startswith("Is it a good afternoon")
    tab.locator(".rows .pill", has_text="User").first.hover()
    assert tab.evaluate(LIT_JSON) == '"user"'


def test_the_caret_in_the_json_lights_the_prompt(tab: Any) -> None:
    area = tab.get_by_label("Request, as JSON")
    at = area.input_value().index("The weather decides")
    area.evaluate("(area, at) => { area.focus(); area.setSelectionRange(at, at); }", at)
    area.press("ArrowRight")
    assert lit(tab) == "The weather decides. I need the forecast."
    assert json.loads(tab.evaluate(LIT_JSON)) == lit(tab)


def test_the_pointer_over_the_json_lights_the_prompt(tab: Any) -> None:
    area = tab.get_by_label("Request, as JSON")
    line = area.input_value().split("\n").index('      "content": "Let me look at the weather.",')
    box = tab.locator(".editor .lines > div").nth(line).bounding_box()
    tab.mouse.move(box["x"] + 120, box["y"] + box["height"] / 2)
    assert lit(tab) == "Let me look at the weather."
    tab.mouse.move(5, 5)
    assert lit(tab) == ""


def test_a_click_goes_to_the_source(tab: Any) -> None:
    tab.locator(".rows .calls", has_text="get_forecast").first.click()
    caret = tab.evaluate("[document.activeElement.selectionStart, document.activeElement.value]")
    assert caret[1][caret[0] :].startswith('"get_forecast"')


def test_the_keyboard_goes_through_the_rows(tab: Any) -> None:
    tab.locator(".rows .row[tabindex='0']").focus()
    for _ in range(4):
        tab.keyboard.press("ArrowDown")
    assert json.loads(tab.evaluate(LIT_JSON)).startswith("Is it a good afternoon")
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.tagName") == "TEXTAREA"


# Errors.


@pytest.mark.parametrize(
    ("source", "words", "marked"),
    [
        ('{\n  "messages": [}', "Line 2, column 16", "}"),
        pytest.param(
            '[\n {"role": "usr", "content": ""}]',
            *("Line 2, column 11: [0].role", '"usr"'),
            marks=pytest.mark.smoke,
        ),
    ],
)
def test_errors_stand_at_their_line(tab: Any, source: str, words: str, marked: str) -> None:
    write(tab, source)
    assert words in tab.locator(".trouble").inner_text()
    assert tab.evaluate(WRONG) == marked
    tab.locator(".trouble .place").click()
    caret = tab.evaluate("document.activeElement.selectionStart")
    assert source[caret:].startswith(marked)
    write(tab, "[]" if "usr" in source else '[{"role": "user", "content": "Hi"}]')


def test_an_error_at_the_end_of_a_line_is_marked_before_it(tab: Any) -> None:
    write(tab, '[\n "broken\n"]')
    assert "Line 2, column 9" in tab.locator(".trouble").inner_text()
    assert tab.evaluate(WRONG) == "n"
    write(tab, "[\n 1,")
    assert tab.evaluate(WRONG) == ","


@pytest.mark.parametrize("lines", [1, 12, 150, 1_200])
def test_places_are_marked_where_the_text_stands(tab: Any, lines: int) -> None:
    """What is typed in lies exactly over the lines that places are marked in."""
    write(tab, "\n" * (lines - 1) + '[{"role": "user", "content": "' + "long words " * 40 + '"}]')
    found = tab.evaluate(
        """() => {
          const area = document.querySelector(".editor textarea");
          const line = document.querySelector(".editor .lines > div");
          const [a, b] = [area, line].map((one) => getComputedStyle(one));
          const names = ["paddingLeft", "paddingRight", "font", "lineHeight", "letterSpacing"];
          const same = names.map((name) => a[name] === b[name]);
          const widths = [area, line].map((one) => one.clientWidth);
          const sheet = document.querySelector(".editor .sheet").clientHeight;
          return { same, widths, height: Math.abs(area.scrollHeight - sheet) };
        }"""
    )
    assert found["same"] == [True] * 5
    assert found["widths"][0] == found["widths"][1]
    assert found["height"] <= 1


COLOURED = """() => Object.fromEntries(["name", "string", "number", "literal"].map((kind) => [
  kind,
  [...CSS.highlights.get(`json-${kind}`)].map((range) =>
    range.startContainer.data.slice(range.startOffset, range.endOffset)),
]))"""


def test_json_has_colours_that_follow_what_is_typed(tab: Any) -> None:
    write(tab, '{"messages": [\n{"role": "user", "content": "Hi"}\n],\n"n": 1}')
    found = tab.evaluate(COLOURED)
    assert sorted(found["name"]) == ['"content"', '"messages"', '"n"', '"role"']
    assert sorted(found["string"]) == ['"Hi"', '"user"']
    assert (found["number"], found["literal"]) == (["1"], [])
    write(tab, '{"messages": [\n{"role": "user", "content": "Ho"}\n],\n"n": null}')
    found = tab.evaluate(COLOURED)
    assert sorted(found["string"]) == ['"Ho"', '"user"']
    assert (found["number"], found["literal"]) == ([], ["null"])
    # The lines are what is seen, and the caret is seen above them.
    styles = "e => [getComputedStyle(e).color, getComputedStyle(e).caretColor]"
    area, lines = tab.locator(".editor textarea"), tab.locator(".editor .lines")
    assert area.evaluate(styles) == ["rgba(0, 0, 0, 0)", "rgb(31, 35, 40)"]
    assert lines.evaluate(styles)[0] == "rgb(31, 35, 40)"
    # A text that would keep the browser busy is plain.
    write(tab, "[" + "\n" * 3_100 + "1]")
    assert sum(map(len, tab.evaluate(COLOURED).values())) == 0
    tab.emulate_media(forced_colors="active")
    assert area.evaluate(styles)[0] != "rgba(0, 0, 0, 0)"


def test_find_in_the_request(tab: Any, axe: str) -> None:
    turns = [{"role": "user", "content": f"Needle {n}"} for n in range(40)]
    write(tab, turns)
    area = tab.get_by_label("Request, as JSON")
    area.evaluate("area => { area.focus(); area.setSelectionRange(0, 0); }")
    tab.keyboard.press("Control+f")
    tab.keyboard.type("needle")
    count = tab.locator(".find output")
    assert count.inner_text() == "1 of 40"
    tab.keyboard.press("Shift+Enter")
    assert count.inner_text() == "40 of 40"
    assert tab.locator(".editor").evaluate("e => e.scrollTop") > 500
    tab.keyboard.press("Enter")
    tab.keyboard.press("Enter")
    assert count.inner_text() == "2 of 40"
    assert tab.evaluate("CSS.highlights.get('json-hit').size") == 40
    assert tab.evaluate("[...CSS.highlights.get('json-hit-chosen')].join()") == "Needle"
    assert violations(tab, axe) == []
    write(tab, turns[:3])
    assert count.inner_text() == "2 of 3"
    tab.get_by_label("Find in the request").press("Escape")
    assert tab.locator(".find").is_hidden()
    assert tab.evaluate("CSS.highlights.get('json-hit').size") == 0
    selected = area.evaluate("a => a.value.slice(a.selectionStart, a.selectionEnd + 2)")
    assert selected == "Needle 1"
    tab.get_by_role("button", name="Find", exact=True).click()
    tab.get_by_label("Find in the request").fill("nowhere")
    assert count.inner_text() == "No hits"


# Folding.


def buttons(tab: Any) -> list[str]:
    """The buttons beside the lines: which lines each folds, and whether it is open."""
    return tab.locator(".folds button").evaluate_all(
        "all => all.map(b => `${b.ariaLabel} ${b.ariaExpanded}`)"
    )


def numbers(tab: Any) -> list[str]:
    shown = "e => [...e.children].map(l => getComputedStyle(l, '::before').counterIncrement)"
    return [said.split()[1] for said in tab.locator(".editor .lines").evaluate(shown)]


CONVERSATION = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]


def test_lines_fold_and_unfold(tab: Any, axe: str) -> None:
    write(tab, CONVERSATION)
    area = tab.get_by_label("Request, as JSON")
    assert buttons(tab) == ["Lines 1 to 10 true", "Lines 2 to 5 true", "Lines 6 to 9 true"]
    tab.get_by_label("Lines 2 to 5").click()
    assert area.input_value().split("\n")[:4] == ["[", "  {", "  },", "  {"]
    assert numbers(tab) == ["1", "1", "3", "1", "1", "1", "1", "1"]
    after = "getComputedStyle(document.querySelector('.folded'), '::after').content"
    assert "Hi" in tab.evaluate(after)
    assert violations(tab, axe) == []
    # The buttons are one stop of the Tab key, and arrows go from one to the next.
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    assert buttons(tab)[1:] == ["Lines 2 to 5 false", "Lines 6 to 9 false"]
    assert area.input_value() == "[\n  {\n  },\n  {\n  }\n]"
    tab.keyboard.press("Home")
    tab.keyboard.press("Space")
    assert area.input_value() == "[\n]"
    tab.get_by_role("button", name="Unfold", exact=True).click()
    assert json.loads(area.input_value()) == CONVERSATION


def test_the_items_of_a_request_fold_at_once(tab: Any) -> None:
    text = tab.get_by_label("Request, as JSON").input_value()
    tab.get_by_role("button", name="Fold", exact=True).click()
    area = tab.get_by_label("Request, as JSON")
    assert len(area.input_value()) < len(text) / 3
    assert '"messages": [' in area.input_value()
    tops = tab.evaluate(
        """() => [...document.querySelectorAll(".folds button")].map(b => b.offsetTop)"""
    )
    assert tops == sorted(set(tops))
    tab.get_by_role("button", name="Unfold", exact=True).click()
    assert area.input_value() == text


def test_what_is_typed_beside_a_fold_keeps_it(tab: Any) -> None:
    write(tab, CONVERSATION)
    tab.get_by_label("Lines 2 to 5").click()
    area = tab.get_by_label("Request, as JSON")
    at = area.input_value().index("Hello.")
    area.evaluate("(area, at) => { area.focus(); area.setSelectionRange(at, at); }", at)
    with answered(tab, "prompt"):
        tab.keyboard.type("Oh. ")
    tab.locator(".rows .text", has_text="Oh. Hello.").wait_for()
    assert buttons(tab)[1] == "Lines 2 to 5 false"
    with answered(tab, "prompt"):
        tab.keyboard.press("Control+a")
        tab.keyboard.press("Control+x")
    copied = json.loads(tab.evaluate("navigator.clipboard.readText()"))
    assert [turn["content"] for turn in copied] == ["Hi", "Oh. Hello."]
    assert area.input_value() == ""


def test_the_caret_folds_what_is_around_it(tab: Any) -> None:
    write(tab, CONVERSATION)
    area = tab.get_by_label("Request, as JSON")
    at = area.input_value().index("Hello.")
    area.evaluate("(area, at) => { area.focus(); area.setSelectionRange(at, at); }", at)
    tab.keyboard.press("Control+Shift+BracketLeft")
    assert buttons(tab)[2] == "Lines 6 to 9 false"
    assert area.evaluate("a => a.value.slice(0, a.selectionStart)").endswith("  {")
    tab.keyboard.press("Control+Shift+BracketRight")
    assert buttons(tab)[2] == "Lines 6 to 9 true"


def test_what_is_pointed_at_or_found_opens_its_fold(tab: Any) -> None:
    write(tab, CONVERSATION)
    tab.get_by_role("button", name="Fold", exact=True).click()
    tab.locator(".rows .text .assistant").first.hover()
    assert tab.evaluate(LIT_JSON) == '"Hello."'
    assert buttons(tab)[1:] == ["Lines 2 to 5 false", "Lines 6 to 9 true"]
    area = tab.get_by_label("Request, as JSON")
    area.press("Control+f")
    tab.keyboard.type("hi")
    assert tab.evaluate("[...CSS.highlights.get('json-hit-chosen')].join()") == "Hi"
    assert buttons(tab)[1] == "Lines 2 to 5 true"


def test_an_error_in_a_fold_opens_it(tab: Any) -> None:
    turns = [{"role": "user", "content": "Hi"}, {"role": "developer", "content": "Ho"}]
    write(tab, {"messages": turns, "max_tokens": 9})
    tab.get_by_role("button", name="Fold", exact=True).click()
    choose(tab, "Read as", "messages")
    assert "messages[1].role" in tab.locator(".trouble").inner_text()
    assert buttons(tab)[2:] == ["Lines 3 to 6 false", "Lines 7 to 10 true"]
    assert tab.evaluate(WRONG) == '"developer"'


def test_a_fold_with_an_error_in_it_is_marked(tab: Any) -> None:
    write(tab, '[\n  {\n    "role": "user",\n    "content": oops\n  }\n]')
    tab.get_by_label("Lines 2 to 5").click()
    assert tab.evaluate(WRONG) == "{"
    assert "oops" in tab.locator(".lines .hides-wrong").get_attribute("data-summary")
    tab.locator(".trouble .place").click()
    assert buttons(tab)[1] == "Lines 2 to 5 true"
    assert tab.evaluate(WRONG) == "o"
    assert tab.locator(".lines .hides-wrong").count() == 0
    # What is typed elsewhere is answered by the same error, which is not to be missed.
    tab.get_by_label("Lines 2 to 5").click()
    with answered(tab, "prompt"):
        tab.get_by_label("Request, as JSON").press("Control+End")
        tab.keyboard.type(" ")
    tab.get_by_label("Lines 2 to 5").and_(tab.locator("[aria-expanded=true]")).wait_for()
    assert tab.evaluate(WRONG) == "o"


# The form.


def test_a_form_writes_the_json(tab: Any) -> None:
    write(tab, [{"role": "user", "content": "Hi", "seed": 1.0}])
    tab.get_by_role("button", name="Form").click()
    with answered(tab, "prompt"):
        tab.get_by_label("content of message 0").fill("Hello <b>")
    settle(tab)
    assert "Hello <b>" in prompt_text(tab)
    tab.get_by_role("button", name="Add assistant").click()
    tab.get_by_label("reasoning of message 1").fill("Hm.")
    tab.get_by_role("button", name="Add user").click()
    tab.get_by_label("content of message 2").fill("Go on")
    tab.get_by_role("button", name="Move message 2 up").click()
    tab.get_by_role("button", name="JSON").click()
    text = tab.get_by_label("Request, as JSON").input_value()
    assert json.loads(text) == [
        {"role": "user", "content": "Hello <b>", "seed": 1.0},
        {"role": "user", "content": "Go on"},
        {"role": "assistant", "content": "", "reasoning_content": "Hm."},
    ]
    assert '"seed": 1.0' in text  # as it was written
    tab.get_by_role("button", name="Form").click()
    tab.get_by_role("button", name="Delete message 2").click()
    tab.get_by_label("Role of message 1").select_option("developer")
    settle(tab)
    tab.get_by_role("button", name="JSON").click()
    roles = [m["role"] for m in json.loads(tab.get_by_label("Request, as JSON").input_value())]
    assert roles == ["user", "developer"]


def test_the_form_and_the_prompt_light_each_other(tab: Any) -> None:
    tab.get_by_role("button", name="Form").click()
    tab.locator(".rows .text .reasoning").first.hover()
    assert tab.locator(".card.lit").get_attribute("aria-label") == "Message 2"
    tab.get_by_label("content of message 1").focus()
    assert lit(tab) == "Is it a good afternoon for a walk in Bergen?"


def test_what_the_form_wrote_wrong_is_marked_in_the_json(tab: Any) -> None:
    write(tab, [{"role": "user", "content": "Hi"}])
    tab.get_by_role("button", name="Form").click()
    with answered(tab, "prompt"):
        tab.get_by_role("button", name="Delete message 0").click()
    tab.locator(".trouble .place").wait_for()
    tab.get_by_role("button", name="JSON").click()
    assert tab.evaluate(WRONG) == "[]"


def test_the_form_says_what_it_cannot_edit(tab: Any) -> None:
    write(tab, '{"x": ')
    tab.get_by_role("button", name="Form").click()
    assert "is no JSON: edit it as JSON" in tab.locator(".form").inner_text()
    tab.get_by_role("button", name="JSON").click()
    write(tab, "[]")


# Hostile conversations.


@pytest.mark.parametrize("content", first_is_smoke(HOSTILE))
@pytest.mark.parametrize("mode", ["JSON", "Form"])
def test_hostile_text_changes_nothing_but_itself(tab: Any, content: str, mode: str) -> None:
    def kinds() -> set[str]:
        return set(tab.evaluate("[...document.querySelectorAll('*')].map(e => e.localName)"))

    write(tab, '[{"role": "user", "content": "plain"}, {"role": "assistant", "content": "x"}]')
    tab.get_by_role("button", name=mode).click()
    before = kinds()
    tab.get_by_role("button", name="JSON").click()
    answer = {"role": "assistant", "content": "x"}
    write(tab, json.dumps([{"role": "user", "content": content}, answer]))
    tab.get_by_role("button", name=mode).click()
    assert kinds() == before
    assert "dsv4 playground" in tab.title()
    assert tab.locator("main").is_visible()
    shown = prompt_text(tab)
    assert "\x00" not in shown
    assert "\u202e" not in shown
    if "onerror" in content:
        assert "<img src=x onerror=\"document.title='run'\">" in shown


def test_a_megabyte_is_shown_by_its_beginning(tab: Any) -> None:
    write(tab, [{"role": "user", "content": "All work and no play. " * 50_000}])
    assert tab.evaluate("document.querySelectorAll('*').length") < 1_000
    tab.locator(".rows .fold").click()
    assert len(prompt_text(tab)) > 1_000_000


# Work, counted.


def conversation(messages: int, tools: int) -> dict[str, Any]:
    turns = [
        {"role": role, "content": f"{role} {n} " + "says something of some length. " * 12}
        for n in range(messages // 2)
        for role in ("user", "assistant")
    ]
    declared = [
        {"type": "function", "function": {"name": f"tool_{n}", "description": "It works. " * 30}}
        for n in range(tools)
    ]
    return {"messages": [*turns, {"role": "user", "content": "Go on"}], "tools": declared}


def test_a_burst_of_typing_asks_once_or_twice(tab: Any) -> None:
    calls: list[str] = []
    tab.on("request", lambda request: calls.append(request.url))
    area = tab.get_by_label("Request, as JSON")
    area.fill("")
    tab.wait_for_timeout(400)
    calls.clear()
    area.evaluate(BURST, '[{"role": "user", "content": "typed quickly"}]')
    tab.wait_for_function("() => document.querySelector('.rows').textContent.includes('quickly')")
    settle(tab)
    assert "typed quickly" in prompt_text(tab)
    assert len([url for url in calls if url.endswith("/api/prompt")]) <= 2


def test_after_a_change_only_what_changed_is_built_again(tab: Any) -> None:
    body = conversation(200, 20)
    write(tab, body)
    tab.wait_for_function("() => document.querySelectorAll('.rows .row').length > 600")
    assert tab.evaluate("document.querySelectorAll('.rows *').length") < 8_000
    tab.evaluate(
        """() => {
          window.added = { rows: 0, lines: 0 };
          const count = (name) => (list) =>
            list.forEach((one) => (window.added[name] += one.addedNodes.length));
          const watch = (selector, name) => new MutationObserver(count(name)).observe(
            document.querySelector(selector), { childList: true });
          watch(".rows", "rows");
          watch(".editor .lines", "lines");
        }"""
    )
    body["messages"][100]["content"] = "Something else."
    write(tab, body)
    assert tab.evaluate("window.added") == {"rows": 1, "lines": 1}


def test_an_answer_may_come_while_another_is_being_built(tab: Any) -> None:
    """Rows are built in slices: a newer answer ends an older one, and nothing is left of it."""
    area = tab.get_by_label("Request, as JSON")
    for n in range(4):
        body = conversation(200, 20)
        body["messages"][n * 30]["content"] = f"Change {n}"
        with answered(tab, "prompt"):
            area.evaluate(PUT, json.dumps(body))
    settle(tab)
    shown = prompt_text(tab)
    assert "Change 3" in shown
    assert "Change 2" not in shown
    names = tab.locator(".rows .opens .label b:not(:empty)").all_text_contents()
    assert [int(name.split()[0]) for name in names] == list(range(201))


def test_a_server_that_is_gone_is_named(browser: Any) -> None:
    with served() as url:
        tab = browser.new_page()
        tab.goto(f"{url}/playground/")
        tab.wait_for_selector(".rows .row")
    tab.get_by_label("Request, as JSON").fill("[]")
    tab.wait_for_selector(".trouble:not([hidden])")
    assert "The server does not answer" in tab.locator(".trouble").inner_text()
    tab.close()


# People.


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing(open_page: Open, axe: str, scheme: str, width: int) -> None:
    tab = open_page(width=width, scheme=scheme)
    tab.wait_for_selector(".rows .row")
    for title in ("Text that spells tokens", "Old reasoning, a list of messages"):
        turn_to(tab, "Request")
        example(tab, title)
        assert violations(tab, axe) == []
    turn_to(tab, "Prompt")
    tab.locator(".rows .text .user").first.hover()
    assert violations(tab, axe) == []
    choose(tab, "Tokens", "ids")
    assert violations(tab, axe) == []
    choose(tab, "Beside", "dialect:v4.1")
    assert violations(tab, axe) == []
    turn_to(tab, "Request")
    tab.get_by_role("button", name="Form").click()
    assert violations(tab, axe) == []
    tab.get_by_role("button", name="JSON").click()
    write(tab, "[")
    assert violations(tab, axe) == []


@pytest.mark.parametrize("width", [390, 320])
def test_nothing_sticks_out_on_a_phone(open_page: Open, width: int) -> None:
    tab = open_page(width=width)
    tab.wait_for_selector(".rows .row")
    for label, value in (("Beside", ""), ("Beside", "profile:vllm-0.32"), ("Tokens", "ids")):
        if value:
            choose(tab, label, value)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
    turn_to(tab, "Request")
    turns = [[{"role": "user", "content": f"Line {n} of a file " * 9}] for n in range(2)]
    write(tab, "\n".join(map(json.dumps, turns)))
    choice, pane = tab.get_by_label("Choose a line"), tab.locator(".pane.source")
    right = [(box := one.bounding_box())["x"] + box["width"] for one in (choice, pane)]
    assert right[0] < right[1]


class TestAFirstVisit:
    def test_it_says_what_to_do_until_something_was_done(self, open_page: Open) -> None:
        tab = open_page()
        settle(tab)
        assert tab.get_by_text("or pick an example").is_visible()
        write(tab, [{"role": "user", "content": "Hi"}])
        assert not tab.get_by_text("or pick an example").is_visible()
        write(tab, "")
        assert tab.get_by_text("or pick an example").is_visible()

    def test_the_theme_can_be_switched_and_stays(self, open_page: Open) -> None:
        tab = open_page(scheme="light")
        paper = "() => getComputedStyle(document.body).backgroundColor"
        before = tab.evaluate(paper)
        tab.get_by_role("button", name="Theme").click()
        assert tab.evaluate(paper) == before
        tab.get_by_role("button", name="Theme").click()
        dark = tab.evaluate(paper)
        assert dark != before
        tab.reload()
        tab.wait_for_selector("[role=tab]")
        assert tab.evaluate(paper) == dark

    def test_a_phone_shows_one_side_at_a_time(self, open_page: Open) -> None:
        tab = open_page(width=390, height=780)
        settle(tab)
        assert tab.locator(".result").is_visible()
        # Rows have their labels at the left, whether they open a message or go on with it.
        left = tab.locator(".rows .text").first.bounding_box()["x"]
        for words in ("bos", "0 system", "tools"):
            label = (
                tab.locator(".rows .label").get_by_text(words, exact=True).locator("visible=true")
            )
            assert label.first.bounding_box()["x"] == left
        tab.get_by_role("button", name="Request", exact=True).click()
        assert tab.locator(".pane.source").is_visible()
        assert not tab.locator(".result").is_visible()

    def test_no_choice_is_cut(self, open_page: Open) -> None:
        """What is detected is named in full, whatever it is."""
        tab = open_page()
        settle(tab)
        for title in TITLES:
            example(tab, title)
            chosen = tab.locator("section.prompt").get_by_label("Read as")
            assert chosen.evaluate(IS_CUT) is False, chosen.input_value()


class TestPlaces:
    def test_a_place_has_a_line_and_a_path(self, open_page: Open) -> None:
        tab = open_page()
        write(tab, [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}])
        tab.locator(".rows .text").get_by_text("Ho", exact=True).hover()
        assert tab.inner_text(".whereabouts") == "line 8 · [1].content"


class TestPastedTexts:
    def test_a_prompt_is_decoded(self, open_page: Open) -> None:
        tab = open_page()
        settle(tab)
        prompt = dsv4.encode([{"role": "user", "content": "From a log"}])
        tab.get_by_label("Request, as JSON").evaluate(PUT, str(prompt))
        decode = tab.get_by_role("button", name="Decode this prompt")
        decode.wait_for()
        with answered(tab, "prompt"):
            decode.click()
        source = json.loads(tab.get_by_label("Request, as JSON").input_value())
        assert source["messages"] == [{"role": "user", "content": "From a log"}]

    def test_a_line_of_a_file_is_chosen(self, open_page: Open) -> None:
        tab = open_page()
        settle(tab)
        system = {"role": "system", "content": "Every line has the same long instructions. " * 4}
        turns = [[system, {"role": "user", "content": word}] for word in ("One", "Two")]
        text = "\n".join(map(json.dumps, turns))
        tab.get_by_label("Request, as JSON").evaluate(PUT, text)
        lines_of_the_file = tab.get_by_label("Choose a line")
        lines_of_the_file.wait_for()
        assert "Each of the 2 lines is JSON" in tab.inner_text(".trouble")
        assert tab.evaluate("CSS.highlights.has('json-wrong')") is False
        titles = lines_of_the_file.locator("option").all_inner_texts()
        assert "One" in titles[1]
        assert "Two" in titles[2]
        with answered(tab, "prompt"):
            lines_of_the_file.select_option(index=2)
        settle(tab)
        assert "Two" in tab.inner_text(".rows")


class TestSaveAsPage:
    def test_the_file_lights_both_halves_and_needs_nothing(self, tab: Any, tmp_path: Path) -> None:
        write(tab, [{"role": "user", "content": "Only here </script> & there"}])
        with tab.expect_download() as downloaded:
            tab.get_by_role("button", name="Save as page").click()
        file = tmp_path / downloaded.value.suggested_filename
        downloaded.value.save_as(file)
        asked: list[str] = []
        page = tab.context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto(file.as_uri())
        page.locator(".prompt .user", has_text="Only here").hover()
        lit = page.locator(".source span", has_text="Only here").last
        plain = page.locator(".source").evaluate("one => getComputedStyle(one).backgroundColor")
        assert lit.evaluate("one => getComputedStyle(one).backgroundColor") != plain
        assert asked == [file.as_uri()]

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_axe_finds_nothing_in_the_file(
        self, open_page: Open, axe: str, scheme: str, tmp_path: Path
    ) -> None:
        tab = open_page(scheme=scheme)
        settle(tab)
        with tab.expect_download() as downloaded:
            tab.get_by_role("button", name="Save as page").click()
        file = tmp_path / downloaded.value.suggested_filename
        downloaded.value.save_as(file)
        page = tab.context.new_page()
        page.goto(file.as_uri())
        assert violations(page, axe) == []
