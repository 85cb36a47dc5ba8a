"""Problems in the words of JSON."""

from __future__ import annotations

from dsv4._cli.command_output import in_json_words
from rows import each_row


@each_row(
    "problem, words",
    [
        ("found None, expected True or False", "found null, expected true or false"),
        ("found 'a', expected text", 'found "a", expected text'),
        ("found \"it's\", expected 'x'", 'found "it\'s", expected "x"'),
        ("found {'a': [None, True]}", 'found {"a": [null, true]}'),
        ("OpenAI's 'role' isn't None", "OpenAI's \"role\" isn't null"),
        ("found 'cut off…", "found 'cut off…"),
        ("found 'a\\nb\\x1b'", 'found "a\\nb\\u001b"'),
        ("found 5, expected a dict, not 'a dict'", 'found 5, expected an object, not "a dict"'),
        ("None of it: Nonesuch", "null of it: Nonesuch"),
    ],
)
def test_words(problem: str, words: str) -> None:
    assert in_json_words(problem) == words
