// A prompt, or two beside each other: what api/prompt answers, and how to choose what it shows.

import { counted, number } from "./cards.js";
import { button, choice, element, options } from "./dom.js";
import { factsOf, sharesOf } from "./facts.js";
import { Rows } from "./rows.js";

/** @typedef {import("./types.js").Place} Place */
/** @typedef {import("./types.js").PromptSide} PromptSide */

const TOKENS = [
  ["off", "hidden"],
  ["borders", "borders"],
  ["ids", "with ids"],
];

export class PromptPane {
  #state;
  #onpoint;
  #total = element("p", { className: "total" });
  #shares = element("div", { className: "shares" });
  #facts = element("div", { className: "facts" });
  #titles = element("div", { className: "titles" });
  #ending = element("p", { className: "ending" });
  #scroller;
  #wanted = "";

  /**
   * `onpoint(place, how)` is called when the user points at a part that has a place in the request,
   * `oncopy()` when the prompt is to be copied.
   * @param {import("./types.js").PageContext} context
   * @param {(place: Place | null, how: import("./types.js").Pointing) => void} onpoint
   * @param {() => unknown} oncopy
   */
  constructor({ state, settings }, onpoint, oncopy) {
    this.#state = state;
    this.#onpoint = onpoint;
    this.rows = new Rows({ label: "Prompt", onpoint });
    this.#scroller = element(
      "div",
      { className: "scroller" },
      this.#facts,
      this.#titles,
      this.rows.root,
      this.#ending,
    );
    this.root = element(
      "section",
      { className: "pane result", "aria-label": "Prompt" },
      element(
        "div",
        { className: "head" },
        options(
          "What to show",
          ...choicesOf(state, settings),
          button("Copy prompt", oncopy),
        ),
      ),
      element("div", { className: "summary" }, this.#total, this.#shares),
      this.#scroller,
    );
  }

  /** The fields of the next request: `ids`, and the names of `sides`. */
  wanted() {
    const { shown = "dsv4", beside, tokens = "off" } = this.#state.get();
    return { ids: tokens !== "off", sides: beside ? [shown, beside] : [shown] };
  }

  /**
   * Shows that an answer is on its way, or that there is none for the current request.
   * @param {boolean} isWaiting
   */
  wait(isWaiting, isStale = false) {
    this.root.classList.toggle("waiting", isWaiting);
    if (!isWaiting) this.root.classList.toggle("stale", isStale);
  }

  /**
   * Shows an answer. Resolves when all of it is there.
   * @param {import("./types.js").PromptAnswer} answer
   */
  show(answer) {
    const frame = this.#frame();
    const reading = this.#isSwitched() && frame.scrollTop > 0 ? this.#reading() : null;
    const good = answer.sides.filter(isPrompt);
    this.#total.textContent = good.map((side) => side.total).join("  ·  ");
    this.#shares.replaceChildren(...(good.length === 1 ? drawnShares(sharesOf(good[0])) : []));
    this.#facts.replaceChildren(
      ...factsOf(answer).map((fact) => drawnFact(fact, (place) => this.#onpoint(place, "focus"))),
    );
    const names = answer.sides.map((side) => (isPrompt(side) ? side.title : side.problem.message));
    this.#titles.replaceChildren(
      ...(names.length > 1 ? names.map((name) => element("b", {}, name)) : []),
    );
    this.#end(good[0]?.ending);
    const { tokens = "off" } = this.#state.get();
    this.rows.root.classList.toggle("with-tokens", tokens !== "off");
    return this.rows.show(good, tokens, reading, (row, top) => keepAt(row, top, frame));
  }

  /** Whether the same request is shown in another manner. */
  #isSwitched() {
    const before = this.#wanted;
    this.#wanted = JSON.stringify([this.wanted(), this.#state.get().tokens]);
    return before !== "" && before !== this.#wanted;
  }

  #reading() {
    return this.rows.reading(Math.max(0, this.#scroller.getBoundingClientRect().top));
  }

  /** The element that scrolls: the pane, or on a phone the page. */
  #frame() {
    const pane = this.#scroller;
    const isOwn = pane.scrollHeight > pane.clientHeight;
    return isOwn ? pane : (document.scrollingElement ?? document.documentElement);
  }

  /** @param {PromptSide["ending"] | undefined} ending */
  #end(ending) {
    this.#ending.textContent = ending ? `${ending.generates ? "▶" : "■"} ${ending.words}` : "";
    this.#ending.classList.toggle("silent", ending?.generates === false);
  }
}

/**
 * @param {PromptSide | { problem: import("./types.js").Problem }} side
 * @returns {side is PromptSide}
 */
const isPrompt = (side) => !side.problem;

/**
 * Scrolls so that a row is at a height of the window: now, and once the rows that came into view
 * are drawn and have their own heights.
 * @param {Element} row
 * @param {number} top
 * @param {Element} frame
 */
function keepAt(row, top, frame, times = 3) {
  frame.scrollTop += row.getBoundingClientRect().top - top;
  if (times > 1) requestAnimationFrame(() => keepAt(row, top, frame, times - 1));
}

/**
 * Shares as a bar, and in words.
 * @param {ReturnType<typeof sharesOf>} shares
 */
function drawnShares({ unit, parts }) {
  const bar = parts.map(({ kind, amount }) => {
    const title = `${kind}: ${counted(amount, unit)}`;
    const part = element("span", { className: `share ${kind}`, title });
    part.style.flexGrow = String(amount);
    return part;
  });
  const legend = parts.map(({ kind, amount, percent }) =>
    element(
      "li",
      {},
      element("span", { className: `share ${kind}`, "aria-hidden": "true" }),
      `${kind} `,
      element("span", { className: "faint" }, `${number(amount)} · ${percent}`),
    ),
  );
  return [
    element("div", { className: "bar-of-shares", "aria-hidden": "true" }, bar),
    element("ul", { className: "legend", "aria-label": `${unit}s by part` }, legend),
  ];
}

/**
 * A fact as a paragraph. `point(place)` shows a place of the request.
 * @param {ReturnType<typeof factsOf>[number]} fact
 * @param {(place: Place) => void} point
 */
function drawnFact({ words, style, name, place }, point) {
  const shown = place && button("Show in the request", () => point(place), { className: "small" });
  return element(
    "p",
    { className: `fact ${style}` },
    name ? element("b", {}, name) : null,
    name ? ` ${words} ` : words,
    shown,
  );
}

/**
 * The choices of the prompts to show, and of their tokens.
 * @param {import("./types.js").Slice} state
 * @param {import("./types.js").PageSettings} settings
 */
function choicesOf(state, settings) {
  const { shown = "dsv4", beside = "", tokens = "off" } = state.get();
  const sides = [
    ...settings.dialects.map(({ name }) => [`dialect:${name}`, `dsv4, ${name}`]),
    ...settings.profiles.map(({ name, server }) => [`profile:${name}`, server]),
  ];
  const own = [["dsv4", "dsv4, as switched"], ...sides];
  const none = [["", "nothing"], ...sides];
  return [
    choice("Show", own, shown, (name) => state.set({ shown: name === "dsv4" ? undefined : name })),
    choice("Beside", none, beside, (name) => state.set({ beside: name || undefined })),
    choice("Tokens", TOKENS, tokens, (name) => state.set({ tokens: name }), {
      disabled: !settings.tokens,
      title: settings.tokens ? undefined : "The extra `tokens` is not installed",
    }),
  ];
}
