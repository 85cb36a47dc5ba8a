"""What the functions have to work with, besides what the page sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsv4.tokens import Tokenizer


@dataclass(frozen=True, slots=True)
class Bench:
    """What a server lends to the functions.

    - `tokenizer`: counts and ids; None where the extra `tokens` is not installed.
    - `dialect`: the release that holds where a request names none.
    - `model`: the name of the model behind the server, empty where there is none.
    - `inspects`: whether the server keeps the last requests to be looked at.
    - `asks_for_key`: whether calls need a key.
    """

    tokenizer: Tokenizer | None = None
    dialect: str = "v4"
    model: str = ""
    inspects: bool = False
    asks_for_key: bool = False
