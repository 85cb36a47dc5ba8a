"""What the streams of bench/serve.py say: reasoning, then an answer with code and other scripts."""

from __future__ import annotations

from functools import cache
from itertools import cycle, islice

from dsv4._format.tokens import EOS, THINK_END
from dsv4.tokens import Tokenizer

MODEL = "DeepSeek-V4-Pro"
_REASONING = """\
The user wants to know why the loader fails on empty files. Let me look at what it does first: it
opens the path, reads everything, and splits the text at the first newline. If `lines` is empty,
then `lines[0]` raises an IndexError, and nobody catches it. So a < b does not hold there.

"""
_ANSWER = """\
The loader fails because it takes the first line of a file that has none:

```python
def load(path: str) -> list[str]:
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\\n")
    return [line for line in lines if line] if len(lines) < 10 else lines[:10]
```

- **Why**: `"".split()` gives `[]`, and `[][0]` is an error (naïve, I know — 空文件 🙂).
- **What to do**: return early <em>before</em> the first line is taken.

"""
# How much of a stream is reasoning.
_THINKING = 1 / 3


@cache
def answer_tokens(count: int) -> list[tuple[str, list[int]]]:
    """The tokens of a completion, with the text that an engine shows for each: a character that
    is cut between tokens comes with the last of them."""
    tokenizer = Tokenizer.load()
    thinking = int(count * _THINKING)
    ids = [
        *islice(cycle(tokenizer.encode_text(_REASONING)), thinking),
        tokenizer.special_id(THINK_END),
        *islice(cycle(tokenizer.encode_text(_ANSWER)), count - thinking - 2),
        tokenizer.special_id(EOS),
    ]
    shown: list[tuple[str, list[int]]] = []
    held: list[int] = []
    for id in ids:
        held.append(id)
        text = tokenizer.decode(held)
        if "\ufffd" in text:
            shown.append(("", [id]))
        else:
            shown.append(("" if text == EOS else text, [id]))
            held = []
    return shown


@cache
def answer_pieces(count: int) -> list[tuple[str, str]]:
    """The same as fields of a chat: which one each token belongs to, and its text."""
    pieces = []
    field = "reasoning_content"
    for text, _ in answer_tokens(count):
        if text == THINK_END:
            field, text = "content", ""
        pieces.append((field, text))
    return pieces
