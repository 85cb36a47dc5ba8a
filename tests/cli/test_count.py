"""dsv4 count, as a process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import Said, said

import dsv4
from small_vocabulary import write_small_vocabulary

pytest.importorskip("tokenizers")
from dsv4.tokens import Tokenizer

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Oslo?"},
    {"role": "assistant", "reasoning_content": "Hm.", "content": "Rain."},
    {"role": "user", "content": "And Rome?"},
]
# U+2028 ends a line for some, and not in JSON.
TOOLS = [{"name": "first"}, {"name": "second", "description": "one\u2028two\n"}]


def count(folder: Path, *arguments: str, input: str = "") -> Said:
    vocabulary = write_small_vocabulary(folder / "tokenizer.json")
    return said("count", "--tokenizer", vocabulary, *arguments, stdin=input, cwd=folder)


def test_numbers_add_up(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text(json.dumps({"messages": MESSAGES, "tools": TOOLS}))
    done = count(tmp_path, "--json", "--window", "10000", "in.json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.json")
    tokens = tokenizer.count(dsv4.encode(MESSAGES, tools=TOOLS))
    assert found["tokens"] == tokens == sum(m["tokens"] for m in found["messages"])
    assert found["share"] == tokens / 10000
    assert [m["message"] for m in found["messages"]] == [0, 1, 2, 3, None]
    assert found["messages"][1]["fields"] == {"header": 1, "content": 5}
    assert [tool["name"] for tool in found["tools"]] == ["first", "second"]
    # The newline between tools belongs to the one before it.
    schemas = [json.dumps(tool, ensure_ascii=False).encode() for tool in TOOLS]
    assert [t["tokens"] for t in found["tools"]] == [len(schemas[0]) + 1, len(schemas[1])]


def test_a_chart(tmp_path: Path) -> None:
    done = count(tmp_path, "--window", "20", input=json.dumps(MESSAGES))
    lines = done.stdout.splitlines()
    assert lines[:2] == ["stdin", "36 tokens, 180.0% of 20 (v4)"]
    assert lines[3] == "16 tokens too many"
    assert any(line.startswith("  1 user        6  ") and "█" in line for line in lines)
    assert "\x1b" not in done.stdout


def test_a_line_of_json_for_each_conversation(tmp_path: Path) -> None:
    done = count(tmp_path, "--json", input=2 * f"{json.dumps(MESSAGES)}\n")
    assert [json.loads(line)["place"] for line in done.stdout.splitlines()] == [
        "stdin:1",
        "stdin:2",
    ]


@pytest.mark.parametrize(
    ("arguments", "given", "status", "problem"),
    [
        (["missing.json"], "", 2, "missing.json: no such file or directory"),
        ([], "[1", 2, 'stdin:1:3: not JSON: expecting "," delimiter'),
        ([], '[{"role": "nobody"}]', 1, 'stdin: messages[0].role: found "nobody"'),
        ([], '[{"role": "user", "content": "\\ud800"}]', 1, "half a surrogate pair stands alone"),
        (["--window", "none"], "", 2, "expected a whole number from 1 on"),
        (["--tokenizer", "odd.json"], json.dumps(MESSAGES), 2, "does not fit"),
    ],
)
def test_errors(
    tmp_path: Path, arguments: list[str], given: str, status: int, problem: str
) -> None:
    (tmp_path / "odd.json").write_text('{"added_tokens": [], "model": {"vocab": {}}}')
    done = count(tmp_path, *arguments, input=given)
    assert (done.returncode, done.stdout) == (status, "")
    assert problem in done.stderr
    assert done.stderr.count("\n") == 1


REMOTE = {"type": "image_url", "image_url": {"url": "https://a.b/c/photo.png?x=1"}}
PIXEL = "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="
HELD = {"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{PIXEL}"}}


def request_with(*images: object) -> str:
    content = [{"type": "text", "text": "Look"}, *images]
    messages = [{"role": "user", "content": content}]
    return json.dumps({"model": "DeepSeek-V4.1", "messages": messages})


class TestImages:
    def test_a_row_for_each(self) -> None:
        given = request_with(REMOTE, HELD)
        done = said("count", "--image-size", "1920x1080", stdin=given)
        assert done.stdout.splitlines()[-4:-1] == [
            "images",
            "  0  photo.png, 1920 × 1080, 41 × 23 cells, 968 tokens",
            "  0  image 2, 1 × 1, 13 × 13 cells, 184 tokens",
        ]
        assert "at least" not in done.stdout

    def test_at_least(self) -> None:
        done = said("count", stdin=request_with(HELD, REMOTE))
        assert "at least " in done.stdout.splitlines()[1]
        assert "photo.png, size not known" in done.stdout
        assert "--image-size" in done.stdout.splitlines()[-2]

    def test_as_json(self) -> None:
        found = json.loads(said("count", "--json", stdin=request_with(HELD, REMOTE)).stdout)
        assert found["exact"] is False
        assert [image["tokens"] for image in found["images"]] == [184, None]
        assert found["images"][0]["message"] == 0
        done = said("count", "--json", "--image-size", "1x1", stdin=request_with(REMOTE))
        sized = json.loads(done.stdout)
        assert sized["exact"] is True
        assert sized["tokens"] == sum(m["tokens"] for m in sized["messages"])

    @pytest.mark.parametrize("size", ["1920", "0x4", "ax4", "x"])
    def test_sizes_that_are_none(self, size: str) -> None:
        done = said("count", "--image-size", size, stdin=request_with())
        assert done.returncode == 2
        assert "expected a size such as 1920x1080" in done.stderr

    def test_show_says_what_they_cost(self) -> None:
        done = said("show", "--image-size", "1920x1080", stdin=request_with(REMOTE, HELD))
        assert "▣ photo.png, 1920 × 1080, 41 × 23 cells, 968 tokens" in done.stdout
        assert "at least" in said("show", stdin=request_with(REMOTE)).stdout
