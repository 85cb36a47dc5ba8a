"""What is dropped and pasted into the playground, in a real browser: pictures, which are drawn in
the prompt with their cells and their cost, and texts that are no request.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from accessibility import violations
from editing import put, text_of
from serving import answered, settle

from completions import block, calling

Open = Callable[..., Any]
# What a browser does when somebody drops or pastes: files by name and type, or a text.
GIVE = """([selector, kind, files, text]) => {
  const given = new DataTransfer();
  for (const [name, type, data] of files) {
    const bytes = Uint8Array.from(atob(data), (char) => char.charCodeAt(0));
    given.items.add(new File([bytes], name, { type }));
  }
  if (text) given.setData("text/plain", text);
  const options = { bubbles: true, cancelable: true, composed: true };
  const found = document.querySelector(selector);
  const target = found.shadowRoot?.querySelector(".cm-content") ?? found;
  const event = kind === "paste"
    ? new ClipboardEvent("paste", { ...options, clipboardData: given })
    : new DragEvent("drop", { ...options, dataTransfer: given });
  const isFree = target.dispatchEvent(event);
  if (isFree && text && kind === "paste" && target === found) {
    target.select();
    document.execCommand("insertText", false, text);
  }
}"""
SESSIONS = Path(__file__).parents[1] / "agent_sessions"
BLOCK = block(calling("read", path="a")).strip()


def png(width: int, height: int, noise: int = 0) -> str:
    """A grey picture in base64; `noise` bytes make its file larger."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes(1 + width) * height)
    parts = [(b"IHDR", head), (b"teXt", b"x" * noise), (b"IDAT", rows), (b"IEND", b"")]
    data = b"".join(chunk(*part) for part in parts)
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + data).decode()


SHOT = png(1920, 1080)


def give(tab: Any, kind: str, *files: tuple[str, str, str], text: str = "", to: str = "") -> None:
    tab.evaluate(GIVE, [to or ".editor .shadow", kind, list(files), text])


def source(tab: Any) -> Any:
    return json.loads(text_of(tab))


class TestPictures:
    @pytest.mark.smoke
    def test_a_dropped_picture_is_in_the_prompt_with_its_cells_and_cost(self, tab: Any) -> None:
        give(tab, "drop", ("shot.png", "image/png", SHOT), to="section.prompt .result")
        figure = tab.locator(".rows figure.image")
        figure.wait_for()
        assert "1920 × 1080, 41 × 23 cells, 968 tokens" in figure.inner_text()
        picture = figure.locator("img")
        assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1920
        cells = figure.locator(".cells").evaluate("one => getComputedStyle(one).backgroundSize")
        assert cells
        # The JSON has its name, and the dialect is one that reads pictures.
        assert "picture:shot.png" in text_of(tab)
        assert tab.locator("section.prompt select[name=dialect]").input_value() == "v4.1"
        assert "shot.png is in the last turn. The dialect is v4.1 now" in tab.inner_text("#said")

    def test_a_pasted_picture_in_each_protocol(self, tab: Any) -> None:
        asked = [{"role": "user", "content": "What is it?"}]
        for body in (
            {"model": "DeepSeek-V4.1-Flash", "messages": asked},
            {"model": "DeepSeek-V4.1-Flash", "input": "What is it?"},
            {"model": "DeepSeek-V4.1-Flash", "max_tokens": 9, "system": "s", "messages": asked},
        ):
            with answered(tab, "prompt"):
                put(tab, json.dumps(body))
            settle(tab)
            with answered(tab, "picture"):
                give(tab, "paste", ("image.png", "image/png", SHOT))
            tab.wait_for_selector(".rows figure.image img")
            assert "968 tokens" in tab.locator(".rows figure.image").inner_text()
            assert source(tab)["model"] == "DeepSeek-V4.1-Flash"

    def test_the_slider_says_what_other_sizes_cost(self, tab: Any) -> None:
        give(tab, "drop", ("shot.png", "image/png", SHOT))
        tab.get_by_role("button", name="Other sizes").click()
        slider = tab.get_by_label("Size of the picture")
        slider.wait_for()
        assert tab.locator(".sizes output").inner_text() == (
            "100 %: 1920 × 1080, 41 × 23 cells, 968 tokens"
        )
        slider.press("Home")
        words = tab.locator(".sizes output").inner_text()
        assert words.startswith("5 %: 96 × 54, ")
        assert slider.get_attribute("aria-valuetext") == words
        slider.press("End")
        assert tab.locator(".sizes output").inner_text().startswith("400 %: 7680 × 4320, ")
        tab.get_by_role("button", name="Other sizes").click()
        assert tab.locator(".sizes").count() == 0

    def test_a_request_with_a_large_picture_can_be_edited(self, tab: Any) -> None:
        url = f"data:image/png;base64,{png(640, 480, 300_000)}"
        body = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]
        give(tab, "paste", text=json.dumps(body))
        tab.locator("section.prompt select[name=dialect]").select_option("v4.1")
        tab.wait_for_selector(".rows figure.image img")
        assert source(tab)[0]["content"][0]["image_url"]["url"] == "picture:1"
        assert "640 × 480" in tab.locator(".rows figure.image").inner_text()

    def test_a_file_that_is_no_picture_is_told(self, tab: Any) -> None:
        before = text_of(tab)
        give(tab, "drop", ("shot.png", "image/png", base64.b64encode(b"nothing").decode()))
        tab.wait_for_selector('#said:has-text("shot.png: found")')
        assert text_of(tab) == before

    def test_a_link_has_the_picture(self, tab: Any, open_page: Open) -> None:
        give(tab, "drop", ("shot.png", "image/png", SHOT))
        tab.wait_for_selector(".rows figure.image img")
        tab.wait_for_function("() => location.hash.length > 500")
        other = open_page(tab.evaluate("location.hash"))
        other.wait_for_selector(".rows figure.image img")

    def test_it_is_accessible(self, tab: Any, axe: str) -> None:
        give(tab, "drop", ("shot.png", "image/png", SHOT))
        tab.get_by_role("button", name="Other sizes").click()
        tab.wait_for_selector(".sizes input")
        assert violations(tab, axe) == []


def completion(**message: Any) -> str:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return json.dumps({"object": "chat.completion", "choices": [choice]})


RESPONSES = {
    "text": f"Let me look.\n\n{BLOCK}",
    "chat": completion(content=f"Let me look.\n\n{BLOCK}"),
    "messages": json.dumps(
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "t", "name": "read", "input": {"path": "a"}},
            ],
        }
    ),
    "responses": json.dumps(
        {
            "object": "response",
            "instructions": None,
            "output": [
                {"type": "message", "role": "assistant", "content": "Let me look."},
                {
                    "type": "function_call",
                    "call_id": "c",
                    "name": "read",
                    "arguments": '{"path":"a"}',
                },
            ],
        }
    ),
}


class TestTexts:
    @pytest.mark.parametrize("kind", RESPONSES)
    def test_an_answer_is_judged_in_words_and_opens_in_stream_at_its_end(
        self, tab: Any, kind: str
    ) -> None:
        give(tab, "paste", text=RESPONSES[kind])
        verdict = tab.locator(".verdict-of-all")
        verdict.wait_for()
        assert ("read" in verdict.inner_text()) is (kind in ("text", "chat"))
        answer = tab.get_by_role("region", name="Answer")
        answer.get_by_text("Let me look.").wait_for()
        assert "read" in answer.inner_text()
        assert text_of(tab) == RESPONSES[kind]
        tab.get_by_role("button", name="Read it step by step").click()
        tab.wait_for_selector("#view-stream:not([hidden]) .count:has-text('the end')")
        source = tab.locator("section.stream textarea.source").input_value()
        assert source.startswith("Let me look.")
        # The box is as it was.
        tab.locator("#tab-prompt").click()
        assert text_of(tab) == RESPONSES[kind]

    def test_a_second_answer_opens_at_its_end_too(self, tab: Any) -> None:
        for text in (f"One.\n\n{BLOCK}", f"Two, and longer.\n\n{BLOCK}"):
            tab.locator("#tab-prompt").click()
            put(tab, text)
            tab.get_by_role("region", name="Answer").get_by_text(text.split(".")[0]).wait_for()
            tab.get_by_role("button", name="Read it step by step").click()
            steps = len(text) + 1
            tab.wait_for_selector(f".count:has-text('Step {steps:,} of {steps:,}')")

    def test_a_response_that_is_pasted_into_stream(self, open_page: Open) -> None:
        tab = open_page("#stream")
        tab.get_by_role("button", name="Edit").click()
        give(tab, "paste", text=RESPONSES["chat"], to="section.stream textarea.source")
        tab.wait_for_selector(".count:has-text('the end')")
        assert (
            tab.locator("section.stream textarea.source").input_value().startswith("Let me look.")
        )

    def test_a_command_with_curl_is_its_request_without_its_key(self, tab: Any) -> None:
        body = {
            "model": "DeepSeek-V4.1-Flash",
            "messages": [{"role": "user", "content": "From curl"}],
        }
        key = "-H 'Authorization: Bearer sk-abcdefghijklmnop'"
        give(tab, "paste", text=f"curl https://x/v1/messages {key} -d '{json.dumps(body)}'")
        tab.wait_for_selector(".rows:has-text('From curl')")
        tab.wait_for_selector(".editor .cm-line:has-text('Bearer ***')")
        assert "sk-abc" not in text_of(tab)

    def test_a_sentence_is_a_message(self, tab: Any) -> None:
        give(tab, "paste", text="Why is the sky blue?")
        tab.locator(".rows .text", has_text="Why is the sky blue?").wait_for()
        tab.locator(".verdict-of-all", has_text="a sentence").wait_for()
        assert tab.locator(".trouble").is_hidden()

    def test_nothing_is_no_mistake(self, tab: Any) -> None:
        tab.get_by_role("button", name="Clear").click()
        tab.wait_for_timeout(600)
        assert tab.locator(".trouble").is_hidden()
        assert tab.locator(".verdict-of-all").is_hidden()
        with answered(tab, "prompt"):
            tab.keyboard.type("Typed")
        tab.locator(".rows .text", has_text="Typed").wait_for()

    def test_an_error_is_explained(self, tab: Any, axe: str) -> None:
        give(tab, "paste", text='{"error": {"message": "Authentication Fails", "code": 401}}')
        tab.locator(".verdict-of-all.bad .fix").wait_for()
        assert tab.locator(".trouble").is_hidden()
        assert violations(tab, axe) == []

    def test_a_file_that_is_no_text_is_named(self, tab: Any) -> None:
        before = text_of(tab)
        data = base64.b64encode(b"%PDF-1.7 \xff").decode()
        give(tab, "drop", ("a.pdf", "application/pdf", data))
        tab.locator(".verdict-of-all", has_text="a PDF").wait_for()
        assert text_of(tab) == before

    def test_a_session_is_a_list_of_turns(self, tab: Any, open_page: Open, axe: str) -> None:
        session = (SESSIONS / "codex-1.jsonl").read_text("utf-8")
        give(tab, "drop", ("a.jsonl", "", base64.b64encode(session.encode()).decode()))
        listed = tab.get_by_role("region", name="Turns")
        listed.locator(".turn").nth(4).wait_for()
        assert "5 turns. The cache loses" in listed.inner_text()
        assert violations(tab, axe) == []
        with answered(tab, "prompt"):
            tab.get_by_role("button", name="Open turn 2").click()
        tab.locator(".result .rows .text").first.wait_for()
        assert listed.is_hidden()
        tab.wait_for_timeout(1_000)  # until the address says so
        other = open_page(tab.evaluate("location.hash"))
        other.locator(".result .rows .text").first.wait_for()
        other.get_by_role("button", name="All turns").click()
        other.get_by_role("region", name="Turns").locator(".turn").nth(4).wait_for()

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("curl https://x -d @body.json", "The command reads its JSON from body.json"),
            ("curl https://x -d '{", "The quotation marks of the command do not match"),
            ('{"choices": []}', "choices"),
            ("<img src=x onerror=\"document.title='run'\">\n</think", ""),
        ],
    )
    def test_what_cannot_be_read_stays_with_what_is_wrong(
        self, tab: Any, text: str, words: str
    ) -> None:
        with answered(tab, "why"):
            give(tab, "paste", text=text)
        tab.wait_for_selector(f".verdict-of-all:has-text({json.dumps(words)})")
        assert text_of(tab) == text
        assert tab.title() != "run"


@pytest.mark.parametrize("fragment", ["#prompt/1.q1YqSy0qzszPU7JSMlA", "#prompt/1", "#promp"])
def test_a_link_that_was_cut_is_told_until_it_is_closed(open_page: Open, fragment: str) -> None:
    tab = open_page(fragment)
    notice = tab.get_by_text("This link is incomplete or damaged")
    notice.wait_for()
    tab.wait_for_selector(".rows .row")
    notice.get_by_role("button", name="Close").click()
    assert notice.count() == 0
