"""What is dropped and pasted into the playground, in a real browser: pictures, which are drawn in
the prompt with their cells and their cost, and texts that are no request.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from accessibility import violations
from serving import answered, settle

from completions import block, calling

Open = Callable[..., Any]
EDITOR = "Request, as JSON"
# What a browser does when somebody drops or pastes: files by name and type, or a text.
GIVE = """([selector, kind, files, text]) => {
  const given = new DataTransfer();
  for (const [name, type, data] of files) {
    const bytes = Uint8Array.from(atob(data), (char) => char.charCodeAt(0));
    given.items.add(new File([bytes], name, { type }));
  }
  if (text) given.setData("text/plain", text);
  const options = { bubbles: true, cancelable: true };
  const target = document.querySelector(selector);
  const event = kind === "paste"
    ? new ClipboardEvent("paste", { ...options, clipboardData: given })
    : new DragEvent("drop", { ...options, dataTransfer: given });
  const isFree = target.dispatchEvent(event);
  if (isFree && text && kind === "paste") {
    target.select();
    document.execCommand("insertText", false, text);
  }
}"""
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
    tab.evaluate(GIVE, [to or f'textarea[aria-label="{EDITOR}"]', kind, list(files), text])


def source(tab: Any) -> Any:
    return json.loads(tab.get_by_label(EDITOR).input_value())


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
        assert "picture:shot.png" in tab.get_by_label(EDITOR).input_value()
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
                tab.get_by_label(EDITOR).fill(json.dumps(body))
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
        before = tab.get_by_label(EDITOR).input_value()
        give(tab, "drop", ("shot.png", "image/png", base64.b64encode(b"nothing").decode()))
        tab.wait_for_selector('#said:has-text("shot.png: found")')
        assert tab.get_by_label(EDITOR).input_value() == before

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
    def test_an_answer_opens_in_stream_at_its_end(self, tab: Any, kind: str) -> None:
        before = tab.get_by_label(EDITOR).input_value()
        give(tab, "paste", text=RESPONSES[kind])
        tab.wait_for_selector("#view-stream:not([hidden]) .count:has-text('the end')")
        assert tab.locator("#tab-stream").get_attribute("aria-selected") == "true"
        message = tab.locator("section.stream").inner_text()
        assert "read" in message
        assert "Let me look." in message
        assert (
            tab.locator("section.stream textarea.source").input_value().startswith("Let me look.")
        )
        # The request is as it was.
        tab.locator("#tab-prompt").click()
        assert tab.get_by_label(EDITOR).input_value() == before

    def test_a_second_answer_opens_at_its_end_too(self, tab: Any) -> None:
        for text in (f"One.\n\n{BLOCK}", f"Two, and longer.\n\n{BLOCK}"):
            tab.locator("#tab-prompt").click()
            give(tab, "paste", text=text)
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

    def test_a_command_with_curl_is_its_request(self, tab: Any) -> None:
        body = {
            "model": "DeepSeek-V4.1-Flash",
            "messages": [{"role": "user", "content": "From curl"}],
        }
        give(tab, "paste", text=f"curl https://x/v1/chat/completions \\\n -d '{json.dumps(body)}'")
        tab.wait_for_selector(".rows:has-text('From curl')")
        assert source(tab) == body

    def test_what_was_not_pasted_is_offered(self, tab: Any) -> None:
        with answered(tab, "import"):
            tab.get_by_label(EDITOR).fill(RESPONSES["text"])
        tab.get_by_role("button", name="Open this answer in Stream").click()
        tab.wait_for_selector(".count:has-text('the end')")

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("curl https://x -d @body.json", "The command reads its JSON from body.json"),
            ("curl https://x -d '{", "The quotation marks of the command do not match"),
            ('{"choices": []}', ""),
            ("<img src=x onerror=\"document.title='run'\">\n</think", ""),
        ],
    )
    def test_what_cannot_be_read_stays_with_what_is_wrong(
        self, tab: Any, text: str, words: str
    ) -> None:
        with answered(tab, "import"):
            give(tab, "paste", text=text)
        tab.wait_for_selector(f".trouble:has-text({json.dumps(words)})")
        assert tab.get_by_label(EDITOR).input_value() == text
        assert tab.title() != "run"


@pytest.mark.parametrize("fragment", ["#prompt/1.q1YqSy0qzszPU7JSMlA", "#prompt/1", "#promp"])
def test_a_link_that_was_cut_is_told_until_it_is_closed(open_page: Open, fragment: str) -> None:
    tab = open_page(fragment)
    notice = tab.get_by_text("This link is incomplete or damaged")
    notice.wait_for()
    tab.wait_for_selector(".rows .row")
    notice.get_by_role("button", name="Close").click()
    assert notice.count() == 0
