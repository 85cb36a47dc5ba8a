// Colours for lines of JSON, by CSS highlights: painting only, no elements.

import { lineTokens } from "./jsontext.js";

/** @typedef {import("./jsontext.js").JsonKind} JsonKind */

/** @type {JsonKind[]} */
const KINDS = ["name", "string", "number", "literal"];
// A text of more is shown plain: each token is a range that the browser keeps.
const MOST_LINES = 3_000;
const MOST_CHARACTERS = 300_000;

/**
 * Whether a text is small enough to have colours.
 * @param {string[]} lines
 */
export const isColourable = (lines) =>
  lines.length <= MOST_LINES &&
  lines.reduce((sum, { length }) => sum + length, 0) <= MOST_CHARACTERS;

export class JsonColours {
  #highlights = KINDS.map((kind) => {
    const made = new Highlight();
    CSS.highlights.set(`json-${kind}`, made);
    return made;
  });
  /** @type {Map<Element, [Highlight, StaticRange][]>} */
  #painted = new Map();

  /**
   * Paints the lines that are not painted, and forgets those that are gone.
   * @param {Iterable<Element>} lines
   */
  paint(lines) {
    const now = new Set(lines);
    for (const [line, ranges] of this.#painted) if (!now.has(line)) this.#forget(line, ranges);
    for (const line of now) if (!this.#painted.has(line)) this.#add(line);
  }

  /**
   * @param {Element} line
   * @param {[Highlight, StaticRange][]} ranges
   */
  #forget(line, ranges) {
    for (const [highlight, range] of ranges) highlight.delete(range);
    this.#painted.delete(line);
  }

  /** @param {Element} line */
  #add(line) {
    const node = /** @type {Text} */ (line.firstChild);
    const made = lineTokens(node.data).map(([kind, startOffset, endOffset]) => {
      const range = new StaticRange({
        startContainer: node,
        startOffset,
        endContainer: node,
        endOffset,
      });
      const highlight = this.#highlights[KINDS.indexOf(kind)];
      highlight.add(range);
      return /** @type {[Highlight, StaticRange]} */ ([highlight, range]);
    });
    this.#painted.set(line, made);
  }
}
