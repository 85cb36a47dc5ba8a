"""What the model answers to a quick-instruction task."""

from __future__ import annotations

import pytest

import dsv4
from builders import BOS, EOS

LABELS = {"action": ("Search", "Answer"), "read_url": ("yes", "no")}


@pytest.mark.parametrize(
    ("task", "label"), [(task, label) for task, labels in LABELS.items() for label in labels]
)
def test_labels(task: str, label: str) -> None:
    for text in (
        *(label, label.lower(), label.upper(), f"{label}.", f'"{label}"', f"**{label}**"),
        *(f" {label}\n", f"{label}{EOS}", f"\n`{label}`!\n{EOS}", f"{BOS}<think>{label}"),
        f"</think>{label}",
        f"<｜{task}｜>{label}",
    ):
        assert dsv4.parse_task(text, task) == label


@pytest.mark.parametrize("task", LABELS)
@pytest.mark.parametrize("text", ["", EOS, "maybe", "Search or Answer", "yes, no", "yess"])
def test_no_label_is_an_error(task: str, text: str) -> None:
    with pytest.raises(dsv4.ParseError) as caught:
        dsv4.parse_task(text, task)
    answer = text.removesuffix(EOS)
    assert caught.value.problem == f"found {answer!r}, expected {' or '.join(LABELS[task])}"


def test_a_label_of_another_task_is_none() -> None:
    with pytest.raises(dsv4.ParseError):
        dsv4.parse_task("Search", "read_url")


@pytest.mark.parametrize("task", ["query", "authority", "domain", "title"])
def test_texts(task: str) -> None:
    assert (
        dsv4.parse_task(f" The weather in Paris, “now”\n{EOS}", task)
        == "The weather in Paris, “now”"
    )
    assert dsv4.parse_task(f"<｜{task}｜>a\n\nb", task) == "a\n\nb"
    assert dsv4.parse_task("", task) == ""


def test_an_unknown_task_is_an_error() -> None:
    with pytest.raises(dsv4.OptionError, match="task: found 'weather', expected one of action, "):
        dsv4.parse_task("sunny", "weather")
