"""What trainers make of the files that `dsv4 dataset --for` writes, with the trainers themselves.

`make test-training` runs these, in an environment of their own: PyTorch is large.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from importlib import metadata
from importlib.machinery import ModuleSpec
from itertools import groupby
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import dsv4
from builders import assistant, call, calling, function, gapless, result, user
from small_vocabulary import write_small_vocabulary

pytest.importorskip("torch")
pytest.importorskip("trl")
pytest.importorskip("tokenizers")

import torch
import transformers
import trl
from datasets import Dataset, load_dataset
from tokenizers import Tokenizer as Tokenizers
from transformers.image_utils import load_image
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer, SFTConfig, SFTTrainer
from trl.trainer.sft_trainer import DataCollatorForVisionLanguageModeling

from dataset_runs import encode_files
from dsv4._cli.main import main
from dsv4.compat import hf
from dsv4.dataset.output_formats import TRAINERS
from dsv4.tokens import Tokenizer

CONVERSATIONS: list[dict[str, Any]] = [
    {"messages": [user("Is 7 prime?"), assistant("Yes.", reasoning_content="Only 1 and 7.")]},
    {
        "messages": [
            user("Add 1 and 2."),
            calling(call("add", '{"a": 1, "b": 2}', id="a")),
            result("3", "a"),
            assistant("It is 3."),
            user("Thanks"),
            assistant("Welcome!"),
        ],
        "tools": [function("add")],
    },
    {"messages": [user(), assistant("Hello!")]},
]
LENGTH = 4096
IGNORED = -100
# `transformers` 5.23 has another name for this, and warns of the old one.
_NEW_NAME = "activation_checkpointing"
_NAMES = [field.name for field in fields(transformers.TrainingArguments)]
NO_CHECKPOINTING = {_NEW_NAME if _NEW_NAME in _NAMES else "gradient_checkpointing": False}


class Example:
    """One conversation: its ids, and those that the model wrote."""

    def __init__(self, ids: list[int], labels: list[int]) -> None:
        self.ids = ids
        self.labels = labels

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Example) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"Example({self.ids}, {self.labels})"


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_vocabulary(tmp_path_factory.mktemp("vocabulary") / "tokenizer.json")


@pytest.fixture(scope="module")
def meant(vocabulary: Path) -> list[Example]:
    """What is to be trained: exactly the tokens of the model."""
    tokenizer = Tokenizer.load(vocabulary)
    examples = []
    for body in CONVERSATIONS:
        prompt = dsv4.encode(body["messages"], tools=body.get("tools"))
        ids, weights = tokenizer.encode_masked(prompt)
        pairs = zip(ids, weights, strict=True)
        examples.append(Example(ids, [id if weight else IGNORED for id, weight in pairs]))
    assert all(0 < sum(label != IGNORED for label in e.labels) < len(e.ids) for e in examples)
    return examples


@pytest.fixture
def written(tmp_path: Path, vocabulary: Path) -> Callable[..., Path]:
    """Writes the conversations, for a trainer."""

    def write(name: str, **options: Any) -> Path:
        (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(c)}\n" for c in CONVERSATIONS))
        inputs, out = [tmp_path / "in.jsonl"], tmp_path / name
        encode_files(inputs, out, tokenizer=vocabulary, jobs=1, **options)
        return out

    return write


def llama(attention: str = "eager") -> Any:
    """A model whose answers depend on all that it sees."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=130_000,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        initializer_range=0.5,
        attn_implementation=attention,
    )
    return transformers.LlamaForCausalLM(config).eval()


@torch.no_grad()
def logits_alone(model: Any, example: Example) -> Any:
    return model(input_ids=torch.tensor([example.ids]), use_cache=False).logits[0]


def differences(model: Any, logits: Any, examples: list[Example]) -> list[float]:
    """How far the logits of each example in a row are from those of the example by itself."""
    parts = torch.split(logits, [len(example.ids) for example in examples])
    return [
        float((part - logits_alone(model, example)).abs().max())
        for part, example in zip(parts, examples, strict=True)
    ]


APART = 1e-3  # rounding; where examples see each other, it is more than 1


# TRL.


def trainer_over(data: Path, tmp_path: Path, vocabulary: Path, **options: Any) -> Any:
    kind = "parquet" if data.suffix == ".parquet" else "json"
    tokenizer = tokenizer_of_transformers(vocabulary)
    attention = options.pop("attention", "eager")
    settings = {
        "output_dir": str(tmp_path / "trained"),
        "per_device_train_batch_size": len(CONVERSATIONS),
        "max_length": None,
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        **NO_CHECKPOINTING,
        **options,
    }
    return SFTTrainer(
        model=llama(attention),
        processing_class=tokenizer,
        train_dataset=load_dataset(
            kind, data_files=str(data), split="train", cache_dir=str(tmp_path / "cache")
        ),
        args=SFTConfig(**settings),
    )


def first_batch(trainer: Any) -> dict[str, Any]:
    return next(iter(trainer.get_train_dataloader()))


def examples_in(batch: dict[str, Any]) -> list[Example]:
    """The examples of a batch: rows without their padding, or what begins at position 0."""
    found = []
    for n, ids in enumerate(batch["input_ids"]):
        if "position_ids" in batch:
            starts = (batch["position_ids"][n] == 0).nonzero().flatten().tolist()
        else:
            starts = [0]
            ids = ids[batch["attention_mask"][n] == 1]
        for start, end in zip(starts, [*starts[1:], len(ids)], strict=True):
            labels = batch["labels"][n][start:end]
            found.append(Example(ids[start:end].tolist(), labels.tolist()))
    return found


def in_order(examples: list[Example]) -> list[Example]:
    return sorted(examples, key=lambda example: example.ids)


TRL_WAYS = {
    "a row for each example": ({}, {}),
    "rows that dsv4 packed": ({"pack": LENGTH}, {"padding_free": True}),
    "rows that TRL packs": ({}, {"packing": True, "max_length": LENGTH}),
}


@pytest.mark.parametrize("name", ["train.jsonl", "train.parquet"])
@pytest.mark.parametrize("way", TRL_WAYS)
def test_trl_trains_exactly_the_tokens_of_the_model(
    written: Any, tmp_path: Path, vocabulary: Path, meant: list[Example], way: str, name: str
) -> None:
    writing, training = TRL_WAYS[way]
    data = written(name, trainer="trl", **writing)
    batch = first_batch(trainer_over(data, tmp_path, vocabulary, **training))
    assert in_order(examples_in(batch)) == in_order(meant)


@pytest.fixture
def proof(vocabulary: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[Path], Any]:
    """How `dsv4 dataset --prove trl` ends, and what it prints."""

    def prove(data: Path) -> tuple[int, str, list[str]]:
        capsys.readouterr()
        status = main(["dataset", "--prove", "trl", str(data), "--tokenizer", str(vocabulary)])
        printed = capsys.readouterr()
        return status, printed.out, printed.err.splitlines()

    return prove


def trained_texts(vocabulary: Path, examples: list[Example]) -> list[str]:
    """The stretches that are trained on, as text."""
    tokenizer, texts = Tokenizer.load(vocabulary), []
    for example in examples:
        tokens = zip(example.ids, example.labels, strict=True)
        for trained, stretch in groupby(tokens, key=lambda token: token[1] != IGNORED):
            if trained:
                texts.append(tokenizer.decode([id for id, _ in stretch]))
    return texts


@pytest.mark.parametrize("name", ["train.jsonl", "train.jsonl.gz", "train.parquet"])
@pytest.mark.parametrize("pack", [None, LENGTH])
def test_a_file_for_trl_is_proved(
    written: Any, proof: Any, vocabulary: Path, meant: list[Example], name: str, pack: int | None
) -> None:
    data = written(name, trainer="trl", pack=pack)
    status, shown, said = proof(data)
    count = "3 rows" if pack is None else "1 row"
    assert (status, said) == (
        0,
        [f"dsv4: {data}: trl trains exactly what the file says in {count}"],
    )
    assert re.findall("⟦(.*?)⟧", shown, re.DOTALL) == trained_texts(vocabulary, meant)


@pytest.mark.parametrize("name", ["train.jsonl", "train.parquet"])
def test_a_file_whose_mask_trl_ignores_is_no_file_for_it(
    written: Any, proof: Any, name: str
) -> None:
    data = written(name)
    status, _, said = proof(data)
    token = 'input_ids[0] ("<｜begin▁of▁sentence｜>")'
    problem = "the trainer has the label 0, the file -100"
    assert status == 1
    assert said == [
        *[f"dsv4: {data}:{row}: {token}: {problem}" for row in (1, 2, 3)],
        f"dsv4: {data}: trl trains otherwise in 3 of 3 rows",
    ]


def test_one_label_that_the_trainer_changes_is_named(
    written: Any, proof: Any, meant: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(self: Any, data: Any) -> Iterator[Any]:
        for n, batch in enumerate(loader(self, data)):
            assert n == 0
            batch["labels"][1][-1] = IGNORED
            batch["labels"][1][len(meant[1].ids) - 1] = IGNORED
            yield batch

    loader = SFTTrainer.get_eval_dataloader
    monkeypatch.setattr(SFTTrainer, "get_eval_dataloader", load)
    data = written("train.jsonl", trainer="trl")
    status, _, said = proof(data)
    token = f'input_ids[{len(meant[1].ids) - 1}] ("<｜end▁of▁sentence｜>")'
    problem = "the trainer has the label -100, the file 1"
    assert status == 1
    assert said[:-1] == [f"dsv4: {data}:2: {token}: {problem}"]


def test_a_hundred_rows_are_proved_and_ten_shown(
    written: Any,
    proof: Any,
    vocabulary: Path,
    meant: list[Example],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    data = written("train.jsonl", trainer="trl")
    data.write_text(data.read_text() * 40)
    status, shown, said = proof(data)
    assert (status, len(said)) == (0, 1)
    assert said[0].endswith("in 100 rows")
    assert shown.count("trained on") == 10
    assert "⟦" not in shown
    assert f"\x1b[32m{trained_texts(vocabulary, meant)[0]}\x1b[0m" in shown
    assert "\x1b[2m<｜begin▁of▁sentence｜>" in shown


NO_ROWS_FOR_TRL = {
    "": "there are no rows to prove",
    '{"prompt": "a", "chosen": "b"}': "found prompt, chosen, expected input_ids and as many labels",
    '{"input_ids": [0, 5], "labels": [-100]}': "expected input_ids and as many labels",
    '{"input_ids": [0, 5], "labels": [-100, 7]}': "labels[1]: found 7, expected the id 5 or -100",
    '{"input_ids": [0': "trl cannot load it: ",
    '{"input_ids": "words", "labels": "words"}': "trl cannot load it: ",
}


@pytest.mark.parametrize("line", NO_ROWS_FOR_TRL)
def test_what_is_not_rows_for_trl_is_refused(tmp_path: Path, proof: Any, line: str) -> None:
    (tmp_path / "train.jsonl").write_text(line)
    status, shown, (said,) = proof(tmp_path / "train.jsonl")
    assert (status, shown) == (1, "")
    assert NO_ROWS_FOR_TRL[line] in said


def test_a_file_that_is_not_there_cannot_be_proved(tmp_path: Path, proof: Any) -> None:
    data = tmp_path / "none.jsonl"
    assert proof(data) == (2, "", [f"dsv4: {data}: no such file"])


def test_trl_ignores_a_loss_mask(
    written: Any, tmp_path: Path, vocabulary: Path, meant: list[Example]
) -> None:
    """Why `--for` is needed: without it, all tokens are trained."""
    batch = first_batch(trainer_over(written("train.jsonl"), tmp_path, vocabulary))
    everything = [Example(example.ids, example.ids) for example in meant]
    assert in_order(examples_in(batch)) == in_order(everything)


class StandInProcessor:
    """A processor for V4.1, of which `transformers` has none: ids by `tokenizers`, images opened as
    `transformers` opens them, each as often as dsv4 counts its tokens."""

    def __init__(self, vocabulary: Path) -> None:
        content = gapless(json.loads(vocabulary.read_text("utf-8")))
        self.full = Tokenizers.from_str(json.dumps(content))
        self.tokenizer = SimpleNamespace(pad_token_id=1)

    def __call__(
        self, text: list[str], images: Any = None, *, padding_side: str, **_: Any
    ) -> dict[str, Any]:
        shown = iter([picture for each in images or () for picture in each])
        rows = [list(self._ids(each, shown)) for each in text]
        assert next(shown, None) is None
        longest = max(map(len, rows))
        batch: dict[str, list[Any]] = {"input_ids": [], "attention_mask": []}
        for row in rows:
            for name, values in (("input_ids", row), ("attention_mask", [1] * len(row))):
                gap = [0] * (longest - len(row))
                batch[name].append(gap + values if padding_side == "left" else values + gap)
        return {name: torch.tensor(values) for name, values in batch.items()}

    def _ids(self, words: str, shown: Any) -> Iterator[int]:
        image = self.full.token_to_id("<｜deepseek_image｜>")
        for id in self.full.encode(words, add_special_tokens=False).ids:
            if id == image:
                size = load_image(next(shown)).size
                yield from [id] * dsv4.image_grid(*size, dialect="v4.1").tokens
            else:
                yield id


def test_trl_makes_the_same_ids_of_texts_and_images(tmp_path: Path, v4_1_file: str) -> None:
    lines = [vision_line(tmp_path), [user(), assistant("Hello!")]]
    data, meant = vision_rows("trl-vision", lines, tmp_path, v4_1_file)
    rows = load_dataset(
        "json",
        data_files=str(data),
        split="train",
        cache_dir=str(tmp_path / "cache"),
    ).to_list()
    collate = DataCollatorForVisionLanguageModeling(
        StandInProcessor(Path(v4_1_file)), completion_only_loss=True
    )
    first, last, other = examples_in(collate(rows))
    assert other == meant[1]
    assert last.ids == meant[0].ids
    assert first.ids == last.ids[: len(first.ids)]
    trained = [*first.labels, *last.labels[len(first.labels) :]]
    assert trained == meant[0].labels
    assert set(last.labels[: len(first.labels)]) == {IGNORED}


def trained_logits(trainer: Any, batch: dict[str, Any]) -> Any:
    """What the model says in a step of training, which does not keep its logits."""
    states: list[Any] = []
    trainer.model.eval()
    hook = trainer.model.model.register_forward_hook(
        lambda _module, _given, outputs: states.append(outputs[0])
    )
    with torch.no_grad():
        trainer.compute_loss(trainer.model, dict(batch))
        hook.remove()
        (state,) = states
        return trainer.model.lm_head(state)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("way", ["rows that dsv4 packed", "rows that TRL packs"])
def test_trl_keeps_packed_examples_apart(
    written: Any, tmp_path: Path, vocabulary: Path, way: str, attention: str
) -> None:
    writing, training = TRL_WAYS[way]
    data = written("train.jsonl", trainer="trl", **writing)
    trainer = trainer_over(data, tmp_path, vocabulary, attention=attention, **training)
    batch = first_batch(trainer)
    (logits,) = trained_logits(trainer, batch)
    assert max(differences(trainer.model, logits, examples_in(batch))) < APART


def test_trl_mixes_packed_examples_without_padding_free(
    written: Any, tmp_path: Path, vocabulary: Path, meant: list[Example]
) -> None:
    """Why training.md asks for it."""
    data = written("train.jsonl", trainer="trl", pack=LENGTH)
    trainer = trainer_over(data, tmp_path, vocabulary)
    (logits,) = trained_logits(trainer, first_batch(trainer))
    first, *others = differences(trainer.model, logits, meant)
    assert first < APART
    assert min(others) > 1


# TRL's DPOTrainer, which computes ids itself.

PAIRS: list[dict[str, Any]] = [
    {
        "prompt": [user("Is 7 prime?")],
        "chosen": [assistant("Yes.", reasoning_content="Only 1 and 7.")],
        "rejected": [assistant("No.", reasoning_content="It is odd.")],
    },
    {
        "prompt": [user("Hi"), assistant("Hello!", reasoning_content="Greet."), user("Bye")],
        "chosen": [assistant("Bye!", reasoning_content="Go.")],
        "rejected": [assistant("What?", reasoning_content="Hm.")],
    },
]


def preferred() -> list[Example]:
    """What is to be compared: all chosen conversations, then all rejected ones."""
    tokenizer = Tokenizer.load()
    examples = []
    for side in ("chosen", "rejected"):
        for pair in PAIRS:
            ids = tokenizer.encode(dsv4.encode([*pair["prompt"], *pair[side]]))
            asked = len(tokenizer.encode(dsv4.encode(pair["prompt"])))
            examples.append(Example(ids, [IGNORED] * asked + ids[asked:]))
    return examples


def dpo_batch(data: Any, tokenizer: Any, tmp_path: Path) -> list[Example]:
    """The first batch of a real trainer."""
    trainer = DPOTrainer(
        model=llama(),
        ref_model=llama(),
        processing_class=tokenizer,
        train_dataset=data,
        args=DPOConfig(
            output_dir=str(tmp_path / "trained"),
            per_device_train_batch_size=len(PAIRS),
            max_length=None,
            report_to="none",
            use_cpu=True,
            bf16=False,
            **NO_CHECKPOINTING,
        ),
    )
    return completions_in(first_batch(trainer))


def completions_in(batch: dict[str, Any]) -> list[Example]:
    found = []
    for ids, seen, trained in zip(
        batch["input_ids"], batch["attention_mask"], batch["completion_mask"], strict=True
    ):
        length = int(seen.sum())
        labels = torch.where(trained == 1, ids, IGNORED)
        found.append(Example(ids[:length].tolist(), labels[:length].tolist()))
    return found


def tokenizer_of_transformers(vocabulary: Path) -> Any:
    return transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(vocabulary),
        eos_token="<｜end▁of▁sentence｜>",
        pad_token="<｜▁pad▁｜>",
    )


# With the real vocabulary: a tokenizer of `transformers` gives the small one other ids.
VOCABULARY = Path(Tokenizer.load().vocabulary.name)


def test_dpo_compares_exactly_the_tokens_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_text("".join(f"{json.dumps(pair)}\n" for pair in PAIRS))
    out = tmp_path / "train.parquet"
    options: dict[str, Any] = {"preferences": True, "trainer": "trl"}
    encode_files([tmp_path / "pairs.jsonl"], out, jobs=1, **options)
    data = load_dataset(
        "parquet", data_files=str(out), split="train", cache_dir=str(tmp_path / "cache")
    )
    found = dpo_batch(data, tokenizer_of_transformers(VOCABULARY), tmp_path)
    assert in_order(found) == in_order(preferred())


def test_dpo_over_messages_with_an_installed_tokenizer(tmp_path: Path) -> None:
    data = Dataset.from_list(PAIRS)
    found = dpo_batch(data, hf.install(tokenizer_of_transformers(VOCABULARY)), tmp_path)
    assert in_order(found) == in_order(preferred())


# TRL's KTOTrainer, which computes ids itself too.


# TRL 1.16 itself asks for the old name of what `transformers` 5.23 calls otherwise.
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
def test_kto_weighs_exactly_the_tokens_of_the_model(tmp_path: Path) -> None:
    lines = [
        {"prompt": pair["prompt"], "completion": pair[side], "label": side == "chosen"}
        for side in ("chosen", "rejected")
        for pair in PAIRS
    ]
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    out = tmp_path / "train.parquet"
    encode_files([tmp_path / "in.jsonl"], out, jobs=1, kto=True, trainer="trl")
    trainer = KTOTrainer(
        model=llama(),
        ref_model=llama(),
        processing_class=tokenizer_of_transformers(VOCABULARY),
        train_dataset=load_dataset(
            "parquet", data_files=str(out), split="train", cache_dir=str(tmp_path / "cache")
        ),
        args=KTOConfig(
            output_dir=str(tmp_path / "trained"),
            per_device_train_batch_size=len(lines),
            max_steps=1,
            max_length=None,
            report_to="none",
            save_strategy="no",
            use_cpu=True,
            bf16=False,
            **NO_CHECKPOINTING,
        ),
    )
    batch = first_batch(trainer)
    assert in_order(completions_in(batch)) == in_order(preferred())
    labels = {
        tuple(e.ids): bool(x) for e, x in zip(completions_in(batch), batch["label"], strict=True)
    }
    assert [labels[tuple(example.ids)] for example in preferred()] == [True, True, False, False]
    assert trainer.train().global_step == 1


# docs/training.md: every block, also those that other tests leave out.

MODEL = "deepseek-ai/DeepSeek-V4-Flash"
PAGE = Path(__file__).parent.parent / "docs" / "training.md"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """What stands for the model on the page."""
    folder = tmp_path / "DeepSeek-V4-Flash"
    llama().save_pretrained(folder)
    tokenizer_of_transformers(VOCABULARY).save_pretrained(folder)
    return folder


def test_the_page_loads_what_it_wrote(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    batches: list[Any] = []
    settings = {
        "output_dir": str(tmp_path / "trained"),
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        **NO_CHECKPOINTING,
    }
    for trainer, config in ((SFTTrainer, SFTConfig), (DPOTrainer, DPOConfig)):
        monkeypatch.setattr(trl, config.__name__, partial(config, **settings))
        monkeypatch.setattr(trainer, "train", lambda self: batches.append(first_batch(self)))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for code in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.M):
        exec(code.replace(MODEL, str(checkpoint)), namespace)
    assert namespace["rows"].column_names == ["input_ids", "labels"]
    assert len(namespace["rows"]) == namespace["summary"].examples == 3
    trained, compared = batches
    assert in_order(examples_in(trained)) == in_order(
        [Example(row["input_ids"], row["labels"]) for row in namespace["rows"]]
    )
    assert int(compared["completion_mask"].sum()) > 0


# transformers.


@pytest.fixture
def packed_row(written: Any) -> dict[str, Any]:
    row = json.loads(written("train.jsonl", pack=LENGTH).read_text())
    return {name: torch.tensor([row[name]]) for name in ("input_ids", "position_ids")}


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_transformers_keeps_packed_examples_apart(
    packed_row: dict[str, Any], meant: list[Example], attention: str
) -> None:
    model = llama(attention)
    with torch.no_grad():
        (logits,) = model(**packed_row, use_cache=False).logits
    assert max(differences(model, logits, meant)) < APART


@pytest.mark.parametrize("wrong", ["a cache", "a mask of ones"])
def test_transformers_mixes_packed_examples_otherwise(
    packed_row: dict[str, Any], meant: list[Example], wrong: str
) -> None:
    ones = {"attention_mask": torch.ones_like(packed_row["input_ids"]), "use_cache": False}
    model = llama()
    with torch.no_grad():
        (logits,) = model(**packed_row, **({} if wrong == "a cache" else ones)).logits
    assert min(differences(model, logits, meant)[1:]) > 1


def deepseek_v4() -> Any:
    """V4 itself: windows of attention, and tokens that are compressed in groups."""
    torch.manual_seed(0)
    config = transformers.DeepseekV4Config(
        vocab_size=130_000,
        hidden_size=32,
        moe_intermediate_size=16,
        num_hidden_layers=3,
        num_attention_heads=4,
        head_dim=16,
        q_lora_rank=16,
        o_lora_rank=16,
        o_groups=2,
        n_routed_experts=4,
        num_experts_per_tok=2,
        index_n_heads=2,
        index_head_dim=16,
        index_topk=4,
        sliding_window=8,
        compress_rates={"compressed_sparse_attention": 4, "heavily_compressed_attention": 8},
        layer_types=[
            *("sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention")
        ],
        mlp_layer_types=["moe"] * 3,
        hc_mult=2,
        initializer_range=0.5,
        attn_implementation="eager",
    )
    return transformers.DeepseekV4ForCausalLM(config).eval()


has_v4 = pytest.mark.skipif(
    not hasattr(transformers, "DeepseekV4Config"), reason="these transformers have no DeepSeek-V4"
)


@has_v4
def test_no_packed_row_is_right_for_v4_in_transformers(
    packed_row: dict[str, Any], meant: list[Example]
) -> None:
    """Its groups of compressed tokens go across examples, whatever the positions say. When this
    fails, training.md has a warning to take back."""
    model = deepseek_v4()
    with torch.no_grad():
        (logits,) = model(**packed_row, use_cache=False).logits
    first, *others = differences(model, logits, meant)
    assert first < APART
    assert min(others) > 0.1


@has_v4
def test_padded_rows_are_right_for_v4_in_transformers(meant: list[Example]) -> None:
    model, longest = deepseek_v4(), max(len(example.ids) for example in meant)
    for example in meant:
        padding = longest - len(example.ids)
        ids = torch.tensor([example.ids + [0] * padding])
        mask = torch.tensor([[1] * len(example.ids) + [0] * padding])
        with torch.no_grad():
            (logits,) = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
        (difference,) = differences(model, logits[: len(example.ids)], [example])
        assert difference < APART


# torchtune.


@pytest.fixture
def torchtune() -> Any:
    try:
        return pytest.importorskip("torchtune.datasets")
    except ImportError as error:
        pytest.skip(f"torchtune cannot be imported: {error}")


def test_torchtune_packs_the_rows_and_keeps_them_apart(
    torchtune: Any, written: Any, tmp_path: Path, meant: list[Example]
) -> None:
    from torchtune.data import padded_collate_packed
    from torchtune.models.llama2 import llama2

    rows = torchtune.SFTDataset(
        source="json",
        data_files=str(written("train.jsonl", trainer="torchtune")),
        split="train",
        cache_dir=str(tmp_path / "cache"),
        message_transform=lambda row: row,
        model_transform=None,
    )
    lengths = [len(example.ids) for example in meant]
    batch = padded_collate_packed([torchtune.PackedDataset(rows, max_seq_len=sum(lengths))[0]])
    tokens, labels = (torch.split(batch[name][0], lengths) for name in ("tokens", "labels"))
    parts = zip(tokens, labels, strict=True)
    assert [Example(ids.tolist(), each.tolist()) for ids, each in parts] == meant

    torch.manual_seed(0)
    sizes = {"vocab_size": 130_000, "embed_dim": 16, "max_seq_len": LENGTH}
    model = llama2(num_layers=2, num_heads=2, num_kv_heads=2, **sizes).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    with torch.no_grad():
        packed = model(batch["tokens"], mask=batch["mask"], input_pos=batch["input_pos"])[0]
        for part, example in zip(torch.split(packed, lengths), meant, strict=True):
            alone = model(torch.tensor([example.ids]))[0]
            assert float((part - alone).abs().max()) < APART


# verl.


@pytest.fixture
def verl_dataset(monkeypatch: pytest.MonkeyPatch) -> Any:
    folder = Path(__file__).parent.parent / "examples" / "training"
    monkeypatch.syspath_prepend(str(folder))
    import verl_dataset

    yield verl_dataset
    del sys.modules["verl_dataset"]


def test_the_dataset_for_verl(verl_dataset: Any, written: Any, meant: list[Example]) -> None:
    data = str(written("train.parquet", trainer="verl"))
    config = {"pad_mode": "no_padding"}
    rows = verl_dataset.EncodedDataset(parquet_files=[data], tokenizer=None, config=config)
    assert len(rows) == len(meant)
    for row, example in zip(rows, meant, strict=True):
        assert row["input_ids"].tolist() == example.ids
        assert row["position_ids"].tolist() == list(range(len(example.ids)))
        learned = zip(example.ids, row["loss_mask"].tolist(), strict=True)
        assert [id if mask else IGNORED for id, mask in learned] == example.labels
    few = verl_dataset.EncodedDataset(data, tokenizer=None, config=config, max_samples=2)
    assert len(few) == 2
    with pytest.raises(ValueError, match="found right, expected no_padding"):
        verl_dataset.EncodedDataset(data, tokenizer=None, config={"pad_mode": "right"})


def test_verl_has_these_columns(verl_dataset: Any, written: Any) -> None:
    """Its own dataset gives the trainer the same, where batches have no padding."""
    source = source_of("verl", "utils/dataset/multiturn_sft_dataset.py")
    _, found, unpadded = source.partition("self.pad_mode == DatasetPadMode.NO_PADDING")
    given = set(re.findall(r'^ +"(\w+)": \w+,$', unpadded.partition("return res")[0], re.M))
    data = str(written("train.parquet", trainer="verl"))
    config = {"pad_mode": "no_padding"}
    rows = verl_dataset.EncodedDataset(parquet_files=[data], tokenizer=None, config=config)
    assert found
    assert given == set(rows[0]) == {"input_ids", "position_ids", "loss_mask"}
    layout = TRAINERS["verl"].layout
    assert {layout.ids, layout.mask} <= given


def source_of(package: str, path: str) -> str:
    """A file of a package whose modules do not import here."""
    try:
        files = {str(each): each for each in metadata.files(package) or ()}
    except metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed here: its columns are not compared")
    return files[f"{package}/{path}"].read_text()


# Axolotl.


def test_axolotl_takes_the_rows_as_tokenized(
    written: Any,
    tmp_path: Path,
    vocabulary: Path,
    meant: list[Example],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AXOLOTL_DO_NOT_TRACK", "1")
    wrappers = pytest.importorskip("axolotl.utils.data.wrappers", exc_type=ImportError)
    from axolotl.utils.collators.batching import DataCollatorForSeq2Seq
    from axolotl.utils.dict import DictDefault

    data = str(written("train.jsonl", trainer="axolotl"))
    rows = load_dataset("json", data_files=data, split="train", cache_dir=str(tmp_path / "cache"))
    tokenizer, entry = tokenizer_of_transformers(vocabulary), DictDefault({"path": data})
    tokenized, _ = wrappers.get_dataset_wrapper(entry, tokenizer, DictDefault({}), None, rows)
    assert tokenized is rows
    assert examples_in(DataCollatorForSeq2Seq(tokenizer)(list(tokenized))) == meant


# LLaMA-Factory.


def test_llama_factory_reads_the_folder(
    written: Any, tmp_path: Path, meant: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    audio = ModuleType("torchaudio")  # it imports this, for sounds, which no row has
    audio.__spec__ = ModuleSpec("torchaudio", None)
    monkeypatch.setitem(sys.modules, "torchaudio", audio)
    loader = pytest.importorskip("llamafactory.data.loader", exc_type=ImportError)
    data, folder = written("train.parquet", trainer="llama-factory"), str(tmp_path / "folder")
    load_dataset("parquet", data_files=str(data), cache_dir=str(tmp_path / "cache")).save_to_disk(
        folder
    )
    arguments = SimpleNamespace(tokenized_path=folder, streaming=False)
    rows = loader.get_dataset(None, None, arguments, None, "sft", None)["train_dataset"]
    assert [Example(row["input_ids"], row["labels"]) for row in rows] == meant
    assert all(set(row["attention_mask"]) == {1} for row in rows)


def test_llama_factory_has_these_columns() -> None:
    """Its own tokenized data has them."""
    loader = source_of("llamafactory", "data/loader.py")
    assert "load_from_disk(data_args.tokenized_path)" in loader
    source = source_of("llamafactory", "data/processor/supervised.py")
    written = set(re.findall(r'model_inputs\["(\w+)"\]', source))
    layout = TRAINERS["llama-factory"].layout
    assert {layout.ids, layout.attention, layout.labels} <= written


# ms-swift.

IMAGE_ID = 129264
# What a checkpoint of V4.1 says of images: docs/images.md has the rules.
VISION = {
    "patch_size": 14,
    "downsample_ratio": 3,
    "max_image_tokens": 1024,
    "max_wh_ratio": None,
    "min_pixels": 544 * 544,
}


@pytest.mark.filterwarnings("ignore::Warning")  # of its own imports
def test_ms_swift_makes_the_same_ids_of_texts_and_images(tmp_path: Path, v4_1_file: str) -> None:
    """Its labels have one more: `<think>` itself, which stands in the prompt of every server."""
    swift = pytest.importorskip("swift.template", exc_type=ImportError)
    from swift.model import get_processor

    lines = [vision_line(tmp_path), [user(), assistant("Hello!", reasoning_content="Greet.")]]
    data, meant = vision_rows("ms-swift", lines, tmp_path, v4_1_file)
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    model = tmp_path / "model"
    names = {"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>"}
    content = gapless(json.loads(Path(v4_1_file).read_text("utf-8")))
    full = Tokenizers.from_str(json.dumps(content))
    transformers.PreTrainedTokenizerFast(tokenizer_object=full, **names).save_pretrained(model)
    config = {"model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"]}
    (model / "config.json").write_text(json.dumps(config))
    processor = get_processor(str(model), model_type="deepseek_v41")
    template = swift.get_template(processor, template_type="deepseek_v41", enable_thinking=True)
    template.config.image_token_id = IMAGE_ID
    template.config.vision_config = SimpleNamespace(**VISION)
    template.set_mode("train")
    think = full.token_to_id("<think>")
    for row, example in zip(rows, meant, strict=True):
        made = template.encode(row)
        labels = [IGNORED if label == think else label for label in made["labels"]]
        assert Example(list(made["input_ids"]), labels) == example


def vision_line(folder: Path) -> dict[str, Any]:
    """A conversation with an image in a question, and one in a result."""
    picture = pytest.importorskip("PIL.Image").new("RGB", (353, 60))
    picture.save(folder / "1.png")
    shot = dsv4.image_block(picture.resize((20, 30)))
    messages = [
        user([{"type": "image_url", "image_url": {"url": "1.png"}}]),
        calling(call("shoot", id="a"), reasoning_content="I look."),
        result([{"type": "text", "text": "Here:"}, shot], "a"),
        assistant("Both are black.", reasoning_content="I see."),
    ]
    return {"messages": messages, "tools": [function("shoot")]}


def vision_rows(
    trainer: str, lines: list[Any], folder: Path, vocabulary: str
) -> tuple[Path, list[Example]]:
    """The file of lines with images that a trainer reads, and what is to be trained."""
    (folder / "in.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for name in (trainer, None):
        options = {"tokenizer": vocabulary, "dialect": "v4.1", "jobs": 1, "trainer": name}
        encode_files([folder / "in.jsonl"], folder / f"{name}.jsonl", **options)
    meant = []
    for line in (folder / "None.jsonl").read_text().splitlines():
        row = json.loads(line)
        pairs = zip(row["input_ids"], row["loss_mask"], strict=True)
        meant.append(Example(row["input_ids"], [id if m else IGNORED for id, m in pairs]))
    return folder / f"{trainer}.jsonl", meant


# NeMo Automodel.


def test_nemo_pads_the_rows_and_looks_up_no_next_token(
    written: Any, tmp_path: Path, meant: list[Example]
) -> None:
    module = pytest.importorskip("nemo_automodel.components.datasets.utils")
    rows = load_dataset(
        "parquet",
        data_files=str(written("train.parquet", trainer="nemo")),
        split="train",
        cache_dir=str(tmp_path / "cache"),
    )
    batch = module.default_collater(list(rows))
    for n, example in enumerate(meant):
        length = len(example.ids) - 1
        assert batch["input_ids"][n][:length].tolist() == example.ids[:-1]
        assert batch["labels"][n][:length].tolist() == example.labels[1:]
        assert set(batch["labels"][n][length:].tolist()) <= {IGNORED}
        assert int(batch["attention_mask"][n].sum()) == length
