// A text area with line numbers, in which places can be lit. The lines are drawn a second time
// behind it: that gives numbers that follow wrapped lines, and something that places can be marked in
// and that has colours (CSS highlights: painting only, no layout). Where the browser has those, the
// text that is seen is that of the lines; elsewhere it is that of the text area.

import { element } from "./dom.js";
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
  #starts = [0];
  /** @type {string[]} */
  #shown = [];
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
        this.#draw();
        oninput(this.#area.value);
      },
    });
    this.#area.setAttribute("autocorrect", "off");
    for (const event of ["keyup", "click"])
      this.#area.addEventListener(event, () => oncaret(this.#area.selectionStart, false));
    this.#area.addEventListener("keydown", (event) => {
      if (event.key !== "f" || !(event.ctrlKey || event.metaKey) || event.shiftKey) return;
      event.preventDefault();
      onfind();
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
      element("div", { className: "sheet" }, this.#lines, this.#area),
    );
  }

  get text() {
    return this.#area.value;
  }

  get caret() {
    return this.#area.selectionStart;
  }

  get selected() {
    return this.#area.value.slice(this.#area.selectionStart, this.#area.selectionEnd);
  }

  /** Another text. The caret stays where it is, as far as that is there. */
  set text(text) {
    if (text === this.#area.value) return;
    this.#area.value = text;
    this.#draw();
  }

  /** Draws the lines that have changed: not those before them, nor those after. */
  #draw() {
    const lines = this.#area.value.split("\n");
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
    this.#starts = [];
    let at = 0;
    for (const line of lines) {
      this.#starts.push(at);
      at += line.length + 1;
    }
    // Of both, the lines and what is typed in: their text must stand in the same place.
    this.root.style.setProperty("--digits", String(String(lines.length).length));
    this.#colours?.paint(isColourable(lines) ? this.#lines.children : []);
    this.light(null);
    this.mark(null);
    this.showHits([], -1);
  }

  /** Lights a place, `[start, end]`, or none. `scroll` brings it into view. */
  light(/** @type {Place | null} */ place, { scroll = false } = {}) {
    this.#highlight(LIT, place, scroll);
  }

  /** Marks a place as wrong. */
  mark(/** @type {Place | null} */ place) {
    this.#highlight(WRONG, place, false);
  }

  /**
   * Marks what was found, and the chosen of it, which `scroll` brings into view.
   * @param {Place[]} hits
   * @param {number} chosen
   */
  showHits(hits, chosen, { scroll = false } = {}) {
    if (!window.CSS?.highlights) return;
    const found = new Highlight(...hits.map((hit) => this.#range(hit)));
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

  #range(/** @type {Place} */ place) {
    const range = new Range();
    range.setStart(...this.#point(place[0]));
    range.setEnd(...this.#point(Math.max(place[1], place[0] + 1)));
    return range;
  }

  /**
   * The node and offset of a character, by binary search among the lines.
   * @param {number} offset
   * @returns {[Text, number]}
   */
  #point(offset) {
    let [low, high] = [0, this.#starts.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#starts[middle] <= offset) low = middle;
      else high = middle - 1;
    }
    const node = /** @type {Text} */ (this.#lines.children[low].firstChild);
    return [node, Math.max(0, Math.min(offset - this.#starts[low], node.length))];
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
    return this.#starts[line] + this.#shown[line].replace(/[\s,]+$/, "").length;
  }

  #reveal(/** @type {Range} */ range) {
    const place = range.getBoundingClientRect();
    const frame = this.root.getBoundingClientRect();
    if (place.top >= frame.top && place.bottom <= frame.bottom) return;
    this.root.scrollTop += place.top - frame.top - frame.height / 3;
  }

  /** Puts the caret at a character, and the keyboard here. */
  focus(/** @type {number} */ offset) {
    this.#area.focus({ preventScroll: true });
    this.#area.setSelectionRange(offset, offset);
    this.#reveal(this.#range([offset, offset + 1]));
  }

  /** Selects a place, if there is one, and puts the keyboard here. */
  select(/** @type {Place | null} */ place) {
    this.#area.focus({ preventScroll: true });
    if (place) this.#area.setSelectionRange(...place);
  }
}
