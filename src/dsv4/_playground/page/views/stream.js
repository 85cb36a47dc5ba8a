// A completion, and how it is read: at every point the parser's state, what it holds back and why,
// the events, the message, and the frames of the three protocols.
//
// One call brings the whole trace. Moving the slider asks nobody: what is shown is a window on it,
// and costs as much however long the text is.

import { debounced } from "../server.js";
import { area, card, counted, number } from "../cards.js";
import { button, choice, element, tick } from "../dom.js";
import { EventsPane, FramesPane, HeldPane, MessagePane, StatePane, TextMap, TextPane } from "../panes.js";
import { Trace } from "../trace.js";

const SPEEDS = [15, 60, 400, 4000].map((speed) => [String(speed), `${number(speed)} steps a second`]);
const PROTOCOLS = [["chat", "Chat Completions"], ["responses", "Responses"], ["messages", "Messages"]];

export function mount(root, context) {
  new Stream(root, context);
}

class Stream {
  #context;
  #state;
  #known;
  /** @type {Trace | null} */
  #trace = null;
  #step = 0;
  #shown = -1;
  #turn = 0;
  /** @type {number | null} */
  #playing = null;
  #frame = 0;
  /** @type {Record<string, any>} */
  #parts = {};
  #controls = new Map();
  #text = new TextPane();
  #map = new TextMap();
  #panes = [];

  constructor(root, context) {
    this.#context = context;
    this.#state = context.state;
    root.append(element("p", { className: "notice faint" }, "Reading…"));
    context.call("stream", {}).then(
      (known) => {
        this.#known = known;
        root.replaceChildren();
        this.#build(root);
        this.#begin();
      },
      (error) => root.replaceChildren(problem(error.message)),
    );
  }

  // What the link says, or the first example.

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

  /** What api/trace is asked. */
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
    this.#state.onChange((_, names) => {
      if (!names.some((name) => name !== "step")) return;
      this.#sync();
      this.#later();
    });
  }

  /** Controls say what the state says: another view may have changed it. */
  #sync() {
    const said = this.#options;
    const { source, example, thinking, seed } = this.#parts;
    if (source.value !== said.text) source.value = said.text;
    const chosen = this.#known.examples.findIndex(({ text }) => text === said.text);
    example.querySelector("select").value = chosen < 0 ? "" : String(chosen);
    this.#sayExample(this.#known.examples[chosen]);
    thinking.querySelector("input").checked = said.thinking;
    seed.hidden = said.cut !== "random";
    for (const [name, control] of this.#controls) if (control.value !== said[name]) control.value = said[name];
  }

  #later = debounced(() => this.#ask(), 200);

  /** Asks for the trace, and shows it at a step: where the slider was, by the place in the text. */
  async #ask(step) {
    let body;
    try {
      body = this.#requestBody();
    } catch (error) {
      return this.#refuse(`tools: not JSON: ${error.message}`);
    }
    const turn = ++this.#turn;
    this.#parts.root.classList.add("busy");
    try {
      const answer = await this.#context.call("trace", body);
      if (answer === undefined) return;
      const atEnd = this.#trace !== null && this.#step >= this.#trace.steps;
      const place = this.#trace?.end(this.#step) ?? 0;
      const same = this.#trace?.text === body.text;
      const trace = new Trace(answer, body.text, this.#known.states);
      this.#trace = trace;
      this.#parts.problem.hidden = true;
      this.#parts.slider.max = String(trace.steps);
      this.#parts.repairs.hidden = !trace.repairs.length;
      this.#map.show(trace);
      const kept = atEnd ? trace.steps : trace.stepAt(place);
      this.#shown = -1;
      this.#go(step ?? (same ? kept : (trace.repair(0, 1) ?? 0)));
    } catch (error) {
      const path = error.problem?.path;
      this.#refuse(path ? `${path}: ${error.message}` : error.message);
    } finally {
      if (turn === this.#turn) this.#parts.root.classList.remove("busy");
    }
  }

  #refuse(words) {
    this.#pause();
    this.#parts.problem.textContent = words;
    this.#parts.problem.hidden = false;
  }

  // Moving.

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
    const tickOn = (now) => {
      owed += ((now - last) / 1000) * Number(this.#parts.speed.value);
      last = now;
      if (owed >= 1) {
        this.#go(this.#step + Math.floor(owed));
        owed %= 1;
      }
      if (this.#step >= (this.#trace ?? trace).steps) return this.#pause();
      this.#playing = requestAnimationFrame(tickOn);
    };
    this.#playing = requestAnimationFrame(tickOn);
    this.#playButton();
  }

  #pause() {
    if (this.#playing === null) return;
    cancelAnimationFrame(this.#playing);
    this.#playing = null;
    this.#playButton();
  }

  #toggle = () => (this.#playing === null ? this.#play() : this.#pause());

  #playButton() {
    const { play } = this.#parts;
    const plays = this.#playing !== null;
    play.textContent = plays ? "Pause" : "Play";
    play.classList.toggle("primary", !plays);
  }

  #by = (steps) => {
    this.#pause();
    this.#go(this.#step + steps);
  };

  #to = (step) => {
    this.#pause();
    if (step !== null) this.#go(step);
  };

  #keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = event.target;
    if (at.matches("textarea, input:not([type=range]), select")) return;
    // Buttons and the slider have keys of their own.
    const own = at.matches("button, summary, a") ? [" "] : [];
    const slides = at.matches("input[type=range]");
    const trace = this.#trace;
    if (!trace) return;
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
    if (!keys[event.key] || own.includes(event.key)) return;
    event.preventDefault();
    keys[event.key]();
  }

  // What is drawn once.

  #build(root) {
    const parts = this.#parts;
    parts.root = root;
    root.append(this.#toolbar(), this.#player(), this.#points());
    root.addEventListener("keydown", (event) => this.#keys(event));
    if (!this.#options.text) this.#edit(true);
  }

  #set = (name) => (value) => this.#state.set({ [name]: value });

  #toolbar() {
    const said = this.#options;
    const { settings } = this.#context;
    const parts = this.#parts;
    const examples = this.#known.examples;
    const chosen = examples.findIndex(({ text }) => text === said.text);
    parts.example = choice(
      "Example",
      [["", "Your own"], ...examples.map(({ name }, n) => [String(n), name])],
      chosen < 0 ? "" : String(chosen),
      (n) => this.#takeExample(n),
    );
    const cuts = [["character", "By character"], ["token", "By token"], ["random", "By random cuts"]];
    parts.cut = choice("Cut", cuts, said.cut, this.#set("cut"));
    if (!settings.tokens) {
      const token = parts.cut.querySelector("option[value=token]");
      token.disabled = true;
      token.textContent = "By token (needs the extra tokens)";
    }
    const seed = element("input", {
      type: "number", id: "stream-seed", value: String(said.seed), min: 0, step: 1,
      onchange: () => this.#state.set({ seed: Number.parseInt(seed.value, 10) || 0 }),
    });
    parts.seed = element("span", { className: "choice" }, element("label", { htmlFor: "stream-seed" }, "Seed"), seed);
    parts.seed.hidden = said.cut !== "random";
    parts.thinking = tick("Begins in reasoning", said.thinking, this.#set("thinking"));
    const reasons = [["", "unknown"], ["stop", "the model ended it"], ["length", "it was cut"]];
    const dialects = settings.dialects.map(({ name }) => [name, name]);
    const stop = area("Stop strings, one a line; \\n is a line break", said.stop, 2, this.#set("stop"));
    const tools = area("Tools, as a JSON list; nothing: not known", said.tools, 8, this.#set("tools"));
    const choices = [
      ["dialect", "Dialect", dialects],
      ["calls", "Calls", [["streamed", "as they come"], ["whole", "once complete"]]],
      ["tool_choice", "Tool choice", [["auto", "auto"], ["none", "none"]]],
      ["reason", "Why it ended", reasons],
    ];
    const rest = choices.map(([name, label, options]) => choice(label, options, said[name], this.#set(name)));
    /** @type {[string, any][]} */
    const controls = [
      ...choices.map(([name], n) => /** @type {[string, any]} */ ([name, rest[n].querySelector("select")])),
      ["cut", parts.cut.querySelector("select")],
      ["tools", tools.querySelector("textarea")],
      ["stop", stop.querySelector("textarea")],
    ];
    this.#controls = new Map(controls);
    return element(
      "div",
      { className: "stream-options" },
      element(
        "div",
        { className: "toolbar" },
        parts.example, parts.cut, parts.seed, parts.thinking,
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
            rest,
            stop,
          ),
        ),
      ),
    );
  }

  #takeExample(n) {
    const example = this.#known.examples[Number(n)];
    this.#pause();
    if (n === "" || !example) {
      this.#parts.words.textContent = "";
      return this.#edit(true);
    }
    this.#edit(false);
    this.#state.set({ text: example.text, thinking: example.thinking, step: undefined });
  }

  #sayExample(example) {
    const rule = example?.rule ? ` Recovery rule ${example.rule}.` : "";
    this.#parts.words.textContent = example ? example.words + rule : "";
  }

  #player() {
    const parts = this.#parts;
    parts.slider = element("input", {
      type: "range", min: 0, max: 1, step: 1, value: 0, "aria-label": "Point in the completion",
      oninput: () => {
        this.#pause();
        this.#go(Number(parts.slider.value));
      },
    });
    parts.play = button("Play", this.#toggle, { className: "primary play", title: "Space" });
    parts.count = element("output", { className: "count faint" });
    const speeds = choice("Speed", SPEEDS, "60", () => {});
    parts.speed = speeds.querySelector("select");
    const step = (label, name, title, run) => button(label, run, { title, "aria-label": name });
    parts.repairs = element(
      "span",
      { className: "group" },
      step("‹ repair", "Previous repair", "[", () => this.#to(this.#trace?.repair(this.#step, -1) ?? null)),
      step("repair ›", "Next repair", "]", () => this.#to(this.#trace?.repair(this.#step, 1) ?? null)),
    );
    return element(
      "div",
      { className: "player" },
      element("div", { className: "track" }, this.#map.root, parts.slider),
      element(
        "div",
        { className: "controls" },
        step("|‹", "To the start", "Home", () => this.#to(0)),
        step("‹ step", "One step back", "Left arrow", () => this.#by(-1)),
        parts.play,
        step("step ›", "One step on", "Right arrow", () => this.#by(1)),
        step("›|", "To the end", "End", () => this.#to(this.#trace?.steps ?? 0)),
        element(
          "span",
          { className: "group" },
          step("‹ change", "Previous change", "p", () => this.#to(this.#trace?.change(this.#step, -1) ?? null)),
          step("change ›", "Next change", "n", () => this.#to(this.#trace?.change(this.#step, 1) ?? null)),
        ),
        parts.repairs,
        speeds,
        parts.count,
      ),
    );
  }

  #points() {
    const parts = this.#parts;
    const said = this.#options;
    parts.problem = element("p", { className: "problem", role: "alert", hidden: true });
    parts.words = element("p", { className: "words faint" });
    this.#sayExample(this.#known.examples.find(({ text }) => text === said.text));
    parts.source = element("textarea", {
      className: "source",
      "aria-label": "Completion",
      spellcheck: false,
      value: said.text,
      hidden: true,
      placeholder: "What the model wrote after the prompt. Type or paste it here.",
      oninput: () => this.#state.set({ text: parts.source.value }),
    });
    parts.edit = button("Edit", () => this.#edit(parts.source.hidden));
    const completion = card("completion", "Completion", [parts.edit], parts.words, parts.source, this.#text.root);
    const events = new EventsPane();
    const state = new StatePane(this.#known.states, this.#known.moves);
    const held = new HeldPane();
    const message = new MessagePane((place) => this.#to(this.#trace?.stepAt(place + 1) ?? null));
    const frames = PROTOCOLS.map(([name, title]) => new FramesPane(name, title));
    this.#panes = [this.#text, events, state, held, message, ...frames];
    const group = (className, ...content) => element("div", { className }, content);
    return group(
      "points",
      parts.problem,
      group("column", completion, events.root),
      group("column", state.root, held.root, message.root),
      group("frames", ...frames.map(({ root }) => root)),
    );
  }

  #edit(on) {
    const { source, edit } = this.#parts;
    source.hidden = !on;
    this.#text.root.hidden = on;
    edit.textContent = on ? "Done" : "Edit";
    if (on) source.focus();
  }

  // What is drawn at each step.

  #show() {
    const trace = this.#trace;
    if (!trace || this.#shown === this.#step) return;
    this.#shown = this.#step;
    const at = trace.at(this.#step);
    this.#showPlace(trace, at);
    for (const pane of this.#panes) pane.show(trace, this.#step, at);
    this.#state.set({ step: this.#step });
  }

  #showPlace({ steps, text }, { state, start, end }) {
    const { slider, count } = this.#parts;
    slider.value = String(this.#step);
    const ended = this.#step >= steps ? ", the end" : "";
    const words = `Step ${number(this.#step)} of ${number(steps)}${ended}`;
    const held = end > start ? `${number(end - start)} held` : "Nothing held";
    slider.setAttribute("aria-valuetext", `${words}. ${state}. ${held}.`);
    count.textContent = `${words} · ${number(end)} of ${counted(text.length, "character")}`;
  }
}

// Stop strings stand one in a line.
const unescaped = (line) => line.replace(/\\n/g, "\n").replace(/\\t/g, "\t");
const problem = (words) => element("p", { className: "notice problem", role: "alert" }, words);
