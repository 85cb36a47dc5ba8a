// A completion, and how it is read: at every point the parser's state, the text it holds back and
// why, the events, the message, and the frames of the three protocols.
//
// One call brings the whole trace. Moving the slider makes no request: the view is a window on the
// trace, and drawing costs the same however long the text is.

import { CallError, debounced, messageOf } from "../server.js";
import { area, card, counted, number } from "../cards.js";
import { button, choice, element, inside, tick } from "../dom.js";
import { openAnswer } from "../pasted.js";
import { EventsPane, FramesPane, HeldPane, MessagePane, StatePane, TextMap, TextPane } from "../panes.js";
import { Trace } from "../trace.js";
import { VerdictPane } from "../verdict.js";

/** @typedef {import("../panes.js").Moment} Moment */
/** @typedef {import("../types.js").CompletionExample} CompletionExample */
/** @typedef {import("../types.js").PageContext} PageContext */
/** @typedef {import("../types.js").StreamSetup} StreamSetup */

/**
 * The text to read, and the options of reading, as the controls show them.
 * @typedef {{
 *   text: string, thinking: boolean, tools: string, tool_choice: string, dialect: string,
 *   stop: string, calls: string, reason: string, cut: string, seed: number,
 * }} StreamOptions
 */

/** @typedef {"dialect" | "calls" | "tool_choice" | "reason"} ChoiceName */

const SPEEDS = [15, 60, 400, 4000].map((speed) => [String(speed), `${number(speed)} steps a second`]);
// Kinds of text that belong into the Prompt view.
const OTHERS = ["request", "prompt", "exchanges", "record", "session"];
const PROTOCOLS = [["chat", "Chat Completions"], ["responses", "Responses"], ["messages", "Messages"]];

/**
 * @param {HTMLElement} root
 * @param {PageContext} context
 */
export function mount(root, context) {
  root.append(element("p", { className: "notice faint" }, "Reading…"));
  context.call("stream", {}).then(
    (known) => new Stream(root, context, known),
    (error) => root.replaceChildren(problem(messageOf(error))),
  );
}

class Stream {
  #context;
  #state;
  #known;
  #root;
  /** @type {Trace | null} */
  #trace = null;
  #step = 0;
  #shown = -1;
  #turn = 0;
  /** @type {number | null} */
  #playing = null;
  #frame = 0;
  #problem = element("p", { className: "problem", role: "alert", hidden: true });
  #verdict;
  #judged = "";
  #words = element("p", { className: "words faint" });
  #count = element("output", { className: "count faint" });
  #speeds = choice("Speed", SPEEDS, "60", () => {});
  #playButton = button("Play", () => this.#toggle(), { className: "primary play", title: "Space" });
  #editButton = button("Edit", () => this.#edit(this.#source.hidden));
  #repairs = element("span", { className: "group" });
  /** @type {HTMLInputElement} */
  #slider = element("input", {
    type: "range", min: 0, max: 1, step: 1, value: 0, "aria-label": "Point in the completion",
    oninput: () => {
      this.#pause();
      this.#go(Number(this.#slider.value));
    },
  });
  /** @type {HTMLTextAreaElement} */
  #source = element("textarea", {
    className: "source",
    "aria-label": "Completion",
    spellcheck: false,
    hidden: true,
    placeholder: "What the model wrote after the prompt. Type or paste it here.",
    oninput: () => this.#state.set({ text: this.#source.value }),
  });
  /**
   * Functions that make each control show its option.
   * @type {((said: StreamOptions) => void)[]}
   */
  #followers = [];
  #text = new TextPane();
  #map = new TextMap();
  /** @type {{ show: (trace: Trace, step: number, at: Moment) => void }[]} */
  #panes = [];

  /**
   * @param {HTMLElement} root
   * @param {PageContext} context
   * @param {StreamSetup} known
   */
  constructor(root, context, known) {
    this.#root = root;
    this.#context = context;
    this.#state = context.state;
    this.#known = known;
    this.#verdict = new VerdictPane(context.tell);
    this.#build();
    this.#begin();
  }

  /**
   * The options in the link, or the first example.
   * @returns {StreamOptions}
   */
  get #options() {
    const said = this.#state.get();
    const first = this.#known.examples[0];
    const text = typeof said.text === "string" ? said.text : first.text;
    return {
      text,
      thinking: typeof said.thinking === "boolean" ? said.thinking : first.thinking,
      tools: typeof said.tools === "string" ? said.tools : JSON.stringify(this.#known.tools, null, 1),
      tool_choice: said.tool_choice === "none" ? "none" : "auto",
      dialect: typeof said.dialect === "string" ? said.dialect : this.#context.settings.dialect,
      stop: typeof said.stop === "string" ? said.stop : "",
      calls: said.calls === "whole" ? "whole" : "streamed",
      reason: said.reason === "stop" || said.reason === "length" ? said.reason : "",
      cut: ["character", "token", "random"].includes(said.cut) ? said.cut : "character",
      seed: Number.isSafeInteger(said.seed) ? said.seed : 1,
    };
  }

  /** The body of the request to api/trace. */
  #requestBody() {
    const { stop, tools, reason, ...options } = this.#options;
    return {
      ...options,
      tools: tools.trim() ? JSON.parse(tools) : null,
      stop: stop.split("\n").filter(Boolean).map(unescaped),
      reason: reason || null,
    };
  }

  #begin() {
    const asked = Number(this.#state.get().step);
    this.#ask(Number.isFinite(asked) ? asked : undefined);
    this.#state.onChange(({ step }, names) => {
      if (!names.some((name) => name !== "step")) return;
      this.#sync();
      // A step that is set together with the text is the one to show.
      if (names.includes("step") && Number.isFinite(step)) this.#ask(step);
      else this.#later();
    });
    this.#source.addEventListener("paste", (event) => this.#paste(event));
  }

  /**
   * Extracts the model's text from a server's response. Text that is not an answer is opened in the
   * view where it belongs.
   * @param {ClipboardEvent} event
   */
  async #paste(event) {
    const source = event.clipboardData?.getData("text/plain") ?? "";
    const found = await this.#context.call("why", { source }).catch(() => undefined);
    if (found?.answer && found.answer.text !== source) openAnswer(found.answer, this.#context);
    else if (found && OTHERS.includes(found.kind)) {
      this.#context.request.set({ source, pictures: undefined, protocol: undefined, turn: undefined });
      this.#context.go("prompt");
    }
  }

  /** Controls say what the state says: another view may have changed it. */
  #sync() {
    const said = this.#options;
    if (this.#source.value !== said.text) this.#source.value = said.text;
    this.#sayExample(this.#exampleOf(said));
    for (const follow of this.#followers) follow(said);
  }

  /**
   * Keeps a control at what an option says.
   * @param {"tools" | "stop" | "cut" | ChoiceName} name
   * @param {HTMLSelectElement | HTMLTextAreaElement} control
   */
  #follow(name, control) {
    this.#followers.push((said) => {
      if (control.value !== said[name]) control.value = said[name];
    });
  }

  #later = debounced(() => this.#ask(), 200);

  /**
   * Asks for the trace, and shows it at a step: where the slider was, by the place in the text.
   * @param {number} [step]
   */
  async #ask(step) {
    let body;
    try {
      body = this.#requestBody();
    } catch (error) {
      return this.#refuse(`tools: not JSON: ${messageOf(error)}`);
    }
    const turn = ++this.#turn;
    this.#root.classList.add("busy");
    try {
      const answer = await this.#context.call("trace", body);
      if (answer === undefined) return;
      const atEnd = this.#trace !== null && this.#step >= this.#trace.steps;
      const place = this.#trace?.end(this.#step) ?? 0;
      const same = this.#trace?.text === body.text;
      const trace = new Trace(answer, body.text, this.#known.states);
      this.#trace = trace;
      this.#problem.hidden = true;
      this.#slider.max = String(trace.steps);
      this.#repairs.hidden = !trace.repairs.length;
      this.#map.show(trace);
      const kept = atEnd ? trace.steps : trace.stepAt(place);
      this.#shown = -1;
      this.#go(step ?? (same ? kept : (trace.repair(0, 1) ?? 0)));
      await this.#judge(body.text);
    } catch (error) {
      const path = error instanceof CallError ? error.problem.path : undefined;
      this.#refuse(path ? `${path}: ${messageOf(error)}` : messageOf(error));
    } finally {
      if (turn === this.#turn) this.#root.classList.remove("busy");
    }
  }

  /**
   * Says what is wrong with a text.
   * @param {string} source
   */
  async #judge(source) {
    if (source === this.#judged) return;
    this.#judged = source;
    const found = source.trim() ? await this.#context.call("why", { source }).catch(() => null) : null;
    if (found !== undefined) this.#verdict.show(found);
  }

  /** @param {string} words */
  #refuse(words) {
    this.#pause();
    this.#problem.textContent = words;
    this.#problem.hidden = false;
  }

  // Moving.

  /** @param {number} step */
  #go(step) {
    if (!this.#trace) return;
    this.#step = Math.max(0, Math.min(Math.round(step), this.#trace.steps));
    // However many moves come in, one picture is drawn of them.
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#show();
    });
  }

  #play() {
    const trace = this.#trace;
    if (!trace) return;
    if (this.#step >= trace.steps) this.#go(0);
    let last = performance.now();
    let owed = 0;
    const speed = inside(this.#speeds, "select");
    /** @param {number} now */
    const tickOn = (now) => {
      owed += ((now - last) / 1000) * Number(speed.value);
      last = now;
      if (owed >= 1) {
        this.#go(this.#step + Math.floor(owed));
        owed %= 1;
      }
      if (this.#step >= (this.#trace ?? trace).steps) return this.#pause();
      this.#playing = requestAnimationFrame(tickOn);
    };
    this.#playing = requestAnimationFrame(tickOn);
    this.#labelPlay();
  }

  #pause() {
    if (this.#playing === null) return;
    cancelAnimationFrame(this.#playing);
    this.#playing = null;
    this.#labelPlay();
  }

  #toggle() {
    if (this.#playing === null) this.#play();
    else this.#pause();
  }

  #labelPlay() {
    const plays = this.#playing !== null;
    this.#playButton.textContent = plays ? "Pause" : "Play";
    this.#playButton.classList.toggle("primary", !plays);
  }

  /** @param {number} steps */
  #by(steps) {
    this.#pause();
    this.#go(this.#step + steps);
  }

  /** @param {number | null} step */
  #to(step) {
    this.#pause();
    if (step !== null) this.#go(step);
  }

  /** @param {KeyboardEvent} event */
  #keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = event.target;
    if (!(at instanceof Element) || at.matches("textarea, input:not([type=range]), select")) return;
    // Buttons and the slider have keys of their own.
    const own = at.matches("button, summary, a") ? [" "] : [];
    const slides = at.matches("input[type=range]");
    const trace = this.#trace;
    if (!trace) return;
    /** @type {Record<string, () => void>} */
    const keys = {
      " ": () => this.#toggle(),
      n: () => this.#to(trace.change(this.#step, 1)),
      p: () => this.#to(trace.change(this.#step, -1)),
      "]": () => this.#to(trace.repair(this.#step, 1)),
      "[": () => this.#to(trace.repair(this.#step, -1)),
      ...(slides
        ? {}
        : {
            ArrowRight: () => this.#by(1),
            ArrowLeft: () => this.#by(-1),
            Home: () => this.#to(0),
            End: () => this.#to(trace.steps),
          }),
    };
    const run = keys[event.key];
    if (!run || own.includes(event.key)) return;
    event.preventDefault();
    run();
  }

  // Parts that are drawn once.

  #build() {
    this.#root.replaceChildren(this.#toolbar(), this.#verdict.root, this.#player(), this.#points());
    this.#root.addEventListener("keydown", (event) => this.#keys(event));
    if (!this.#options.text) this.#edit(true);
  }

  /**
   * @param {keyof StreamOptions} name
   * @returns {(value: string | boolean) => void}
   */
  #set = (name) => (value) => this.#state.set({ [name]: value });

  #toolbar() {
    const said = this.#options;
    const stop = area("Stop strings, one a line; \\n is a line break", said.stop, 2, this.#set("stop"));
    const tools = area("Tools, as a JSON list; nothing: not known", said.tools, 8, this.#set("tools"));
    this.#follow("stop", inside(stop, "textarea"));
    this.#follow("tools", inside(tools, "textarea"));
    const thinking = tick("Begins in reasoning", said.thinking, this.#set("thinking"));
    this.#followers.push((now) => {
      inside(thinking, "input").checked = now.thinking;
    });
    return element(
      "div",
      { className: "stream-options" },
      element(
        "div",
        { className: "toolbar" },
        this.#exampleChoice(said), this.#cutChoice(said), this.#seedField(said), thinking,
        this.#context.copy(() => this.#requestBody()),
      ),
      element(
        "details",
        { className: "more" },
        element("summary", {}, "Options: tools, dialect, calls, stop strings, the end"),
        element(
          "div",
          { className: "more-options" },
          tools,
          element(
            "div",
            { className: "column" },
            this.#rareChoices(said),
            stop,
          ),
        ),
      ),
    );
  }

  /** @param {StreamOptions} said */
  #exampleOf(said) {
    return this.#known.examples.find(({ text }) => text === said.text);
  }

  /** @param {StreamOptions} said */
  #exampleChoice(said) {
    const { examples } = this.#known;
    /** @param {StreamOptions} now */
    const chosen = (now) => {
      const example = this.#exampleOf(now);
      return example ? String(examples.indexOf(example)) : "";
    };
    const options = [["", "Your own"], ...examples.map(({ name }, n) => [String(n), name])];
    const made = choice("Example", options, chosen(said), (n) => this.#takeExample(n));
    this.#followers.push((now) => {
      inside(made, "select").value = chosen(now);
    });
    return made;
  }

  /** @param {StreamOptions} said */
  #cutChoice(said) {
    const cuts = [["character", "By character"], ["token", "By token"], ["random", "By random cuts"]];
    const made = choice("Cut", cuts, said.cut, this.#set("cut"));
    const select = inside(made, "select");
    const token = [...select.options].find(({ value }) => value === "token");
    if (token && !this.#context.settings.tokens) {
      token.disabled = true;
      token.textContent = "By token (needs the extra tokens)";
    }
    this.#follow("cut", select);
    return made;
  }

  /** @param {StreamOptions} said */
  #seedField(said) {
    /** @type {HTMLInputElement} */
    const seed = element("input", {
      type: "number", id: "stream-seed", value: String(said.seed), min: 0, step: 1,
      onchange: () => this.#state.set({ seed: Number.parseInt(seed.value, 10) || 0 }),
    });
    const made = element("span", { className: "choice" }, element("label", { htmlFor: "stream-seed" }, "Seed"), seed);
    made.hidden = said.cut !== "random";
    this.#followers.push((now) => {
      made.hidden = now.cut !== "random";
    });
    return made;
  }

  /** @param {StreamOptions} said */
  #rareChoices(said) {
    const reasons = [["", "unknown"], ["stop", "the model ended it"], ["length", "it was cut"]];
    const dialects = this.#context.settings.dialects.map(({ name }) => [name, name]);
    /** @type {[ChoiceName, string, string[][]][]} */
    const choices = [
      ["dialect", "Dialect", dialects],
      ["calls", "Calls", [["streamed", "as they come"], ["whole", "once complete"]]],
      ["tool_choice", "Tool choice", [["auto", "auto"], ["none", "none"]]],
      ["reason", "Why it ended", reasons],
    ];
    return choices.map(([name, label, options]) => {
      const made = choice(label, options, said[name], this.#set(name));
      this.#follow(name, inside(made, "select"));
      return made;
    });
  }

  /** @param {string} n */
  #takeExample(n) {
    const example = this.#known.examples[Number(n)];
    this.#pause();
    if (n === "" || !example) {
      this.#words.textContent = "";
      return this.#edit(true);
    }
    this.#edit(false);
    this.#state.set({ text: example.text, thinking: example.thinking, step: undefined });
  }

  /** @param {CompletionExample | undefined} example */
  #sayExample(example) {
    const rule = example?.rule ? ` Recovery rule ${example.rule}.` : "";
    this.#words.textContent = example ? example.words + rule : "";
  }

  #player() {
    /**
     * @param {string} label
     * @param {string} name
     * @param {string} title
     * @param {() => void} run
     */
    const step = (label, name, title, run) => button(label, run, { title, "aria-label": name });
    this.#repairs.replaceChildren(
      step("‹ repair", "Previous repair", "[", () => this.#to(this.#trace?.repair(this.#step, -1) ?? null)),
      step("repair ›", "Next repair", "]", () => this.#to(this.#trace?.repair(this.#step, 1) ?? null)),
    );
    return element(
      "div",
      { className: "player" },
      element("div", { className: "track" }, this.#map.root, this.#slider),
      element(
        "div",
        { className: "controls" },
        step("|‹", "To the start", "Home", () => this.#to(0)),
        step("‹ step", "One step back", "Left arrow", () => this.#by(-1)),
        this.#playButton,
        step("step ›", "One step on", "Right arrow", () => this.#by(1)),
        step("›|", "To the end", "End", () => this.#to(this.#trace?.steps ?? 0)),
        element(
          "span",
          { className: "group" },
          step("‹ change", "Previous change", "p", () => this.#to(this.#trace?.change(this.#step, -1) ?? null)),
          step("change ›", "Next change", "n", () => this.#to(this.#trace?.change(this.#step, 1) ?? null)),
        ),
        this.#repairs,
        this.#speeds,
        this.#count,
      ),
    );
  }

  #points() {
    const said = this.#options;
    this.#sayExample(this.#exampleOf(said));
    this.#source.value = said.text;
    const completion = card("completion", "Completion", [this.#editButton], this.#words, this.#source, this.#text.root);
    const events = new EventsPane();
    const state = new StatePane(this.#known.states, this.#known.moves);
    const held = new HeldPane();
    const message = new MessagePane((place) => this.#to(this.#trace?.stepAt(place + 1) ?? null));
    const frames = PROTOCOLS.map(([name, title]) => new FramesPane(name, title));
    this.#panes = [this.#text, events, state, held, message, ...frames];
    /**
     * @param {string} className
     * @param {...HTMLElement} content
     */
    const group = (className, ...content) => element("div", { className }, content);
    return group(
      "points",
      this.#problem,
      group("column", completion, events.root),
      group("column", state.root, held.root, message.root),
      group("frames", ...frames.map(({ root }) => root)),
    );
  }

  /** @param {boolean} on */
  #edit(on) {
    this.#source.hidden = !on;
    this.#text.root.hidden = on;
    this.#editButton.textContent = on ? "Done" : "Edit";
    if (on) this.#source.focus();
  }

  // Parts that are drawn at each step.

  #show() {
    const trace = this.#trace;
    if (!trace || this.#shown === this.#step) return;
    this.#shown = this.#step;
    const at = trace.at(this.#step);
    this.#showPlace(trace, at);
    for (const pane of this.#panes) pane.show(trace, this.#step, at);
    this.#state.set({ step: this.#step });
  }

  /**
   * @param {Trace} trace
   * @param {Moment} at
   */
  #showPlace({ steps, text }, { state, start, end }) {
    this.#slider.value = String(this.#step);
    const ended = this.#step >= steps ? ", the end" : "";
    const words = `Step ${number(this.#step)} of ${number(steps)}${ended}`;
    const held = end > start ? `${number(end - start)} held` : "Nothing held";
    this.#slider.setAttribute("aria-valuetext", `${words}. ${state}. ${held}.`);
    this.#count.textContent = `${words} · ${number(end)} of ${counted(text.length, "character")}`;
  }
}

// Stop strings are written one on each line.
/** @param {string} line */
const unescaped = (line) => line.replace(/\\n/g, "\n").replace(/\\t/g, "\t");
/** @param {string} words */
const problem = (words) => element("p", { className: "notice problem", role: "alert" }, words);
