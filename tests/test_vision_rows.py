"""Rows of texts and images: what `dsv4 dataset --for trl-vision` and `--for ms-swift` write."""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from builders import *
from dataset_runs import encode_files
from dsv4.dataset import BadLine, DatasetError

tokenizers = pytest.importorskip("tokenizers")

IMAGE_ID = 129264
PIXEL = png(1, 1)
DATA = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
COSTS = {"1.png": 968, "2.png": 204, DATA: 184}

AGENT: dict[str, Any] = {
    "messages": [
        system(),
        user([text("Compare"), image("shots/1.png"), text("with"), image(DATA)]),
        calling(call("shoot", '{"of": "é"}', id="a"), reasoning_content="I look."),
        result([text("Here:"), image("shots/2.png")], "a"),
        assistant("They differ.", reasoning_content="I see."),
    ],
    "tools": [function("shoot")],
}
CHAT = [
    user([image("shots/2.png"), text("What?")]),
    assistant("A cat.", reasoning_content="Fur."),
    user("Sure?"),
    assistant("Yes.", reasoning_content="Ears."),
]
PLAIN = [user("Hi"), assistant("Hello", reasoning_content="Greet.")]


@cache
def full_tokenizer(path: str) -> Any:
    vocabulary = gapless(json.loads(Path(path).read_text("utf-8")))
    return tokenizers.Tokenizer.from_str(json.dumps(vocabulary))


class Folder:
    """A folder with pictures, in which lines are written and encoded."""

    def __init__(self, path: Path, tokenizer: str) -> None:
        self.path, self.tokenizer = path, tokenizer
        (path / "shots").mkdir()
        for name, size in (("1.png", (1920, 1080)), ("2.png", (353, 6))):
            (path / "shots" / name).write_bytes(png(*size))

    def rows(self, lines: list[Any], **options: Any) -> list[dict[str, Any]]:
        given, out = self.path / "in.jsonl", self.path / "out.jsonl"
        given.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
        options = {"tokenizer": self.tokenizer, "dialect": "v4.1", "jobs": 1, **options}
        encode_files([given], out, overwrite=True, **options)
        return [json.loads(line) for line in out.read_text("utf-8").splitlines()]

    def picture(self, name: str) -> str:
        return str((self.path / "shots" / name).resolve())

    def ids(self, words: str, images: list[str]) -> list[int]:
        """The ids of a text by `tokenizers`, with all tokens of its images."""
        costs = iter([COSTS[address.rpartition("/shots/")[2]] for address in images])
        encoded = full_tokenizer(self.tokenizer).encode(words, add_special_tokens=False)
        ids = [[id] * (next(costs) if id == IMAGE_ID else 1) for id in encoded.ids]
        assert next(costs, None) is None
        return [id for each in ids for id in each]


@pytest.fixture
def folder(tmp_path: Path, v4_1_file: str) -> Folder:
    return Folder(tmp_path, v4_1_file)


class TestTrl:
    @pytest.mark.parametrize(
        ("line", "options", "count"),
        [
            (AGENT, {}, 2),
            (CHAT, {"expand": True}, 2),
            (CHAT, {}, 2),
            (CHAT, {"thinking": False}, 2),
            (CHAT, {"policy": "last_turn"}, 1),
            (CHAT, {"policy": "answers"}, 2),
            (PLAIN, {}, 1),
        ],
    )
    def test_texts_have_the_ids_and_the_mask_of_rows_of_ids(
        self, folder: Folder, line: Any, options: Any, count: int
    ) -> None:
        trained = []
        for row in folder.rows([line], **options):
            ids, mask = row["input_ids"], row["loss_mask"]
            starts = [n for n in range(1, len(ids)) if mask[n] and not mask[n - 1]]
            ends = [mask.index(0, start) if 0 in mask[start:] else len(mask) for start in starts]
            trained += [(ids[:a], ids[a:b]) for a, b in zip(starts, ends, strict=True)]
        rows = folder.rows([line], trainer="trl-vision", **options)
        assert len(rows) == count
        assert [
            (folder.ids(row["prompt"], row["images"]), folder.ids(row["completion"], []))
            for row in rows
        ] == trained

    def test_columns_and_images_in_order(self, folder: Folder) -> None:
        first, second = folder.rows([AGENT], trainer="trl-vision")
        assert list(first) == ["prompt", "completion", "images"]
        assert first["images"] == [folder.picture("1.png"), DATA]
        assert second["images"] == [folder.picture("1.png"), DATA, folder.picture("2.png")]
        assert second["completion"] == "I see.</think>They differ.<｜end▁of▁sentence｜>"
        (plain,) = folder.rows([PLAIN], trainer="trl-vision", carry=["id"])
        assert plain["images"] == []
        assert plain["line"] == 1

    def test_a_mask_within_a_text(self, folder: Folder) -> None:
        spoken = assistant("Wait.", tool_calls=[call("shoot")])
        line = {**AGENT, "messages": [*AGENT["messages"][:2], spoken]}
        problem = "in.jsonl:1: messages: found a mask that begins or ends within a text"
        with pytest.raises(BadLine, match=problem):
            folder.rows([line], trainer="trl-vision", policy="calls")

    def test_rows_of_ids_name_the_way_for_images(self, folder: Folder) -> None:
        with pytest.raises(BadLine, match="expected text, --for trl-vision or ms-swift, or no"):
            folder.rows([CHAT], trainer="trl")


class TestMsSwift:
    def test_messages_images_and_tools(self, folder: Folder) -> None:
        (row,) = folder.rows([AGENT], trainer="ms-swift")
        called = {"name": "shoot", "arguments": {"of": "é"}}
        assert list(row) == ["messages", "images", "tools"]
        assert row["messages"] == [
            system(),
            user("Compare\n\n<image>\n\nwith\n\n<image>"),
            assistant("<think>I look.</think>", loss=True),
            {
                "role": "tool_call",
                "content": json.dumps(called, ensure_ascii=False),
                "loss": True,
            },
            {"role": "tool", "content": "Here:\n\n<image>"},
            assistant("<think>I see.</think>They differ.", loss=True),
        ]
        assert row["images"] == [folder.picture("1.png"), DATA, folder.picture("2.png")]
        tool = function("shoot")
        assert json.loads(row["tools"]) == [
            tool if "function" in tool else {"type": "function", "function": tool}
        ]

    @pytest.mark.parametrize(
        ("messages", "options", "expected"),
        [
            (CHAT, {}, [("A cat.", True), ("<think>Ears.</think>Yes.", True)]),
            (
                CHAT,
                {"expand": True},
                [
                    ("<think>Fur.</think>A cat.", True),
                    ("A cat.", False),
                    ("<think>Ears.</think>Yes.", True),
                ],
            ),
            (CHAT, {"thinking": False}, [("A cat.", True), ("Yes.", True)]),
            ([user(), assistant("A")], {}, [("<think></think>A", True)]),
            (
                [*PLAIN, user(), assistant("B", weight=0)],
                {"thinking": False},
                [("Hello", True), ("B", False)],
            ),
        ],
    )
    def test_what_is_trained_on(
        self, folder: Folder, messages: Any, options: Any, expected: Any
    ) -> None:
        rows = folder.rows([messages], trainer="ms-swift", **options)
        assert [
            (message["content"], message["loss"])
            for row in rows
            for message in row["messages"]
            if message["role"] == "assistant"
        ] == expected
        assert all(row["tools"] is None for row in rows)

    def test_what_is_cut_has_no_image(self, folder: Folder) -> None:
        late = [*PLAIN, user([image("shots/1.png")]), assistant("Last")]
        (row,) = folder.rows([late], trainer="ms-swift", max_length=200, too_long="cut")
        assert [message["role"] for message in row["messages"]] == ["user", "assistant"]
        assert row["images"] == []

    @pytest.mark.parametrize(
        ("line", "options", "problem"),
        [
            ([user("An <image> of"), assistant()], {}, "messages[0]: found <image> in a text"),
            ([user(), assistant("<video>")], {}, "messages[1]: found <video> in a text"),
            (
                [user(), reminder(), assistant("A")],
                {},
                "messages[1]: found the role latest_reminder, which ms-swift has no place for",
            ),
            (
                {"messages": PLAIN, "response_format": {"type": "object"}},
                {},
                "response_format, which ms-swift has no place for",
            ),
            (CHAT, {"policy": "answers"}, "messages[3]: found a turn of which only a part is"),
        ],
    )
    def test_what_it_has_no_place_for(
        self, folder: Folder, line: Any, options: Any, problem: str
    ) -> None:
        with pytest.raises(BadLine, match=re.escape(problem)):
            folder.rows([line], trainer="ms-swift", **options)


@pytest.mark.parametrize("trainer", ["trl-vision", "ms-swift"])
class TestBoth:
    @pytest.mark.parametrize(
        ("address", "problem"),
        [
            ("shots/3.png", "found 'shots/3.png': no such file or directory"),
            ("../secret.png", "found '../secret.png', expected a picture below "),
            ("https://a.b/c.png", "image 1 of 1: found only 'https://a.b/c.png'"),
            ("data:image/png;base64,AAAA", "image 1 of 1: found a file that begins with"),
        ],
    )
    def test_a_missing_image_is_named_with_its_line(
        self, folder: Folder, trainer: str, address: str, problem: str
    ) -> None:
        lines = [PLAIN, [user([image(address)]), assistant()]]
        with pytest.raises(BadLine, match=re.escape(problem)) as caught:
            folder.rows(lines, trainer=trainer)
        assert str(caught.value).startswith(f"{folder.path / 'in.jsonl'}:2: ")

    def test_data_is_labelled_by_its_bytes(self, folder: Folder, trainer: str) -> None:
        mislabelled = image(DATA.replace("image/png", "text/plain"))
        source = {"type": "base64", "media_type": "image/png", "data": DATA.partition(",")[2]}
        anthropic = {"type": "image", "source": source}
        (row,) = folder.rows([[user([mislabelled, anthropic]), assistant()]], trainer=trainer)
        assert row["images"] == [DATA, DATA]

    def test_a_text_that_spells_a_token(self, folder: Folder, trainer: str) -> None:
        with pytest.raises(BadLine, match="found <think> in a text, which the trainer's tok"):
            folder.rows([[user("What is <think>?"), assistant()]], trainer=trainer)

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"pack": 64}, "pack: found it for {}, which computes ids itself"),
            ({"format": "parquet"}, "output: found .parquet for {}, whose columns hold lists"),
            ({"carry": ["images"]}, "carry: found images, which is a column of the output's own"),
            ({"preferences": True}, "preferences: found it for {}, expected trl, or no trainer"),
        ],
    )
    def test_what_only_rows_of_ids_have(
        self, folder: Folder, trainer: str, options: Any, problem: str
    ) -> None:
        with pytest.raises(DatasetError, match=re.escape(problem.format(trainer))):
            folder.rows([PLAIN], trainer=trainer, **options)


@pytest.mark.parametrize(("trainer", "column"), [("trl-vision", "prompt"), ("ms-swift", "tools")])
def test_a_carried_field_takes_no_column(folder: Folder, trainer: str, column: str) -> None:
    with pytest.raises(DatasetError, match=f"carry: found {column}, which is a column of the"):
        folder.rows([PLAIN], trainer=trainer, carry=[column])
