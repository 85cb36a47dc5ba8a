// The verdict of `dsv4 why` in its lines: what something is, what is wrong, the cause, the fix.

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
    // If nothing is wrong, the page itself shows what to do next.
    const said = (verdict?.lines ?? []).filter(([word]) => verdict?.status || SHORT.includes(word));
    const marked = verdict?.marked ?? "";
    this.#lines.replaceChildren(...said.map(([word, text]) => this.#line(word, text, marked)));
    this.#actions.hidden = !actions.length;
    this.#actions.replaceChildren(...actions);
  }

  /**
   * @param {string} word
   * @param {string} text
   * @param {string} marked
   */
  #line(word, text, marked) {
    const isShown = marked && word === "wrong" && text.endsWith(marked);
    const words = isShown ? text.slice(0, -marked.length).trimEnd() : text;
    const value = element("dd", {}, ...this.#value(word, harmless(words)), isShown ? excerpt(marked) : null);
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

/**
 * The place of a mistake, which the words for a terminal have in brackets.
 * @param {string} marked
 */
function excerpt(marked) {
  const [before, inside = "", after = ""] = harmless(marked).split(/⟦|⟧/, 3);
  return element("code", { className: "excerpt" }, before, element("mark", {}, inside), after);
}
