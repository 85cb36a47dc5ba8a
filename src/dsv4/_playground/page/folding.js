// A text of which some lines are folded away. JSON is folded from a line that opens a list or an
// object to the line that closes it; both of these stay. What is shown may be edited: the text
// follows, and a fold that the edit touches opens, so that nothing goes unseen.

import { commonEnds } from "./pairing.js";
import { isColourable } from "./jsoncolours.js";

const STRINGS = /"(?:[^"\\]|\\.?)*(?:"|$)/g;
const MOST_SUMMARY = 60;

/**
 * The lines that something can be folded behind, each with the line that closes it. It need not be
 * valid JSON: somebody may be typing.
 * @param {string[]} lines
 * @returns {Map<number, number>}
 */
export function foldableLines(lines) {
  /** @type {[number, string, boolean][]} */
  const open = [];
  /** @type {[number, number][]} */
  const found = [];
  lines.forEach((line, number) => {
    const bare = line.replace(STRINGS, "").trim();
    [...bare].forEach((sign, at) => {
      if (sign === "{" || sign === "[") open.push([number, sign, at === bare.length - 1]);
      if (sign !== "}" && sign !== "]") return;
      const [head, opener, isLast] = open.pop() ?? [0, "", false];
      const fits = opener === (sign === "}" ? "{" : "[");
      if (fits && isLast && at === 0 && number > head + 1) found.push([head, number]);
    });
  });
  return new Map(found.sort(([a], [b]) => a - b));
}

export class FoldedText {
  /**
   * @param {string} text
   * @param {Iterable<number>} folds the lines that are folded; those that cannot be are not
   */
  constructor(text, folds = []) {
    this.text = text;
    this.lines = text.split("\n");
    this.foldable = isColourable(this.lines) ? foldableLines(this.lines) : new Map();
    this.folds = new Set([...folds].filter((head) => this.foldable.has(head)));
    /** @type {number[]} The numbers of the lines that are shown. */
    this.shown = [];
    for (let line = 0; line < this.lines.length; line++) {
      this.shown.push(line);
      if (this.folds.has(line)) line = this.#tail(line) - 1;
    }
    this.shownLines = this.shown.map((line) => this.lines[line]);
    this.shownText = this.folds.size ? this.shownLines.join("\n") : text;
    const starts = startsOf(this.lines);
    /** Where each shown line begins: in the text, and in what is shown. */
    this.starts = this.shown.map((line) => starts[line]);
    this.shownStarts = startsOf(this.shownLines);
  }

  /** @param {number} head */
  #tail(head) {
    return this.foldable.get(head) ?? head;
  }

  /** Whether lines are folded away behind a line that is shown. @param {number} line */
  isFolded(line) {
    return this.folds.has(this.shown[line]);
  }

  /**
   * The line of those shown that an offset of the text is in, or that it is folded behind.
   * @param {number} offset
   */
  lineAt(offset) {
    return lastUpTo(this.starts, offset);
  }

  /** Whether an offset of the text is in a line that is folded away. @param {number} offset */
  isHidden(offset) {
    const line = this.lineAt(offset);
    return this.isFolded(line) && offset > this.starts[line] + this.shownLines[line].length;
  }

  /** Where an offset of the text is in what is shown. @param {number} offset */
  toShown(offset) {
    const line = this.lineAt(offset);
    const column = Math.min(offset - this.starts[line], this.shownLines[line].length);
    return this.shownStarts[line] + column;
  }

  /** Where an offset of what is shown is in the text. @param {number} offset */
  toText(offset) {
    const line = lastUpTo(this.shownStarts, offset);
    return this.starts[line] + offset - this.shownStarts[line];
  }

  /** @param {Iterable<number>} folds */
  withFolds(folds) {
    return new FoldedText(this.text, folds);
  }

  /** The same with a line folded, or open if it was. @param {number} head */
  toggled(head) {
    const folds = new Set(this.folds);
    if (!folds.delete(head)) folds.add(head);
    return this.withFolds(folds);
  }

  /** The same with an offset in sight. @param {number} offset */
  openedAt(offset) {
    /** @type {FoldedText} */
    let now = this;
    while (now.isHidden(offset)) now = now.toggled(now.shown[now.lineAt(offset)]);
    return now;
  }

  /** The innermost line that can be folded around an offset of the text, or null. @param {number} offset */
  around(offset) {
    const line = this.shown[this.lineAt(offset)];
    const around = [...this.foldable].filter(([head, tail]) => head <= line && line <= tail);
    return around.at(-1)?.[0] ?? null;
  }

  /** The same with the items of lists folded, so that the outline is left. */
  outlined() {
    let end = -1;
    const items = [...this.foldable].filter(([head, tail]) => {
      if (head <= end || this.lines[head].trim() !== "{" || head === 0) return false;
      end = tail;
      return true;
    });
    return this.withFolds(items.map(([head]) => head));
  }

  /** What is folded away behind a line of the text, in short. @param {number} head */
  summary(head) {
    let found = "";
    for (let line = head + 1; line < this.#tail(head) && found.length < MOST_SUMMARY; line++)
      found += `${this.lines[line].trim()} `;
    return found.length > MOST_SUMMARY ? `${found.slice(0, MOST_SUMMARY)}…` : found.trim();
  }

  /**
   * The text after what is shown was edited. Folds stay, but for those that the edit reaches into.
   * @param {string} shownText
   */
  edited(shownText) {
    if (!this.folds.size) return new FoldedText(shownText);
    const now = shownText.split("\n");
    const [before, after] = commonEnds(this.shownLines, now);
    const gone = this.shown.slice(before, this.shown.length - after);
    const fresh = now.slice(before, now.length - after);
    const from = gone[0] ?? this.shown[before] ?? this.lines.length;
    const to = gone.length ? gone[gone.length - 1] + 1 : from;
    const lines = [...this.lines.slice(0, from), ...fresh, ...this.lines.slice(to)];
    const more = fresh.length - (to - from);
    const isOneLine = gone.length === 1 && fresh.length === 1;
    const folds = [...this.folds].flatMap((head) => {
      const tail = this.#tail(head);
      if (isOneLine && (from === head || from === tail)) return [head];
      if (from > tail) return [head];
      return to <= head ? [head + more] : [];
    });
    return new FoldedText(lines.join("\n"), folds);
  }
}

/**
 * The offset of each line.
 * @param {string[]} lines
 */
function startsOf(lines) {
  let at = 0;
  return lines.map((line) => {
    const start = at;
    at += line.length + 1;
    return start;
  });
}

/**
 * The last of the numbers, which ascend, that is not above a number.
 * @param {number[]} numbers
 * @param {number} most
 */
function lastUpTo(numbers, most) {
  let [low, high] = [0, numbers.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (numbers[middle] <= most) low = middle;
    else high = middle - 1;
  }
  return low;
}
