"""A prompt with images as text, for a server that takes no ids beside them (llama.cpp).

Its marker stands for each image. The server finds special tokens and markers wherever a text spells
them, so those that are a caller's words get a character inside that nobody sees.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from dsv4._encode.prompt import Prompt
from dsv4._format.tokens import BOS
from dsv4.serve.backend import ImageSupport

# The bar of special tokens, which is none of ASCII's.
_BAR = str(BOS)[1]
# WORD JOINER: it has no width, and no word or line breaks there.
_INSIDE = "\u2060"


@dataclass(frozen=True, slots=True)
class MediaSupport(ImageSupport):
    """What a server says of images: whether it takes any, the `marker` for one, and whether it
    writes the BOS before every text."""

    marker: str = ""
    writes_bos: bool = False

    def text_of(self, prompt: Prompt, special: Iterable[str]) -> str:
        """The text of a prompt. `special` are the special tokens that the server knows beside the
        dialect's."""
        names = frozenset((*map(str, prompt.dialect.special_tokens), *special))
        spelling = _spelling(names, self.marker)
        image, parts = prompt.dialect.image_token, []
        for n, (run, token) in enumerate(prompt.runs()):
            parts.append(spelling.sub(rf"\g<0>{_INSIDE}", run))
            if token is None or (n == 0 and token == BOS and self.writes_bos):
                continue
            parts.append(self.marker if token == image else str(token))
        return "".join(parts)


# What nearly all special tokens look like, and a text that only looks like one may be taken for it.
_USUAL = re.compile(f"<[|{_BAR}][^<>]{{1,48}}[|{_BAR}]>")


@lru_cache(maxsize=4)
def _spelling(special: frozenset[str], marker: str) -> re.Pattern[str]:
    """What finds the first character of each special token or marker in a text, of those too that
    overlap others."""
    others = {name for name in special if not _USUAL.fullmatch(name)} | {marker}
    rests = [(_USUAL.pattern[0], _USUAL.pattern[1:])]
    rests += [(re.escape(name[0]), re.escape(name[1:])) for name in sorted(others)]
    return re.compile("|".join(f"{first}(?={rest})" for first, rest in rests))
