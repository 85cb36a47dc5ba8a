// The request, as JSON or as a form, and what is wrong with it.

import { number } from "./cards.js";
import { button, choice, element, inside, menu } from "./dom.js";
import { Editor } from "./editor.js";
import { FindBar } from "./findbar.js";
import { Form } from "./form.js";
import { placeName } from "./places.js";
import { examples, sourceOf } from "./switches.js";

/** @typedef {import("./types.js").Place} Place */

const PROTOCOLS = [
  ["auto", "detected"],
  ["chat", "Chat Completions"],
  ["responses", "Responses"],
  ["messages", "Anthropic Messages"],
  ["file", "File for dsv4 show"],
];
const NAMES = Object.fromEntries(PROTOCOLS);

export class RequestPane {
  #context;
  #editor;
  #find;
  #form;
  #finds;
  #modes;
  #protocol;
  #problem = element("div", { className: "trouble", role: "status", hidden: true });
  #intro = element(
    "p",
    { className: "intro-line" },
    "Paste a request, a prompt or an answer here, drop a file or a picture, or pick an example.",
  );
  /** @type {Place | null} Where the request is wrong. */
  #spot = null;
  #where = element("p", { className: "whereabouts faint" }, "\u00a0");

  /**
   * `onpoint(offset, isPointer)` is called when somebody points at a character of the request.
   * @param {import("./types.js").PageContext} context
   * @param {(offset: number | null, isPointer: boolean) => void} onpoint
   */
  constructor(context, onpoint) {
    const { request, say, state } = context;
    /** @param {string} source */
    const oninput = (source) => request.set({ source });
    this.#context = context;
    const onfind = () => this.#find.open();
    this.#editor = new Editor({ label: "Request, as JSON", oninput, oncaret: onpoint, onfind });
    this.#find = new FindBar(this.#editor);
    this.#finds = button("Find", onfind, { title: "Ctrl+F in the text" });
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
      ),
      this.#find.root,
      this.#intro,
      this.#editor.root,
      this.#form.root,
      this.#where,
      this.#problem,
    );
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
    if (this.#isForm) this.#find.root.hidden = true;
    this.#intro.hidden = Boolean(this.#context.request.get().source);
    this.#shown.text = sourceOf(this.#context);
    // What the form wrote was not in the editor when it was found wrong.
    if (isSwitched) this.#editor.mark(this.#spot);
    this.#find.renew();
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
    this.#where.textContent = place ? placeName(sourceOf(this.#context), place[0]) : "\u00a0";
    if (place && how === "click") this.#shown.focus(place[0]);
  }

  /**
   * Offers what can be done with a text that is no JSON: each is a title and what to do.
   * @param {[string, () => void][]} offers
   */
  offer(offers) {
    this.#problem.append(" ", ...offers.map(([title, run]) => button(title, run, { className: "small" })));
  }

  /**
   * Says more of a text that is no JSON.
   * @param {string[]} notes
   */
  note(notes) {
    this.#problem.append(...notes.map((note) => ` ${note}`));
  }

  /**
   * Offers a choice among the lines of a file, of which each is JSON.
   * @param {string[]} titles
   * @param {(number: number) => void} onchoose
   */
  offerLines(titles, onchoose) {
    this.#editor.mark(null);
    this.#problem.classList.add("asking");
    this.#problem.replaceChildren(
      `Each of the ${number(titles.length)} lines is JSON. `,
      menu("Choose a line", titles, onchoose),
    );
  }

  /**
   * Says what is wrong, at its place; null is nothing.
   * @param {import("./types.js").Problem | null} found
   */
  complain(found) {
    this.#problem.hidden = !found;
    this.#problem.classList.remove("asking");
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
 * Where a problem stands in the text, if it says so.
 * @param {import("./types.js").Problem} problem
 * @returns {Place | null}
 */
const spotOf = ({ start, end }) => (typeof start === "number" ? [start, end ?? start] : null);
