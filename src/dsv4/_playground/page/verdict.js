// What something is, what is wrong with it, who did it and what fixes it: the lines of `dsv4 why`.

import { toClipboard } from "./copybuttons.js";
import { harmless } from "./characters.js";
import { button, element } from "./dom.js";
import { python } from "./server.js";

/** @typedef {import("./types.js").WhyAnswer} WhyAnswer */

/** @type {Record<string, string>} */
const TITLES = { what: "This is", wrong: "Wrong", who: "Who did it", why: "Why", fix: "Fix", next: "Next", more: "More" };
const SHORT = ["what", "wrong", "why"];
const DOCS = "dsv4 docs ";

export class VerdictPane {
  #tell;
  #lines = element("dl", {});
  #actions = element("p", { className: "row-of-buttons" });
  root = element(
    "section",
    { className: "verdict-of-all", "aria-label": "What is wrong", hidden: true },
    this.#lines, this.#actions,
  );

  /** @param {(words: string) => void} tell */
  constructor(tell) {
    this.#tell = tell;
  }

  /**
   * Shows a verdict, or none, with buttons for what can be done.
   * @param {WhyAnswer | null} verdict
   * @param {HTMLElement[]} actions
   */
  show(verdict, actions = []) {
    this.root.hidden = !verdict && !actions.length;
    this.root.classList.toggle("bad", verdict?.status === 1);
    // What to do next stands on the page itself, where nothing is wrong.
    const said = (verdict?.lines ?? []).filter(([word]) => verdict?.status || SHORT.includes(word));
    this.#lines.replaceChildren(...said.map(([word, text]) => this.#line(word, text)));
    this.#actions.hidden = !actions.length;
    this.#actions.replaceChildren(...actions);
  }

  /**
   * @param {string} word
   * @param {string} text
   */
  #line(word, text) {
    const value = element("dd", {}, ...this.#value(word, harmless(text)));
    return element("div", { className: word }, element("dt", {}, TITLES[word] ?? word), value);
  }

  /**
   * @param {string} word
   * @param {string} text
   */
  #value(word, text) {
    if (word === "fix" || word === "next") {
      const copy = async () => {
        await toClipboard(text);
        this.#tell("Copied.");
      };
      return [element("code", {}, text), " ", button("Copy", copy, { className: "small", "aria-label": "Copy the fix" })];
    }
    if (word === "more" && python && text.startsWith(DOCS)) {
      const page = text.slice(DOCS.length);
      return [element("a", { href: `../${page}/` }, page)];
    }
    return [word === "more" ? element("code", {}, text) : text];
  }
}
