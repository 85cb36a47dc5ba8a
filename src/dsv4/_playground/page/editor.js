// A text area with line numbers, in which places can be lit. The lines are drawn a second time
// behind it: that gives numbers that follow wrapped lines, and something that places can be marked in
// and that has colours (CSS highlights: painting only, no layout). Where the browser has those, the
// text that is seen is that of the lines; elsewhere it is that of the text area. Where lines are
// folded, both have those that are left; places are always those of the whole text.

import { button, element } from "./dom.js";
import { FoldButtons } from "./foldbuttons.js";
import { FoldedText } from "./folding.js";
import { JsonColours, isColourable } from "./jsoncolours.js";

/** @typedef {import("./types.js").Place} Place */

const LIT = "json-lit";
const WRONG = "json-wrong";
const HIT = "json-hit";
const CHOSEN_HIT = "json-hit-chosen";

/**
 * `oninput(text)` is called as somebody types. `oncaret(offset, isPointer)` is called when the caret
 * has moved, or with `isPointer` when the pointer is over a line; null when it has left. `onfind()` is
 * called when somebody wants to find something.
 */
export class Editor {
  #area;
  #lines;
  #folded = new FoldedText("");
  #buttons;
  /** @type {string[]} */
  #shown = [];
  /** @type {{ lit: Place | null, wrong: Place | null, hits: Place[], chosen: number }} */
  #marked = { lit: null, wrong: null, hits: [], chosen: -1 };
  #colours = window.CSS?.highlights ? new JsonColours() : null;

  /**
   * @param {{
   *   label: string,
   *   oninput: (text: string) => void,
   *   oncaret: (offset: number | null, isPointer: boolean) => void,
   *   onfind: () => void,
   * }} options
   */
  constructor({ label, oninput, oncaret, onfind }) {
    this.#lines = element("div", { className: "lines", "aria-hidden": "true" });
    this.#area = element("textarea", {
      "aria-label": label,
      spellcheck: false,
      autocomplete: "off",
      autocapitalize: "off",
      oninput: () => {
        this.#take(this.#folded.edited(this.#area.value));
        oninput(this.text);
      },
    });
    this.#area.setAttribute("autocorrect", "off");
    for (const event of ["keyup", "click"])
      this.#area.addEventListener(event, () => oncaret(this.caret, false));
    for (const event of /** @type {const} */ (["copy", "cut"]))
      this.#area.addEventListener(event, (copied) => this.#copyWhole(copied));
    this.#area.addEventListener("keydown", (event) => {
      if (!(event.ctrlKey || event.metaKey)) return;
      if (event.key === "f" && !event.shiftKey) onfind();
      else if (event.code === "BracketLeft" && event.shiftKey) this.#foldAtCaret(true);
      else if (event.code === "BracketRight" && event.shiftKey) this.#foldAtCaret(false);
      else return;
      event.preventDefault();
    });
    this.#buttons = new FoldButtons(this.#lines, (head) => this.#fold(this.#folded.toggled(head)));
    this.folder = button("Fold", () => {
      const isFolded = this.#folded.folds.size > 0;
      this.#fold(isFolded ? this.#folded.withFolds([]) : this.#folded.outlined());
    });
    let line = -1;
    this.#area.addEventListener("pointermove", (event) => {
      const now = this.#lineAt(event.clientY);
      if (now === line) return;
      line = now;
      oncaret(this.#endOf(line), true);
    });
    this.#area.addEventListener("pointerleave", () => {
      line = -1;
      oncaret(null, true);
    });
    this.root = element(
      "div",
      { className: this.#colours ? "editor coloured" : "editor" },
      element("div", { className: "sheet" }, this.#lines, this.#area, this.#buttons.root),
    );
  }

  get text() {
    return this.#folded.text;
  }

  get caret() {
    return this.#folded.toText(this.#area.selectionStart);
  }

  get selected() {
    return this.#area.value.slice(this.#area.selectionStart, this.#area.selectionEnd);
  }

  /** Another text, in which nothing is folded. The caret stays where it is, as far as that is there. */
  set text(text) {
    // A link may hold anything.
    const given = String(text);
    if (given !== this.text) this.#take(new FoldedText(given));
  }

  /** Shows another text. */
  #take(/** @type {FoldedText} */ folded) {
    const caret = this.#folded.folds.size ? this.#area.selectionStart : null;
    this.#marked = { lit: null, wrong: null, hits: [], chosen: -1 };
    this.#folded = folded;
    if (this.#area.value !== folded.shownText) {
      this.#area.value = folded.shownText;
      if (caret !== null) this.#area.setSelectionRange(caret, caret);
    }
    this.#draw();
  }

  /** Shows the same text with other lines folded. The caret stays in its line. */
  #fold(/** @type {FoldedText} */ folded) {
    const before = this.#folded;
    const places = [this.#area.selectionStart, this.#area.selectionEnd];
    const [start, end] = places.map((place) => folded.toShown(before.toText(place)));
    this.#folded = folded;
    this.#area.value = folded.shownText;
    this.#area.setSelectionRange(start, end);
    this.#draw();
  }

  /** Folds what is around the caret, or opens what is folded in its line. */
  #foldAtCaret(/** @type {boolean} */ isFolding) {
    const head = this.#folded.around(this.caret);
    if (head !== null && this.#folded.folds.has(head) !== isFolding)
      this.#fold(this.#folded.toggled(head));
  }

  /** Puts a place in sight if it is folded away. */
  #open(/** @type {Place | null} */ place) {
    if (place && this.#folded.isHidden(place[0])) this.#fold(this.#folded.openedAt(place[0]));
  }

  /** What is copied has the lines that are folded away in it. */
  #copyWhole(/** @type {ClipboardEvent} */ event) {
    const { selectionStart, selectionEnd } = this.#area;
    if (!this.#folded.folds.size || selectionStart === selectionEnd) return;
    const [start, end] = [selectionStart, selectionEnd].map((at) => this.#folded.toText(at));
    event.clipboardData?.setData("text/plain", this.text.slice(start, end));
    event.preventDefault();
    if (event.type === "cut") document.execCommand("delete");
  }

  /** Draws the lines that have changed: not those before them, nor those after. */
  #draw() {
    const lines = this.#folded.shownLines;
    const old = this.#shown;
    let from = 0;
    while (from < lines.length && from < old.length && lines[from] === old[from]) from++;
    let same = 0;
    while (
      same < Math.min(lines.length, old.length) - from &&
      lines[lines.length - 1 - same] === old[old.length - 1 - same]
    )
      same++;
    for (let n = old.length - same - 1; n >= from; n--) this.#lines.children[n].remove();
    const made = lines.slice(from, lines.length - same);
    const before = this.#lines.children[from] ?? null;
    const fresh = document.createDocumentFragment();
    for (const line of made) fresh.append(element("div", {}, line || "\u200b"));
    this.#lines.insertBefore(fresh, before);
    this.#shown = lines;
    this.#number();
    // Of both, the lines and what is typed in: their text must stand in the same place.
    this.root.style.setProperty("--digits", String(String(this.#folded.lines.length).length));
    this.#colours?.paint(isColourable(lines) ? this.#lines.children : []);
    this.#buttons.draw(this.#folded);
    this.folder.hidden = !this.#folded.foldable.size;
    this.folder.textContent = this.#folded.folds.size ? "Unfold" : "Fold";
    this.#paint();
  }

  /** The lines are counted by the browser: where some are folded, by more than one. */
  #number() {
    const { folds, shown } = this.#folded;
    const lines = /** @type {HTMLCollectionOf<HTMLElement>} */ (this.#lines.children);
    const isPlain = !folds.size && !this.#lines.querySelector(".folded, .counted");
    if (isPlain) return;
    shown.forEach((line, n) => {
      const by = n ? line - shown[n - 1] : 1;
      lines[n].classList.toggle("counted", by > 1);
      lines[n].style.setProperty("--by", String(by));
      lines[n].classList.toggle("folded", folds.has(line));
      if (folds.has(line)) lines[n].dataset.summary = ` ⋯ ${this.#folded.summary(line)}`;
    });
  }

  /** Marks what is marked, where its lines are now. */
  #paint() {
    const { lit, wrong, hits, chosen } = this.#marked;
    this.#highlight(LIT, lit, false);
    this.#paintWrong(wrong);
    this.#paintHits(hits, chosen, false);
  }

  /** Lights a place, `[start, end]`, or none. `scroll` brings it into view. */
  light(/** @type {Place | null} */ place, { scroll = false } = {}) {
    this.#marked.lit = place;
    if (scroll) this.#open(place);
    this.#highlight(LIT, place, scroll);
  }

  /** Marks a place as wrong, in sight. */
  mark(/** @type {Place | null} */ place) {
    this.#marked.wrong = place;
    this.#open(place);
    this.#paintWrong(place);
  }

  /** Where somebody folds a wrong place away again, the line that is left is marked. */
  #paintWrong(/** @type {Place | null} */ place) {
    this.#highlight(WRONG, place, false);
    for (const line of this.#lines.querySelectorAll(".hides-wrong")) line.classList.remove("hides-wrong");
    if (place && this.#folded.isHidden(place[0]))
      this.#lines.children[this.#folded.lineAt(place[0])].classList.add("hides-wrong");
  }

  /**
   * Marks what was found, and the chosen of it, which `scroll` brings into view.
   * @param {Place[]} hits
   * @param {number} chosen
   */
  showHits(hits, chosen, { scroll = false } = {}) {
    Object.assign(this.#marked, { hits, chosen });
    if (scroll) this.#open(hits[chosen] ?? null);
    this.#paintHits(hits, chosen, scroll);
  }

  /**
   * @param {Place[]} hits
   * @param {number} chosen
   * @param {boolean} scroll
   */
  #paintHits(hits, chosen, scroll) {
    if (!window.CSS?.highlights) return;
    const seen = hits.filter(([start]) => !this.#folded.isHidden(start));
    const found = new Highlight(...seen.map((hit) => this.#range(hit)));
    found.priority = 1;
    CSS.highlights.set(HIT, found);
    this.#highlight(CHOSEN_HIT, hits[chosen] ?? null, scroll, 2);
  }

  /**
   * @param {string} name
   * @param {Place | null} place
   * @param {boolean} scroll
   */
  #highlight(name, place, scroll, priority = 0) {
    if (!window.CSS?.highlights) return;
    CSS.highlights.delete(name);
    if (!place) return;
    const range = this.#range(place);
    const made = new Highlight(range);
    made.priority = priority;
    CSS.highlights.set(name, made);
    if (scroll) this.#reveal(range);
  }

  /**
   * What is seen of a place: of one that is folded away, the line that hides it; of the end of a
   * line, the character before.
   * @param {Place} place
   */
  #range(place) {
    const [node, start] = this.#point(place[0]);
    const [last, end] = this.#point(Math.max(place[1] - 1, place[0]));
    const range = new Range();
    range.setStart(node, start);
    range.setEnd(last, Math.min(end + 1, last.length));
    if (!range.collapsed) return range;
    const isHidden = this.#folded.isHidden(place[0]);
    range.setStart(node, isHidden ? node.data.search(/\S/) : Math.max(0, start - 1));
    return range;
  }

  /**
   * The node and offset of a character; of one that is folded away, the end of the line before.
   * @param {number} offset
   * @returns {[Text, number]}
   */
  #point(offset) {
    const line = this.#folded.lineAt(offset);
    const node = /** @type {Text} */ (this.#lines.children[line].firstChild);
    return [node, Math.max(0, Math.min(offset - this.#folded.starts[line], node.length))];
  }

  /** The line at a height of the window, by binary search. */
  #lineAt(/** @type {number} */ y) {
    const lines = this.#lines.children;
    let [low, high] = [0, lines.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (lines[middle].getBoundingClientRect().top <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The last character of a line that belongs to a value: that line's value is there. */
  #endOf(/** @type {number} */ line) {
    return this.#folded.starts[line] + this.#shown[line].replace(/[\s,]+$/, "").length;
  }

  #reveal(/** @type {Range} */ range) {
    const place = range.getBoundingClientRect();
    const frame = this.root.getBoundingClientRect();
    if (place.top >= frame.top && place.bottom <= frame.bottom) return;
    this.root.scrollTop += place.top - frame.top - frame.height / 3;
  }

  /** Puts the caret at a character, and the keyboard here. */
  focus(/** @type {number} */ offset) {
    this.#open([offset, offset]);
    const caret = this.#folded.toShown(offset);
    this.#area.focus({ preventScroll: true });
    this.#area.setSelectionRange(caret, caret);
    this.#reveal(this.#range([offset, offset + 1]));
  }

  /** Selects a place, if there is one, and puts the keyboard here. */
  select(/** @type {Place | null} */ place) {
    this.#open(place);
    this.#area.focus({ preventScroll: true });
    if (!place) return;
    const [start, end] = place.map((offset) => this.#folded.toShown(offset));
    this.#area.setSelectionRange(start, end);
  }
}
