"""The box of the playground, which is CodeMirror: its text, its caret, and what is marked in it.

Most of a long text is not in the document, so the editor itself is asked.
"""

from __future__ import annotations

from typing import Any

BOX = "Request, answer or log"
_EDITOR = """async (act) => {
  const { EditorView } = await import(new URL("vendor/codemirror.js", document.baseURI).href);
  const host = document.querySelector(".editor .shadow");
  return EditorView.findFromDOM(host.shadowRoot.querySelector(".cm-editor"));
}"""
# All at once: what a driver types is slow in a long text.
_PUT = (
    "(view, text) => view.dispatch({changes: {from: 0, to: view.state.doc.length, insert: text}})"
)


def editor(tab: Any) -> Any:
    """A handle of the editor."""
    return tab.evaluate_handle(_EDITOR)


def put(tab: Any, text: str) -> None:
    """Another text in the box, as somebody writes it."""
    editor(tab).evaluate(_PUT, text)


def text_of(tab: Any) -> str:
    return str(editor(tab).evaluate("view => view.state.doc.toString()"))


def after_caret(tab: Any) -> str:
    """The text behind the caret of a box that has the keyboard."""
    assert has_keyboard(tab)
    return str(editor(tab).evaluate("v => v.state.sliceDoc(v.state.selection.main.head)"))


def has_keyboard(tab: Any) -> bool:
    return bool(editor(tab).evaluate("view => view.hasFocus"))


def set_caret(tab: Any, at: int) -> None:
    editor(tab).evaluate("(v, at) => { v.focus(); v.dispatch({selection: {anchor: at}}); }", at)


def marked(tab: Any, kind: str) -> str:
    """The text that is marked as "lit" or "wrong", of what is drawn."""
    return "".join(tab.locator(f".editor .{kind}").all_text_contents())


def folded(tab: Any) -> list[str]:
    """What stands in place of what is folded away."""
    return list(tab.locator(".editor .cm-foldPlaceholder").all_text_contents())
