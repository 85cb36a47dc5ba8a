// The box that takes anything: CodeMirror, in which places of the text can be lit and marked. It is
// in a shadow root, whose styles the page's security policy allows; the colours are those of the
// page, which pass through.

import { button, element } from "./dom.js";
import {
  Decoration, EditorState, EditorView, HighlightStyle, StateEffect, StateField, codeFolding,
  defaultKeymap, drawSelection, ensureSyntaxTree, foldEffect, foldGutter, foldKeymap, foldedRanges,
  highlightSpecialChars, history, historyKeymap, json, keymap, lineNumbers, openSearchPanel,
  placeholder, search, searchKeymap, syntaxHighlighting, tags, unfoldAll, unfoldEffect,
} from "./vendor/codemirror.js";

/** @typedef {import("./types.js").Place} Place */
/** @typedef {{ lit: Place | null, wrong: Place | null }} Marks */

// A longer text is handed on when typing has paused, because to put it together takes time.
const LONG = 200_000;
const PAUSE = 400;
// Milliseconds for reading the structure of a text, at most.
const READING = 60;
const MOST_SUMMARY = 60;

/** @type {import("./vendor/codemirror.js").StateEffectType<Partial<Marks>>} */
const setMarks = StateEffect.define();

/** The marked places. A mark moves with its text; a new text has none. */
const MARKS = StateField.define({
  create: () => /** @type {Marks} */ ({ lit: null, wrong: null }),
  update(marks, { changes, docChanged, effects }) {
    /** @param {Place | null} place */
    const moved = (place) =>
      place && /** @type {Place} */ (place.map((at) => changes.mapPos(Math.min(at, changes.length))));
    let now = docChanged ? { lit: moved(marks.lit), wrong: moved(marks.wrong) } : marks;
    for (const effect of effects) if (effect.is(setMarks)) now = { ...now, ...effect.value };
    return now;
  },
  provide: (field) =>
    EditorView.decorations.compute([field, "doc"], (state) => {
      const { lit, wrong } = state.field(field);
      const drawn = [
        lit && decorated("lit", seen(lit, state)),
        wrong && decorated("wrong", seen(wrong, state)),
      ];
      return Decoration.set(drawn.filter((one) => one !== null), true);
    }),
});

/**
 * The visible part of a place: at the end of a line, the character before it.
 * @param {Place} place
 * @param {EditorState} state
 * @returns {Place}
 */
function seen([start, end], { doc }) {
  const from = Math.min(start, doc.length);
  const to = Math.max(from, Math.min(end, doc.length));
  const isLineEnd = doc.lineAt(from).to === from;
  return to === from || (isLineEnd && to === from + 1) ? [Math.max(0, from - 1), from] : [from, to];
}

/**
 * @param {string} name
 * @param {Place} place
 */
const decorated = (name, [from, to]) =>
  from === to ? null : Decoration.mark({ class: name }).range(from, to);

const COLOURS = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--json-name)" },
  { tag: tags.string, color: "var(--json-string)" },
  { tag: tags.number, color: "var(--json-number)" },
  { tag: [tags.bool, tags.null], color: "var(--json-literal)" },
]);

const THEME = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--card)" },
  "&.cm-focused": { outline: "none" },
  // As high as what a finger touches must be.
  ".cm-scroller": { font: "13px/24px var(--mono)", overflow: "auto" },
  ".cm-content": { padding: ".75rem 0", caretColor: "var(--text)" },
  ".cm-line": { padding: "0 1rem 0 .25rem" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "& .cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground":
    { backgroundColor: "color-mix(in srgb, var(--accent) 30%, transparent)" },
  ".cm-gutters": { color: "var(--faint)", backgroundColor: "var(--card)", border: "0" },
  ".cm-foldGutter .cm-gutterElement": { width: "24px", textAlign: "center", cursor: "pointer" },
  ".cm-foldPlaceholder": {
    color: "var(--faint)", backgroundColor: "var(--mark)", border: "1px solid var(--rule)", padding: "0 .4rem",
  },
  ".cm-foldPlaceholder.hides-wrong": { color: "var(--bad)" },
  ".cm-placeholder": { color: "var(--faint)" },
  ".lit": { backgroundColor: "var(--lit)" },
  ".wrong": { backgroundColor: "var(--bad-back)", textDecoration: "underline wavy var(--bad)" },
  ".cm-panels": { color: "var(--text)", backgroundColor: "var(--back)", borderColor: "var(--rule)" },
  ".cm-panel.cm-search": { padding: ".4rem 2rem .4rem .75rem" },
  ".cm-panel.cm-search label": { fontSize: ".8125rem" },
  ".cm-textfield, .cm-button": {
    color: "var(--text)", background: "var(--card)", border: "1px solid var(--rule)",
    borderRadius: "6px", fontSize: ".8125rem", minHeight: "26px",
  },
  ".cm-panel.cm-search [name=close]": { color: "var(--text)", fontSize: "1.25rem", padding: "0 .4rem" },
  ".cm-searchMatch": { backgroundColor: "var(--hit)" },
  ".cm-searchMatch-selected": { backgroundColor: "var(--accent)" },
  ".cm-searchMatch-selected *, .cm-searchMatch-selected": { color: "var(--on-accent)" },
});

export class Editor {
  #view;
  #host = element("div", { className: "shadow" });
  #oninput;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #later;
  /** @type {string | null} */
  #text = null;
  #isGiven = false;
  root = element("div", { className: "editor" }, this.#host);
  folder = button("Fold", () => this.#foldOrOpen());

  /**
   * `oninput(text)` is called while the user types. `oncaret(offset, isPointer)` is called when the
   * caret has moved, or with `isPointer` when the pointer is over a line; null when it has left.
   * @param {{
   *   label: string,
   *   hint: string,
   *   oninput: (text: string) => void,
   *   oncaret: (offset: number | null, isPointer: boolean) => void,
   * }} options
   */
  constructor({ label, hint, oninput, oncaret }) {
    this.#oninput = oninput;
    const shadow = this.#host.attachShadow({ mode: "open" });
    this.#view = new EditorView({
      parent: shadow,
      root: shadow,
      extensions: [
        // A carriage return is a character, so that places are those of the text that was given.
        EditorState.lineSeparator.of("\n"),
        EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", tabindex: "0" }),
        EditorView.lineWrapping,
        EditorState.tabSize.of(2),
        lineNumbers(),
        codeFolding({ preparePlaceholder: summary, placeholderDOM: foldedMark }),
        foldGutter({ openText: "▾", closedText: "▸" }),
        MARKS,
        drawSelection(),
        highlightSpecialChars(),
        history(),
        search({ top: true }),
        keymap.of([...searchKeymap, ...historyKeymap, ...foldKeymap, ...defaultKeymap]),
        json(),
        syntaxHighlighting(COLOURS),
        placeholder(hint),
        THEME,
        EditorView.updateListener.of((update) => {
          if (update.docChanged) this.#changed();
          else if (update.selectionSet && update.view.hasFocus) oncaret(this.caret, false);
          this.#nameFolder();
        }),
        this.#pointing(oncaret),
      ],
    });
  }
  get text() {
    this.#text ??= this.#view.state.doc.toString();
    return this.#text;
  }

  /** Another text, in which nothing is folded or marked. The caret stays where it is, as far as that is there. */
  set text(text) {
    // A link may hold anything.
    const insert = String(text);
    if (insert === this.text) return;
    const { state } = this.#view;
    const caret = Math.min(state.selection.main.head, insert.length);
    this.#isGiven = true;
    this.#view.dispatch({
      changes: { from: 0, to: state.doc.length, insert },
      selection: { anchor: caret },
      effects: setMarks.of({ lit: null, wrong: null }),
    });
    this.#isGiven = false;
  }

  get caret() {
    return this.#view.state.selection.main.head;
  }

  #changed() {
    this.#text = null;
    const { doc } = this.#view.state;
    this.folder.hidden = doc.lines < 3;
    clearTimeout(this.#later);
    this.#later = undefined;
    if (this.#isGiven) return;
    this.#later = setTimeout(() => this.#handOn(), PAUSE);
    if (doc.length <= LONG) this.#handOn();
  }

  /** Tells of what was typed, unless that was done. */
  #handOn() {
    if (this.#later === undefined) return;
    clearTimeout(this.#later);
    this.#later = undefined;
    this.#oninput(this.text);
  }

  find() {
    openSearchPanel(this.#view);
  }

  // Folds.

  get #isFolded() {
    return foldedRanges(this.#view.state).size > 0;
  }

  #nameFolder() {
    this.folder.textContent = this.#isFolded ? "Unfold" : "Fold";
  }

  /** Folds the items of lists, so that the outline is left; or opens all that is folded. */
  #foldOrOpen() {
    const { state } = this.#view;
    if (this.#isFolded) unfoldAll(this.#view);
    else this.#view.dispatch({ effects: items(state).map((place) => foldEffect.of(place)) });
  }

  /** Puts a place in sight if it is folded away. */
  #open(/** @type {Place | null} */ place) {
    if (!place) return;
    /** @type {ReturnType<typeof unfoldEffect.of>[]} */
    const effects = [];
    foldedRanges(this.#view.state).between(place[0], place[0], (from, to) => {
      if (from <= place[0] && place[0] < to) effects.push(unfoldEffect.of({ from, to }));
    });
    if (effects.length) this.#view.dispatch({ effects });
  }

  // Places.

  #reveal(/** @type {number} */ at) {
    const { doc } = this.#view.state;
    const effects = EditorView.scrollIntoView(Math.min(at, doc.length), { y: "nearest", yMargin: 96 });
    this.#view.dispatch({ effects });
  }

  /** Lights a place, `[start, end]`, or none. `scroll` brings it into view. */
  light(/** @type {Place | null} */ place, { scroll = false } = {}) {
    this.#view.dispatch({ effects: setMarks.of({ lit: place }) });
    if (!place || !scroll) return;
    this.#open(place);
    this.#reveal(place[0]);
  }

  /** Marks a place as wrong, in sight. */
  mark(/** @type {Place | null} */ place) {
    this.#open(place);
    this.#view.dispatch({ effects: setMarks.of({ wrong: place }) });
  }

  /** Puts the caret at a character, and the keyboard here. */
  focus(/** @type {number} */ offset) {
    this.#open([offset, offset]);
    this.#view.dispatch({ selection: { anchor: Math.min(offset, this.#view.state.doc.length) } });
    this.#view.focus();
    this.#reveal(offset);
  }

  /** The place of a character: its line, and in JSON the path to it. */
  whereabouts(/** @type {number} */ offset) {
    const { state } = this.#view;
    const line = `line ${state.doc.lineAt(Math.min(offset, state.doc.length)).number}`;
    const path = pathTo(state, offset);
    return path ? `${line} · ${path}` : line;
  }

  #pointing(/** @type {(offset: number | null, isPointer: boolean) => void} */ oncaret) {
    let line = -1;
    return EditorView.domEventHandlers({
      pointermove: ({ clientX: x, clientY: y }, view) => {
        const now = view.state.doc.lineAt(view.posAtCoords({ x, y }, false));
        if (now.number === line) return;
        line = now.number;
        // The last character of a line that belongs to a value: that line's value is there.
        const text = view.state.sliceDoc(Math.max(now.from, now.to - LONGEST_TAIL), now.to);
        oncaret(now.to - text.length + text.replace(/[\s,]+$/, "").length, true);
      },
      pointerleave: () => {
        line = -1;
        oncaret(null, true);
      },
      blur: () => this.#handOn(),
    });
  }
}

/**
 * The objects in the outermost lists, each without its braces.
 * @param {EditorState} state
 */
function items(state) {
  /** @type {{ from: number, to: number }[]} */
  const found = [];
  ensureSyntaxTree(state, state.doc.length, READING)?.iterate({
    enter({ name, from, to, node }) {
      if (name !== "Object" || node.parent?.name !== "Array") return true;
      const isLong = state.doc.lineAt(from).number < state.doc.lineAt(to).number;
      if (isLong) found.push({ from: from + 1, to: to - 1 });
      return !isLong;
    },
  });
  return found;
}

/**
 * The path of the innermost value around an offset, empty where that is not known: of a text that is
 * no JSON, or that is too long to be read for this.
 * @param {EditorState} state
 * @param {number} offset
 */
function pathTo(state, offset) {
  const tree = ensureSyntaxTree(state, Math.min(offset + 1, state.doc.length), READING);
  let path = "";
  for (let node = tree?.resolveInner(offset, 1) ?? null; node; node = node.parent) {
    const name = node.name === "Property" ? node.getChild("PropertyName") : null;
    if (name) path = `.${written(state.sliceDoc(name.from, name.to))}${path}`;
    if (node.parent?.name !== "Array" || BRACKETS.includes(node.name)) continue;
    let n = 0;
    for (let one = node.prevSibling; one; one = one.prevSibling) if (!BRACKETS.includes(one.name)) n++;
    path = `[${n}]${path}`;
  }
  return path.replace(/^\./, "");
}

// The nodes of a list that are not items.
const BRACKETS = ["[", "]", ",", "⚠"];
const LONGEST_TAIL = 1000;

/** @param {string} name */
const written = (name) => name.replace(/^"|"$/g, "");

/**
 * The folded text, shortened, and whether something in it is wrong.
 * @param {EditorState} state
 * @param {{ from: number, to: number }} range
 */
function summary(state, { from, to }) {
  const text = state.sliceDoc(from, Math.min(to, from + 4 * MOST_SUMMARY)).replace(/\s+/g, " ").trim();
  const { wrong } = state.field(MARKS);
  const isWrong = wrong !== null && from <= wrong[0] && wrong[0] < to;
  return { words: text.length > MOST_SUMMARY ? `${text.slice(0, MOST_SUMMARY)}…` : text, isWrong };
}

/**
 * @param {EditorView} _view
 * @param {(event: Event) => void} onclick
 * @param {{ words: string, isWrong: boolean }} prepared
 */
const foldedMark = (_view, onclick, { words, isWrong }) =>
  element("span", { className: isWrong ? "cm-foldPlaceholder hides-wrong" : "cm-foldPlaceholder", title: "Unfold", onclick }, `⋯ ${words}`);
