// The turns of a session or a log: what each costs, what of it the cache keeps and loses, and what
// was repaired.

import { counted, number } from "./cards.js";
import { harmless } from "./characters.js";
import { button, element } from "./dom.js";

/** @typedef {import("./types.js").TurnList} TurnListAnswer */
/** @typedef {TurnListAnswer["turns"][number]} ListedTurn */

const MOST_REPAIRS = 5;

export class TurnList {
  #list = element("ol", { className: "strip" });
  #facts = element("div", { className: "turn-facts" });
  #open;
  /** @type {ListedTurn[]} */
  #turns = [];
  root = element(
    "section",
    { className: "pane result turn-list", "aria-label": "Turns", hidden: true, tabIndex: 0 },
    this.#facts, this.#list,
  );

  /** @param {(turn: number) => void} open */
  constructor(open) {
    this.#open = open;
  }

  /**
   * Shows turns, after those that are shown already, or as the first.
   * @param {TurnListAnswer} answer
   * @param {number} start
   */
  show({ unit, turns, total, no_tokens: why }, start) {
    this.#turns.splice(start, Infinity, ...turns);
    const all = this.#turns;
    const repaired = all.filter(({ repairs }) => repairs.length).length;
    const lost = all.reduce((sum, { held, reused }) => sum + held - reused, 0);
    const words = [
      `${counted(total, "turn")}.`,
      all.length < total ? `${number(all.length)} are measured so far.` : "",
      lost ? `The cache loses ${number(lost)} ${unit}.` : "The cache loses nothing.",
      repaired ? `Repairs in ${counted(repaired, "turn")}.` : "No repairs.",
      why ? `${why} Characters are counted instead.` : "",
    ];
    this.#facts.replaceChildren(element("p", { className: "fact" }, words.filter(Boolean).join(" ")));
    const widest = all.reduce((most, { size }) => Math.max(most, size), 1);
    this.#list.style.setProperty("--widest", String(widest));
    if (!start) this.#list.replaceChildren();
    this.#list.append(...turns.map((turn, n) => this.#turn(turn, start + n, unit)));
  }

  /**
   * @param {ListedTurn} turn
   * @param {number} n
   * @param {string} unit
   */
  #turn({ turn, size, held, reused, words, repairs, problem }, n, unit) {
    const lost = held - reused;
    const bar = element("div", { className: "turn-bar", "aria-hidden": "true" });
    for (const [kind, amount] of Object.entries({ reused, fresh: size - reused })) {
      const part = element("span", { className: kind });
      part.style.setProperty("--amount", String(amount));
      bar.append(part);
    }
    const amounts = problem ? "no prompt" : `${number(size)} ${unit}, ${number(reused)} cached, ${number(lost)} lost`;
    return element(
      "li",
      { className: lost || problem ? "turn broken" : "turn" },
      element(
        "div", { className: "turn-head" },
        element("b", {}, `Turn ${n + 1}`),
        element("span", { className: "amount" }, amounts),
        repairs.length ? element("span", { className: "status incomplete" }, counted(repairs.length, "repair")) : null,
        problem ? null : button("Open", () => this.#open(turn), { className: "small", "aria-label": `Open turn ${n + 1}` }),
      ),
      bar,
      element("p", { className: "turn-words" }, harmless(problem || words)),
      repairs.length
        ? element("ul", { className: "repairs" }, repairs.slice(0, MOST_REPAIRS).map((one) => element("li", {}, harmless(one))))
        : null,
    );
  }
}
