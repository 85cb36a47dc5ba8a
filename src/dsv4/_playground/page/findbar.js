// Finding text in the request: every hit is marked, and keys go from one to the next.

import { button, element } from "./dom.js";

/** @typedef {import("./types.js").Place} Place */

const MOST_HITS = 2_000;

/**
 * The places of a text, whatever its capitals; at most 2,000.
 * @param {string} text
 * @param {string} sought
 * @returns {Place[]}
 */
export function hitsOf(text, sought) {
  /** @type {Place[]} */
  const hits = [];
  if (!sought) return hits;
  const lower = text.toLowerCase();
  // A few letters have small ones of another length: then capitals matter.
  const isSame = lower.length === text.length;
  const [all, one] = isSame ? [lower, sought.toLowerCase()] : [text, sought];
  for (let at = all.indexOf(one); at >= 0 && hits.length < MOST_HITS; at = all.indexOf(one, at + one.length))
    hits.push([at, at + one.length]);
  return hits;
}

/**
 * The number of the first hit from an offset on, or else the first of all; -1 if there is none.
 * @param {Place[]} hits
 * @param {number} offset
 */
export function hitFrom(hits, offset) {
  const found = hits.findIndex(([start]) => start >= offset);
  return found < 0 && hits.length ? 0 : found;
}

export class FindBar {
  #editor;
  #count = element("output", { className: "faint" });
  /** @type {Place[]} */
  #hits = [];
  #chosen = -1;

  /** @param {import("./editor.js").Editor} editor */
  constructor(editor) {
    this.#editor = editor;
    this.input = element("input", {
      type: "search",
      placeholder: "Find",
      "aria-label": "Find in the request",
      oninput: () => this.#seek(),
    });
    this.root = element(
      "div",
      { className: "find", role: "search", hidden: true },
      this.input,
      button("‹", () => this.#step(-1), { "aria-label": "Previous hit", title: "Shift+Enter" }),
      button("›", () => this.#step(1), { "aria-label": "Next hit", title: "Enter" }),
      this.#count,
      button("Close", () => this.close(), { title: "Escape" }),
    );
    this.root.addEventListener("keydown", (event) => this.#pressed(event));
  }

  open() {
    const { selected } = this.#editor;
    if (selected && !selected.includes("\n")) this.input.value = selected;
    this.root.hidden = false;
    this.input.focus();
    this.input.select();
    this.#seek();
  }

  /** Closes it, and puts the keyboard where the hit was. */
  close() {
    this.root.hidden = true;
    this.#editor.showHits([], -1);
    this.#editor.select(this.#hits[this.#chosen] ?? null);
  }

  /** Looks again in a text that has changed. */
  renew() {
    if (this.root.hidden) return;
    this.#hits = hitsOf(this.#editor.text, this.input.value);
    this.#chosen = Math.min(this.#chosen, this.#hits.length - 1);
    this.#show(false);
  }

  #seek() {
    this.#hits = hitsOf(this.#editor.text, this.input.value);
    this.#chosen = hitFrom(this.#hits, this.#editor.caret);
    this.#show(true);
  }

  /** @param {number} by */
  #step(by) {
    const { length } = this.#hits;
    if (!length) return;
    this.#chosen = (this.#chosen + by + length) % length;
    this.#show(true);
  }

  /** @param {boolean} scroll */
  #show(scroll) {
    const { length } = this.#hits;
    const all = length < MOST_HITS ? String(length) : `${MOST_HITS}+`;
    this.#count.textContent = !this.input.value
      ? ""
      : length
        ? `${this.#chosen + 1} of ${all}`
        : "No hits";
    this.#editor.showHits(this.#hits, this.#chosen, { scroll });
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    if (event.key === "Escape") this.close();
    else if (event.key === "Enter" && event.target === this.input) this.#step(event.shiftKey ? -1 : 1);
    else return;
    event.preventDefault();
  }
}
