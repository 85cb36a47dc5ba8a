// A prompt in rows, or two beside each other: what api/prompt sends, as elements.
//
// Rows that stay the same from one answer to the next keep their elements: after a change in the
// middle of a long conversation only the middle is built again.

import { counted, number } from "./cards.js";
import { button, element, idle } from "./dom.js";
import { commonEnds, innermostPlace, pairedRows, sameRow } from "./pairing.js";
import { drawnImage } from "./pictures.js";

/** @typedef {import("./types.js").Place} Place */
/** @typedef {import("./types.js").Pointing} Pointing */
/** @typedef {import("./types.js").PromptRow} PromptRow */
/** @typedef {import("./types.js").PromptSide} PromptSide */
/** @typedef {import("./types.js").Segment} Segment */

const FIRST_SLICE = 40;
const SLICE = 80;

export class Rows {
  #list;
  /** @type {string[]} */
  #keys = [];
  /** @type {PromptSide[]} */
  #sides = [];
  /** @type {Element[]} */
  #lit = [];
  #turn = 0;
  #tokens = "off";
  /**
   * The row of the answer that an element shows, and the number of its chosen source.
   * @type {WeakMap<Element, { row: number, side: number, chosen: number }>}
   */
  #shown = new WeakMap();

  /**
   * `onpoint(place, how)` is called when the user points at a part that has a place in the source:
   * `how` is "hover", "focus" or "click"; with null when the pointer has left.
   * @param {{ label: string, onpoint: (place: Place | null, how: Pointing) => void }} options
   */
  constructor({ label, onpoint }) {
    this.#list = element("div", { className: "rows dsv4", role: "list", "aria-label": label });
    this.root = this.#list;
    this.onpoint = onpoint;
    this.#list.addEventListener("pointerover", (event) => this.#pointed(event, "hover"));
    this.#list.addEventListener("pointerleave", () => this.#unpointed());
    this.#list.addEventListener("click", (event) => this.#pointed(event, "click"));
    this.#list.addEventListener("keydown", (event) => this.#pressed(event));
    this.#list.addEventListener("focusin", (event) => this.#focused(event));
  }

  /**
   * The row that the user reads: the first one below a height of the window, and its own height.
   * @param {number} height
   */
  reading(height) {
    for (const element of this.#rowElements()) {
      const { top, bottom } = element.getBoundingClientRect();
      const shown = this.#shown.get(element);
      if (bottom > height && shown?.side === 0) return { row: shown.row, top };
    }
    return null;
  }

  /**
   * Shows an answer. Resolves when all of it is there; until then the list is marked as busy. The
   * row that the user was reading is passed to `onkept(element, top)`, to be put back at its height.
   * @param {PromptSide[]} sides
   * @param {string} tokens
   * @param {{ row: number, top: number } | null} reading
   * @param {(element: Element, top: number) => void} onkept
   */
  async show(sides, tokens, reading = null, onkept = () => {}) {
    this.light(null);
    const kept = reading && sameRow(this.#sides[0]?.places ?? [], sides[0]?.places ?? [], reading.row);
    this.#list.setAttribute("aria-busy", "true");
    const pairs = pairedRows(sides);
    const keys = pairs.map((pair) =>
      JSON.stringify(pair.map((n, s) => (n === null ? null : sides[s].rows[n]))),
    );
    if (tokens !== this.#tokens || sides.length !== this.#sides.length) this.#clear();
    this.#tokens = tokens;
    this.#sides = sides;
    const turn = ++this.#turn;
    const [from, same] = commonEnds(this.#keys, keys);
    const old = this.#list.children;
    for (let n = this.#keys.length - same - 1; n >= from; n--) old[n].remove();
    const after = this.#list.children[from] ?? null;
    const stop = pairs.length - same;
    const keptAt = pairs.findIndex(([row]) => row === kept);
    const first = FIRST_SLICE + Math.max(0, keptAt - from);
    for (let at = from, size = first; ; at += size, size = SLICE) {
      const end = Math.min(at + size, stop);
      const fresh = document.createDocumentFragment();
      for (let n = at; n < end; n++) fresh.append(this.#pair(pairs[n]));
      this.#list.insertBefore(fresh, after);
      // Always what is there: another answer may come before this one is complete.
      this.#keys = [...keys.slice(0, end), ...keys.slice(stop)];
      this.#number([...pairs.slice(0, end), ...pairs.slice(stop)]);
      if (at === from && reading && keptAt >= 0) onkept(this.#list.children[keptAt], reading.top);
      if (end >= stop) break;
      await new Promise((resolve) => idle(() => resolve(undefined)));
      if (turn !== this.#turn) return;
    }
    const chosen = this.#list.querySelector('.row[tabindex="0"]');
    if (!chosen) this.#list.querySelector(".row")?.setAttribute("tabindex", "0");
    this.#list.setAttribute("aria-busy", "false");
  }

  /**
   * Notes which row of the answer each element shows: all after a change have moved.
   * @param {(number | null)[][]} pairs
   */
  #number(pairs) {
    /** @type {(number | null)[]} */
    const before = [];
    pairs.forEach((pair, n) => {
      pair.forEach((row, side) => {
        if (row === null) return;
        const cell = this.#list.children[n].children[side];
        this.#shown.set(cell, { row, side, chosen: this.#shown.get(cell)?.chosen ?? 0 });
        const { message } = this.#sides[side].rows[row];
        // A message is named where it begins.
        cell.classList.toggle("opens", message !== before[side]);
        before[side] = message;
      });
    });
  }

  #clear() {
    this.#list.replaceChildren();
    this.#keys = [];
  }

  /** @param {(number | null)[]} pair */
  #pair(pair) {
    const cells = pair.map((row, side) =>
      row === null
        ? element("div", { className: "gap" })
        : this.#row(this.#sides[side].rows[row], this.#sides[side].dialect),
    );
    return element(
      "div",
      { className: pair.length > 1 ? "pair two" : "pair", role: "presentation" },
      cells,
    );
  }

  /**
   * @param {PromptRow} row
   * @param {string} dialect
   */
  #row(row, dialect) {
    const text = element("div", { className: "text" }, this.#segments(row, row.head));
    if (row.fold) text.append(this.#fold(row));
    const name = row.message === null ? "" : `${row.message} ${row.role}`;
    return element(
      "div",
      { className: row.ghost ? "row ghost" : "row", role: "listitem", tabIndex: -1 },
      element(
        "div",
        { className: "label" },
        element("b", { className: row.role }, name),
        element("span", {}, row.field),
        row.tokens !== null &&
          element("span", { className: "count", title: counted(row.tokens, "token") }, number(row.tokens)),
      ),
      text,
      row.images.map((image) => drawnImage(image, dialect)),
      row.note && element("div", { className: "note" }, row.note),
    );
  }

  /**
   * A button that shows the rest of a long row.
   * @param {PromptRow} row
   */
  #fold(row) {
    const rest = element("span", { className: "rest", hidden: true });
    const control = button(
      row.fold,
      () => {
        if (!rest.hasChildNodes()) rest.append(...this.#segments(row, row.rest));
        rest.hidden = !rest.hidden;
        control.setAttribute("aria-expanded", String(!rest.hidden));
      },
      { className: "fold", "aria-expanded": "false" },
    );
    if (row.rest.some(([, , , differs]) => differs)) control.classList.add("differs");
    const made = document.createDocumentFragment();
    made.append(control, rest);
    return made;
  }

  /**
   * @param {PromptRow} row
   * @param {Segment[]} segments
   */
  #segments(row, segments) {
    const carriers = this.#tokens === "ids" ? carriersOf(segments) : new Set();
    return segments.map((segment) => {
      const [text, classes, source, differs, token] = segment;
      const made = element("span", { className: classes });
      if (source >= 0) made.dataset.source = String(source);
      if (differs) made.classList.add("differs");
      if (token >= 0) {
        made.classList.add(token % 2 ? "odd" : "even");
        const ids = row.ids?.[token].join(" ") ?? "";
        made.title = `id ${ids}`;
        made.append(...(carriers.has(segment) ? withIds(text, ids) : [text]));
      } else made.append(text);
      return made;
    });
  }

  // From the prompt to its source.

  /**
   * @param {Event} event
   * @param {Pointing} how
   */
  #pointed(event, how) {
    const row = closest(event, ".row");
    const part = closest(event, "[data-source]");
    if (!row || closest(event, "button")) return;
    if (!part) {
      if (how === "hover") this.#unpointed();
      return;
    }
    this.#light(row, Number(part.dataset.source), how);
  }

  #unpointed() {
    this.light(null);
    this.onpoint(null, "hover");
  }

  /**
   * The places of the source that a row came from, by their number.
   * @param {Element} element
   */
  #placesOf(element) {
    const shown = this.#shown.get(element);
    return (shown && this.#sides[shown.side]?.places[shown.row]) ?? [];
  }

  /** @returns {HTMLElement[]} */
  #rowElements() {
    return [...this.#list.querySelectorAll(".row")].filter((row) => row instanceof HTMLElement);
  }

  /** @param {Element} row */
  #chosenIn(row) {
    return this.#shown.get(row)?.chosen ?? 0;
  }

  /**
   * @param {Element} row
   * @param {number} source
   * @param {Pointing} how
   */
  #light(row, source, how) {
    const place = this.#placesOf(row)[source];
    if (!place) return this.#unpointed();
    this.light(place);
    this.onpoint(place, how);
  }

  /**
   * Arrows go from row to row, and from part to part of a row; Enter goes to the source.
   * @param {KeyboardEvent} event
   */
  #pressed(event) {
    const row = closest(event, ".row");
    if (!row || event.target !== row) return;
    const rows = this.#rowElements();
    const at = rows.indexOf(row);
    /** @type {Record<string, number>} */
    const jumps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 };
    /** @type {Record<string, number>} */
    const steps = { ArrowRight: 1, ArrowLeft: -1 };
    const [to, step] = [jumps[event.key], steps[event.key]];
    if (to !== undefined) rows[Math.max(0, Math.min(to, rows.length - 1))].focus();
    else if (step !== undefined) this.#step(row, step);
    else if (event.key === "Enter") this.#light(row, this.#chosenIn(row), "click");
    else return;
    event.preventDefault();
  }

  /**
   * @param {Element} row
   * @param {number} step
   */
  #step(row, step) {
    const shown = this.#shown.get(row);
    const count = this.#placesOf(row).length;
    if (!shown || !count) return;
    shown.chosen = (shown.chosen + step + count) % count;
    this.#light(row, shown.chosen, "focus");
  }

  /** @param {Event} event */
  #focused(event) {
    const row = closest(event, ".row");
    if (!row) return;
    for (const other of this.#rowElements()) if (other.tabIndex === 0) other.tabIndex = -1;
    row.tabIndex = 0;
    if (event.target === row) this.#light(row, this.#chosenIn(row), "focus");
  }

  // From the source to the prompt.

  /**
   * Lights everything that came from a place of the source, or nothing. `scroll` brings the first of
   * it into view; gently, only as far as is needed.
   * @param {Place | null} place
   */
  light(place, { scroll = false, isGentle = false } = {}) {
    for (const part of this.#lit) part.classList.remove("lit");
    this.#lit = [];
    if (!place) return;
    for (const row of this.#rowElements()) {
      this.#placesOf(row).forEach((one, source) => {
        if (!one || one[0] < place[0] || one[1] > place[1]) return;
        this.#lit.push(...row.querySelectorAll(`[data-source="${source}"]`));
      });
    }
    for (const part of this.#lit) part.classList.add("lit");
    const block = isGentle ? "nearest" : "center";
    if (scroll) this.#lit[0]?.scrollIntoView({ block, behavior: "auto" });
  }

  /**
   * The innermost place that holds a character of the source, or null.
   * @param {number} offset
   */
  placeAt(offset) {
    return innermostPlace(this.#sides, offset);
  }
}

/**
 * The element around what an event is about, or null.
 * @param {Event} event
 * @param {string} selector
 * @returns {HTMLElement | null}
 */
const closest = (event, selector) =>
  event.target instanceof Element ? event.target.closest(selector) : null;

/**
 * The segments that show ids of tokens: the last of each token that is not a line break. After a
 * break the ids would seem to belong to the next line.
 * @param {Segment[]} segments
 */
function carriersOf(segments) {
  /** @type {Map<number, Segment>} */
  const found = new Map();
  for (const segment of segments) {
    const [text, , , , token] = segment;
    if (token >= 0 && (!found.has(token) || text.trimEnd() || !text.includes("\n"))) found.set(token, segment);
  }
  return new Set(found.values());
}

/**
 * A text and its ids, which are placed before the line breaks at its end. A single space gets a
 * sign, so that its ids are beside something visible.
 * @param {string} text
 * @param {string} ids
 */
function withIds(text, ids) {
  const shown = text.replace(/\n+$/, "");
  const marked = { className: text === " " ? "blank" : "", "data-ids": ids };
  return [element("span", marked, shown), text.slice(shown.length)];
}
