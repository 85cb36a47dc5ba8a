// The parser's states, as a diagram in which the current one is lit. Each is explained when it is
// pointed at or has the keyboard, which arrows lead from state to state.

import { element } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
// The column and row of each state. States that a good completion passes are in the middle.
/** @type {Record<string, [number, number]>} */
const PLACES = {
  STRAY: [0, 0], FENCED: [1, 0], JUNK: [2, 0], REMARK: [3, 0],
  ORPHANS: [0, 1], PROSE: [1, 1], BLOCK: [2, 1], INVOKE: [3, 1],
  ROLE: [0, 2], PLAIN: [1, 2], BROKEN: [2, 2], VALUE: [3, 2],
  INVENTED: [0, 3], NATIVE: [1, 3], AFTER: [2, 3], JSON: [3, 3],
  HALTED: [0, 4], LOST: [1, 4], NAMED: [2, 4], NESTED: [3, 4],
};
const [COLUMNS, ROWS] = [4, 5];
const [WIDTH, HEIGHT, WIDE, HIGH] = [124, 62, 88, 28];
/** @type {Record<string, [number, number]>} */
const ARROWS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
const EXPLAINED = "state-explained";

/**
 * The state that a key leads to: the neighbour, where there is one.
 * @param {string} name
 * @param {string} key
 */
export function neighbour(name, key) {
  const [column, row] = PLACES[name] ?? [0, 0];
  const [right, down] = ARROWS[key] ?? [0, 0];
  const found = Object.entries(PLACES).find(([, [x, y]]) => x === column + right && y === row + down);
  return found?.[0] ?? name;
}

/**
 * An element of SVG.
 * @template {keyof SVGElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} children
 * @returns {SVGElementTagNameMap[Name]}
 */
function drawn(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/**
 * The middle of a state's box.
 * @param {string} name
 * @returns {[number, number]}
 */
const middle = (name) => {
  const [column, row] = PLACES[name] ?? [0, 0];
  return [column * WIDTH + WIDTH / 2, row * HEIGHT + HEIGHT / 2];
};

/**
 * The point at which a line from one point to another leaves the box around the first.
 * @param {[number, number]} from
 * @param {[number, number]} to
 */
function border([x, y], [toX, toY]) {
  const [dx, dy] = [toX - x, toY - y];
  const scale = Math.min(
    (WIDE / 2 + 3) / Math.max(Math.abs(dx), 0.001),
    (HIGH / 2 + 3) / Math.max(Math.abs(dy), 0.001),
  );
  return [x + dx * scale, y + dy * scale];
}

/**
 * A line between two states, bent to its left, so that there and back are two lines.
 * @param {string} from
 * @param {string} to
 */
function path(from, to) {
  const [a, b] = [middle(from), middle(to)];
  const [dx, dy] = [b[0] - a[0], b[1] - a[1]];
  const length = Math.hypot(dx, dy);
  // One that would run through the box between goes around it.
  const skips = Math.max(Math.abs(dx) / WIDTH, Math.abs(dy) / HEIGHT) > 1.5 && (!dx || !dy);
  const bend = skips ? (dx ? 38 : 62) : 9;
  /** @type {[number, number]} */
  const turn = [(a[0] + b[0]) / 2 + (dy / length) * bend, (a[1] + b[1]) / 2 - (dx / length) * bend];
  const [start, end] = [border(a, turn), border(b, turn)];
  return `M${start.map(Math.round)} Q${turn.map(Math.round)} ${end.map(Math.round)}`;
}

export class Diagram {
  /** @type {Map<string, SVGGElement>} */
  #nodes = new Map();
  /** @type {Map<string, string>} */
  #words = new Map();
  /** @type {{ from: string, to: string, line: SVGPathElement }[]} */
  #lines = [];
  #svg;
  #tip = element("p", { id: EXPLAINED, className: "tip", role: "tooltip", hidden: true });

  /**
   * @param {import("./types.js").ParserState[]} states
   * @param {[string, string][]} moves
   */
  constructor(states, moves) {
    const tip = drawn("marker", {
      id: "state-tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7,
      orient: "auto-start-reverse",
    }, drawn("path", { d: "M0 0 L8 4 L0 8 z" }));
    for (const [from, to] of moves) {
      const line = drawn("path", { d: path(from, to), class: "move" });
      this.#lines.push({ from, to, line });
    }
    for (const { name, words } of states) {
      this.#words.set(name, words);
      this.#nodes.set(name, this.#node(name));
    }
    this.#svg = drawn(
      "svg",
      { class: "diagram", viewBox: `0 0 ${COLUMNS * WIDTH} ${ROWS * HEIGHT}`, role: "group" },
      drawn("defs", {}, tip),
      ...this.#lines.map(({ line }) => line),
      ...this.#nodes.values(),
    );
    this.root = element("div", { className: "explained" }, this.#svg, this.#tip);
    this.root.addEventListener("pointerleave", () => this.#explain(null));
    this.root.addEventListener("keydown", (event) => this.#pressed(event));
  }

  /** @param {string} name */
  #node(name) {
    const [x, y] = middle(name);
    const box = { x: x - WIDE / 2, y: y - HIGH / 2, width: WIDE, height: HIGH, rx: 7 };
    const node = drawn(
      "g", { class: "state", role: "img", "aria-label": name, "data-state": name },
      drawn("rect", box),
      drawn("text", { x, y: y + 4 }, name),
    );
    node.addEventListener("pointerenter", () => this.#explain(name));
    node.addEventListener("focus", () => this.#explain(name));
    node.addEventListener("blur", () => this.#explain(null));
    return node;
  }

  /**
   * Says what a state is, below it; null says nothing any more.
   * @param {string | null} name
   */
  #explain(name) {
    for (const [other, node] of this.#nodes)
      if (other === name) node.setAttribute("aria-describedby", EXPLAINED);
      else node.removeAttribute("aria-describedby");
    const node = name === null ? undefined : this.#nodes.get(name);
    this.#tip.hidden = !node;
    if (name === null || !node) return;
    this.#tip.replaceChildren(element("code", {}, name), ` ${this.#words.get(name)}`);
    const [frame, box] = [this.root.getBoundingClientRect(), node.getBoundingClientRect()];
    const room = frame.width - this.#tip.offsetWidth;
    const left = box.left + box.width / 2 - frame.left - this.#tip.offsetWidth / 2;
    this.#tip.style.left = `${Math.max(0, Math.min(left, room))}px`;
    this.#tip.style.top = `${box.bottom - frame.top + 4}px`;
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    if (event.key === "Escape") this.#explain(null);
    const from = event.target instanceof SVGElement ? event.target.dataset.state : undefined;
    if (!from || !(event.key in ARROWS)) return;
    const to = neighbour(from, event.key);
    this.#reach(to);
    this.#nodes.get(to)?.focus();
    event.preventDefault();
    event.stopPropagation(); // else it moves the point as well
  }

  /**
   * Of all states, Tab goes to one.
   * @param {string} name
   */
  #reach(name) {
    for (const [other, node] of this.#nodes) node.setAttribute("tabindex", other === name ? "0" : "-1");
  }

  /**
   * Lights the current state; `seen` are those the parser has been in.
   * @param {{ state: string, words: string, before: string }} at
   * @param {Set<string>} seen
   */
  light({ state, words, before }, seen) {
    const now = `The parser's states. The current one is ${state}: ${words}.`;
    this.#svg.setAttribute("aria-label", now);
    if (!this.#svg.contains(document.activeElement)) this.#reach(state);
    const next = new Set(this.#lines.filter(({ from }) => from === state).map(({ to }) => to));
    for (const [name, node] of this.#nodes) {
      node.classList.toggle("current", name === state);
      node.classList.toggle("next", next.has(name));
      node.classList.toggle("seen", seen.has(name));
    }
    for (const { from, to, line } of this.#lines) {
      line.classList.toggle("out", from === state);
      line.classList.toggle("came", from === before && to === state);
      if (from === state || (from === before && to === state))
        line.setAttribute("marker-end", "url(#state-tip)");
      else line.removeAttribute("marker-end");
    }
  }
}
