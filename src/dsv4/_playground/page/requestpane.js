// The request, as JSON or as a form, and what is wrong with it.

import { button, choice, element, inside } from "./dom.js";
import { Editor } from "./editor.js";
import { Form } from "./form.js";
import { examples, sourceOf } from "./switches.js";

/** @typedef {import("./types.js").Place} Place */

const PROTOCOLS = [
  ["auto", "detected"],
  ["chat", "Chat Completions"],
  ["responses", "Responses"],
  ["messages", "Anthropic Messages"],
  ["file", "File for dsv4 show"],
];
const HINT = "Type or paste anything";
const NAMES = Object.fromEntries(PROTOCOLS);

export class RequestPane {
  #context;
  #editor;
  #form;
  #finds;
  #modes;
  #protocol;
  #problem = element("div", { className: "trouble", role: "status", hidden: true });
  #intro = element(
    "p",
    { className: "intro-line" },
    "Paste anything: a request, a sentence, an answer, an error, a log, a session. Drop a file or a picture, or pick an example.",
  );
  /** @type {Place | null} Where the request is wrong. */
  #spot = null;
  #where = element("p", { className: "whereabouts faint" }, "\u00a0");

  /**
   * `onpoint(offset, isPointer)` is called when the user points at a character of the request.
   * @param {import("./types.js").PageContext} context
   * @param {(offset: number | null, isPointer: boolean) => void} onpoint
   */
  constructor(context, onpoint) {
    const { request, say, state } = context;
    /** @param {string} source */
    const oninput = (source) => request.set({ source, turn: undefined });
    this.#context = context;
    this.#editor = new Editor({ label: "Request, answer or log", hint: HINT, oninput, oncaret: onpoint });
    this.#finds = button("Find", () => this.#editor.find(), { title: "Ctrl+F in the text" });
    this.#form = new Form({ onchange: oninput, oncaret: onpoint, say });
    this.#modes = [
      ["json", "JSON"],
      ["form", "Form"],
    ].map(([mode, label]) => button(label, () => state.set({ mode }), { "data-mode": mode }));
    const protocol = choice("Read as", PROTOCOLS, "auto", (value) =>
      request.set({ protocol: value === "auto" ? undefined : value }),
    );
    this.#protocol = inside(protocol, "select");
    const modes = { className: "modes", role: "group", "aria-label": "Edit as" };
    this.root = element(
      "section",
      { className: "pane source", "aria-label": "Request" },
      element(
        "div",
        { className: "head" },
        element("div", modes, this.#modes),
        protocol,
        examples(context),
        this.#editor.folder,
        this.#finds,
        button("Clear", () => this.#clear()),
      ),
      this.#intro,
      this.#editor.root,
      this.#form.root,
      this.#where,
      this.#problem,
    );
  }

  /** An empty box, to type in. */
  #clear() {
    const { request, state } = this.#context;
    state.set({ mode: "json" });
    request.set({ source: "", pictures: undefined, protocol: undefined, turn: undefined });
    this.#editor.focus(0);
  }

  get #isForm() {
    return this.#context.state.get().mode === "form";
  }

  get #shown() {
    return this.#isForm ? this.#form : this.#editor;
  }

  /** Shows what the state says. */
  draw() {
    this.#protocol.value = this.#context.request.get().protocol ?? "auto";
    for (const one of this.#modes)
      one.setAttribute("aria-pressed", String((one.dataset.mode === "form") === this.#isForm));
    const isSwitched = this.#editor.root.hidden !== this.#isForm;
    this.#editor.root.hidden = this.#isForm;
    this.#form.root.hidden = !this.#isForm;
    this.#finds.hidden = this.#isForm;
    this.#editor.folder.classList.toggle("away", this.#isForm);
    this.#intro.hidden = Boolean(this.#context.request.get().source);
    this.#shown.text = sourceOf(this.#context);
    // Text that the form wrote was not in the editor when the problem was found in it.
    if (isSwitched) this.#editor.mark(this.#spot);
  }

  /**
   * Names the protocol that was found.
   * @param {string} protocol
   */
  detected(protocol) {
    this.#protocol.options[0].textContent = `${NAMES[protocol]} (detected)`;
  }

  /**
   * Lights a place, or none, and names it. It is brought into view, unless the pointer is in this
   * pane ("own"); a `click` goes there as well.
   * @param {Place | null} place
   * @param {import("./types.js").Pointing} how
   */
  light(place, how) {
    this.#shown.light(place, { scroll: how !== "own" });
    this.#where.textContent = place ? this.#editor.whereabouts(place[0]) : "\u00a0";
    if (place && how === "click") this.#shown.focus(place[0]);
  }

  /**
   * Says what is wrong, at its place; null is nothing.
   * @param {import("./types.js").Problem | null} found
   */
  complain(found) {
    this.#problem.hidden = !found;
    const spot = found && spotOf(found);
    this.#spot = spot;
    this.#editor.mark(spot);
    if (!found) return this.#problem.replaceChildren();
    const where = found.line ? `Line ${found.line}, column ${found.column}` : "";
    const place = [where, found.path].filter(Boolean).join(": ");
    this.#problem.replaceChildren(
      spot
        ? button(place, () => this.#shown.focus(spot[0]), { className: "place" })
        : element("b", {}, place),
      " ",
      element("span", {}, found.message),
    );
  }
}

/**
 * The place of a problem in the text, if it has one.
 * @param {import("./types.js").Problem} problem
 * @returns {Place | null}
 */
const spotOf = ({ start, end }) => (typeof start === "number" ? [start, end ?? start] : null);
