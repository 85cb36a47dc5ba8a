"""Rules on what texts spell."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from dsv4._format import tokens
from dsv4.checking.conversation import Conversation
from dsv4.checking.findings import Found
from dsv4.checking.words import quoted


def spelled_tokens(conversation: Conversation) -> Iterator[Found]:
    prompt = conversation.prompt
    text, pieces = str(prompt), prompt.pieces
    ends = list(accumulate(len(piece.text) for piece in pieces))
    seen: set[Found] = set()
    for start, end in prompt.special_text:
        location = conversation.location_of(pieces[bisect_left(ends, end)])
        problem = f"the text spells the special token {text[start:end]}"
        found = Found("special_token_in_text", location, problem)
        if found not in seen:
            seen.add(found)
            yield found


# The bars of special tokens, of this format and of others; and what other formats write.
_BARS = "|" + tokens.USER[1]
_DSML = tokens.DSML[1:-1]
_LOOKALIKE = re.compile(
    rf"<[{_BARS}][^<>{_BARS}\n]{{1,40}}[{_BARS}]>"
    rf"|[{_BARS}] ?{_DSML} ?[{_BARS}]"
    r"|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>"
)


def lookalike_tokens(conversation: Conversation) -> Iterator[Found]:
    """Tokens of other formats, and ours with the wrong bars: plain text, which acts as nothing."""
    real = set(map(str, conversation.prompt.dialect.special_tokens))
    for piece in conversation.prompt.pieces:
        if piece.special or piece.origin == "template":
            continue
        seen: set[str] = set()
        for found in _LOOKALIKE.findall(piece.text):
            if found not in real and found not in seen:
                seen.add(found)
                problem = f"{found} looks like a control token, and is plain text in this format"
                yield Found("lookalike_token", conversation.location_of(piece), problem)


_HALF = re.compile("[\ud800-\udfff]")


def lone_surrogates(conversation: Conversation) -> Iterator[Found]:
    for piece in conversation.prompt.pieces:
        found = _HALF.search(piece.text)
        if found:
            what = f"the text holds {quoted_half(found[0])}, half of a surrogate pair"
            problem = f"{what}: UTF-8 cannot write it, and no tokenizer accepts it"
            yield Found("lone_surrogate", conversation.location_of(piece), problem)


def quoted_half(char: str) -> str:
    return quoted(f"\\u{ord(char):04x}").replace("\\\\", "\\")


RULES = (spelled_tokens, lookalike_tokens, lone_surrogates)
