"""Each kind of departure from the strict grammar: what was found, and what was done about it."""

from __future__ import annotations

from dsv4.parsing import diagnostics as kinds

SENTENCES = {
    kinds.OTHER_RELEASE: (
        "This tag is spelled as in another release of the format; it is read all the same."
    ),
    kinds.MISSPELLED_TAG: (
        "This tag is not spelled as the format has it; it is read as the tag that was meant."
    ),
    kinds.PLAIN_MARKUP: (
        "This call is written without the DSML token; it is taken for a call because the tool "
        "is declared."
    ),
    kinds.MARKUP_AS_TEXT: (
        "This looks like markup of calls, but nothing here makes it act; it stays in the text."
    ),
    kinds.MISSING_WRAPPER: (
        "A call begins here without the tag that opens a block of calls; it is taken for a call"
        " because the tool is declared."
    ),
    kinds.IMPLIED_CLOSE: (
        "A closing tag is missing here; what comes next cannot be inside, so it is closed."
    ),
    kinds.ORPHAN_CLOSER: "This tag closes nothing; it is removed.",
    kinds.UNEXPECTED_TEXT: "Text stands where only tags may stand; it is removed.",
    kinds.UNEXPECTED_TAG: "This tag has no place here; it is removed.",
    kinds.EMPTY_BLOCK: "This block of calls holds no call; it is removed.",
    kinds.SECOND_BLOCK: "A second block of calls begins here; its calls join those of the first.",
    kinds.QUOTED_MARKUP: "This value holds markup of calls; it is kept as a part of the value.",
    kinds.UNDECLARED_TOOL: (
        "This call names a tool that is not declared; it is kept, for you to decide."
    ),
    kinds.FORBIDDEN_CALL: "Tools may not be called here; the call is removed.",
    kinds.DROPPED_CALL: (
        "A tool or parameter without a name, or beyond the limits, cannot be called; the call "
        "is removed."
    ),
    kinds.JSON_CALLS: "Calls are written as JSON in place of tags; they are read as calls.",
    kinds.JSON_BODY: (
        "Arguments are written as one JSON value in place of parameters; it is read as the "
        "arguments."
    ),
    kinds.UNWRAPPED_ARGUMENTS: (
        "All arguments stand in one parameter that the tool does not have; they are taken out "
        "of it."
    ),
    kinds.LIMIT: (
        "There are more calls or parameters, or a longer name, than are read; the call is left out."
    ),
    kinds.DUPLICATE_PARAMETER: "This parameter was given before; the last one counts.",
    kinds.UNTYPED_PARAMETER: (
        "This parameter does not say whether its value is a string; the tool's schema decides, "
        "or else the value itself."
    ),
    kinds.INVALID_JSON: "This value is said to be JSON and is not; it is kept as a string.",
    kinds.CALL_IN_REASONING: (
        "A call begins before the reasoning has ended; it is made, and the reasoning goes on "
        "behind it."
    ),
    kinds.UNCLOSED_REASONING: "The reasoning does not end; everything is reasoning.",
    kinds.STRAY_THINK: "This tag of reasoning has no place here; it opens and closes nothing.",
    kinds.THINK_IN_CONTENT: "Reasoning begins once more inside the answer; it joins the reasoning.",
    kinds.STRAY_TOKEN: "This token has no place inside a text; it is removed.",
    kinds.CUT_SHORT: "The text ends in the middle of a call; what there is of it is incomplete.",
    kinds.TEXT_AFTER_BLOCK: (
        "Text follows the calls, where nothing should; it is part of the answer."
    ),
}
