// The buttons beside the lines of a text that fold it. They are one stop of the Tab key: arrow keys
// go from one to the next.

import { button, element } from "./dom.js";

/** @typedef {import("./folding.js").FoldedText} FoldedText */

const STEPS = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };

export class FoldButtons {
  #lines;
  #ontoggle;
  /** @type {FoldedText | null} */
  #folded = null;

  /**
   * @param {Element} lines the elements of the lines, of which the buttons take their places
   * @param {(head: number) => void} ontoggle
   */
  constructor(lines, ontoggle) {
    this.#lines = lines;
    this.#ontoggle = ontoggle;
    this.root = element("div", { className: "folds", role: "group", "aria-label": "Folds" });
    this.root.addEventListener("keydown", (event) => this.#pressed(event));
    new ResizeObserver(() => this.#place()).observe(lines);
  }

  get #buttons() {
    return /** @type {HTMLElement[]} */ ([...this.root.children]);
  }

  /** Draws them for a text. @param {FoldedText} folded */
  draw(folded) {
    const focused = document.activeElement?.closest(".folds") === this.root;
    const kept = focused ? /** @type {HTMLElement} */ (document.activeElement).dataset.head : null;
    this.#folded = folded;
    const heads = folded.shown.filter((line) => folded.foldable.has(line));
    this.root.replaceChildren(...heads.map((head) => this.#made(head)));
    this.root.hidden = !heads.length;
    const first = this.#buttons.find(({ dataset }) => dataset.head === kept) ?? this.#buttons[0];
    if (first) first.tabIndex = 0;
    if (focused) first?.focus({ preventScroll: true });
    this.#place();
  }

  /** @param {number} head */
  #made(head) {
    const isFolded = this.#folded?.folds.has(head);
    return button(isFolded ? "▸" : "▾", () => this.#ontoggle(head), {
      "aria-label": `Lines ${head + 1} to ${(this.#folded?.foldable.get(head) ?? head) + 1}`,
      "aria-expanded": String(!isFolded),
      "data-head": String(head),
      tabIndex: -1,
      title: isFolded ? "Unfold (Ctrl+Shift+])" : "Fold (Ctrl+Shift+[)",
    });
  }

  #place() {
    const { shown } = this.#folded ?? { shown: [] };
    /** @type {Map<number, Element>} */
    const lines = new Map();
    shown.forEach((line, n) => {
      lines.set(line, this.#lines.children[n]);
    });
    const tops = this.#buttons.map((one) => {
      const line = lines.get(Number(one.dataset.head));
      return line instanceof HTMLElement ? line.offsetTop : 0;
    });
    this.#buttons.forEach((one, n) => {
      one.style.top = `${tops[n]}px`;
    });
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    const step = STEPS[/** @type {keyof typeof STEPS} */ (event.key)];
    if (step === undefined) return;
    event.preventDefault();
    const buttons = this.#buttons;
    const now = buttons.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const next = Math.max(0, Math.min(buttons.length - 1, now + step));
    buttons[now].tabIndex = -1;
    buttons[next].tabIndex = 0;
    buttons[next].focus();
  }
}
