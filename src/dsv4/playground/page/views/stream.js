// A completion, and how it is read: at every point the parser's state, what it holds back and why,
// the events, the message, and the frames of the three protocols.
//
// One call brings the whole trace. Moving the slider asks nobody: what is shown is a window on it,
// and costs as much however long the text is.

import { debounced } from "../calls.js";
import { area, card, counted, number } from "../cards.js";
import { brief, harmless, whole } from "../characters.js";
import { Diagram } from "../diagram.js";
import { button, choice, element, tick } from "../dom.js";
import { Trace } from "../trace.js";

// How much is shown: characters before and after the point, rows, characters of a text, frames.
const BEFORE = 2400;
const AFTER = 800;
const MARKS = 200;
const ROWS = 60;
const TEXT = 1600;
const CALLS = 12;
const FRAMES = 24;
const LONGEST_ROW = 160;
const LONGEST_FRAME = 420;
const SEGMENTS = 200;
const SPEEDS = [["15", "15 steps a second"], ["60", "60 steps a second"], ["400", "400 steps a second"], ["4000", "4,000 steps a second"]];
const PROTOCOLS = [["chat", "Chat Completions"], ["responses", "Responses"], ["messages", "Messages"]];
const KINDS = {
  ReasoningDelta: "reasoning", ContentDelta: "content", ToolCallStart: "call", ArgumentsDelta: "call",
  ToolCallEnd: "call", ToolCallAborted: "repair", Diagnostic: "repair", StopHit: "end", End: "end",
};
const FAMILY_WORDS = {
  prose: "reasoning or content", block: "between tags", value: "the value of a parameter",
  rare: "something malformed", gone: "removed",
};
const FAMILIES = {
  PROSE: "prose", AFTER: "prose", BLOCK: "block", INVOKE: "block", VALUE: "value", JSON: "value",
  HALTED: "gone", INVENTED: "gone",
};

export function mount(root, context) {
  new Stream(root, context);
}

class Stream {
  #context;
  #state;
  #known;
  #trace = null;
  #step = 0;
  #shown = -1;
  #playing = null;
  #frame = 0;
  #parts = {};
  #controls = new Map();
  #diagram;

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
  #asked() {
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
    this.#ask(Number.isFinite(asked) ? asked : 0);
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
      body = this.#asked();
    } catch (error) {
      return this.#refuse(`tools: not JSON: ${error.message}`);
    }
    this.#parts.root.classList.add("busy");
    try {
      const told = await this.#context.call("trace", body);
      if (told === undefined) return;
      const atEnd = this.#trace !== null && this.#step >= this.#trace.steps;
      const place = this.#trace?.end(this.#step) ?? 0;
      const same = this.#trace?.text === body.text;
      this.#trace = new Trace(told, body.text, this.#known.states);
      this.#parts.problem.hidden = true;
      this.#fitSlider();
      this.#drawStrip();
      const kept = atEnd ? this.#trace.steps : this.#trace.stepAt(place);
      this.#shown = -1;
      this.#go(step ?? (same ? kept : 0));
    } catch (error) {
      const path = error.problem?.path;
      this.#refuse(path ? `${path}: ${error.message}` : error.message);
    } finally {
      this.#parts.root.classList.remove("busy");
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
    if (!this.#trace) return;
    if (this.#step >= this.#trace.steps) this.#go(0);
    let last = performance.now();
    let owed = 0;
    const tickOn = (now) => {
      owed += ((now - last) / 1000) * Number(this.#parts.speed.value);
      last = now;
      if (owed >= 1) {
        this.#go(this.#step + Math.floor(owed));
        owed %= 1;
      }
      if (this.#step >= this.#trace.steps) return this.#pause();
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
    const steps = this.#trace?.steps ?? 0;
    const keys = {
      " ": () => this.#toggle(),
      n: () => this.#to(this.#trace.change(this.#step, 1)),
      p: () => this.#to(this.#trace.change(this.#step, -1)),
      "]": () => this.#to(this.#trace.repair(this.#step, 1)),
      "[": () => this.#to(this.#trace.repair(this.#step, -1)),
      ...(slides
        ? {}
        : {
            ArrowRight: () => this.#by(1),
            ArrowLeft: () => this.#by(-1),
            Home: () => this.#to(0),
            End: () => this.#to(steps),
          }),
    };
    if (!keys[event.key] || own.includes(event.key) || !this.#trace) return;
    event.preventDefault();
    keys[event.key]();
  }

  // What is drawn once.

  #build(root) {
    const parts = this.#parts;
    parts.root = root;
    this.#diagram = new Diagram(this.#known.states, this.#known.moves);
    root.append(this.#toolbar(), this.#player(), this.#panes());
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
    this.#controls = new Map([
      ...choices.map(([name], n) => [name, rest[n].querySelector("select")]),
      ["cut", parts.cut.querySelector("select")],
      ["tools", tools.querySelector("textarea")],
      ["stop", stop.querySelector("textarea")],
    ]);
    return element(
      "div",
      { className: "stream-options" },
      element(
        "div",
        { className: "toolbar" },
        parts.example, parts.cut, parts.seed, parts.thinking,
        this.#context.copy(() => this.#asked()),
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
    this.#state.set({ text: example.text, thinking: example.thinking, step: 0 });
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
    parts.strip = element("div", { className: "map", "aria-hidden": "true" });
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
      element("div", { className: "track" }, parts.strip, parts.slider),
      element(
        "div",
        { className: "controls" },
        step("|‹", "To the start", "Home", () => this.#to(0)),
        step("−1", "One step back", "Left arrow", () => this.#by(-1)),
        parts.play,
        step("+1", "One step on", "Right arrow", () => this.#by(1)),
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

  #panes() {
    const parts = this.#parts;
    const said = this.#options;
    parts.problem = element("p", { className: "problem", role: "alert", hidden: true });
    parts.words = element("p", { className: "words faint" });
    this.#sayExample(this.#known.examples.find(({ text }) => text === said.text));
    parts.source = element("textarea", {
      className: "source", "aria-label": "Completion", spellcheck: false, value: said.text, hidden: true,
      placeholder: "What the model wrote after the prompt. Type or paste it here.",
      oninput: () => this.#state.set({ text: parts.source.value }),
    });
    parts.text = element("div", { className: "text", tabIndex: 0, role: "region", "aria-label": "Completion, as far as it has come" });
    parts.edit = button("Edit", () => this.#edit(parts.source.hidden), { "aria-pressed": "false" });
    parts.state = element("p", { className: "state-words" });
    parts.held = element("pre", { className: "held-text", tabIndex: 0 });
    parts.why = element("p", { className: "why" });
    parts.events = element("ol", { className: "events", tabIndex: 0, "aria-label": "Events so far" });
    parts.eventCount = element("span", { className: "faint" });
    parts.message = element("div", { className: "message" });
    parts.strict = element("div", { className: "strict" });
    parts.frames = new Map();
    return element(
      "div",
      { className: "points" },
      parts.problem,
      element(
        "div",
        { className: "column" },
        card("completion", "Completion", [parts.edit], parts.words, parts.source, parts.text),
        card("event-list", "Events", [parts.eventCount], parts.events),
      ),
      element(
        "div",
        { className: "column" },
        card("state", "State", [], this.#diagram.root, parts.state),
        card("held", "Held back", [], parts.held, parts.why),
        card(
          "readings", "Message", [],
          element("div", { className: "sides", tabIndex: 0, role: "group", "aria-label": "Message so far" },
            element("div", {}, element("h3", {}, "Tolerant"), parts.message),
            element("div", {}, element("h3", {}, "Strict"), parts.strict)),
        ),
      ),
      element(
        "div",
        { className: "frames" },
        PROTOCOLS.map(([name, title]) => {
          const count = element("span", { className: "faint" });
          const list = element("ol", { tabIndex: 0, "aria-label": `Frames of ${title} so far` });
          parts.frames.set(name, { count, list });
          return card(`protocol ${name}`, title, [count], list);
        }),
      ),
    );
  }

  #edit(on) {
    const { source, text, edit } = this.#parts;
    source.hidden = !on;
    text.hidden = on;
    edit.textContent = on ? "Done" : "Edit";
    edit.setAttribute("aria-pressed", String(on));
    if (on) source.focus();
  }

  #fitSlider() {
    this.#parts.slider.max = String(this.#trace.steps);
    this.#parts.repairs.hidden = !this.#trace.repairs.length;
  }

  /** The whole text as a strip: what is read where, and where repairs are. */
  #drawStrip() {
    const trace = this.#trace;
    const pieces = [];
    const count = Math.min(SEGMENTS, trace.steps);
    let last = null;
    for (let n = 0; n < count; n++) {
      const { state } = trace.at(Math.round(((n + 0.5) * trace.steps) / count));
      const family = FAMILIES[state] ?? "rare";
      if (last?.family === family) last.size++;
      else pieces.push((last = { family, size: 1 }));
    }
    const places = new Set(trace.repairs.map(({ step }) => Math.round((step / trace.steps) * SEGMENTS)));
    this.#parts.strip.replaceChildren(
      ...pieces.map(({ family, size }) => {
        const piece = element("span", { className: family, title: FAMILY_WORDS[family] });
        piece.style.flexGrow = size;
        return piece;
      }),
      ...[...places].map((place) => {
        const mark = element("i", {});
        mark.style.left = `${(place / SEGMENTS) * 100}%`;
        return mark;
      }),
    );
  }

  // What is drawn at each step.

  #show() {
    const trace = this.#trace;
    const step = this.#step;
    if (this.#shown === step) return;
    this.#shown = step;
    const at = trace.at(step);
    this.#showPlace(at);
    this.#showText(at);
    this.#diagram.light(at, trace.seen(step));
    this.#showState(at);
    this.#showEvents();
    this.#showMessage();
    this.#showStrict();
    for (const [name] of PROTOCOLS) this.#showFrames(name);
    this.#state.set({ step });
  }

  #showPlace(at) {
    const { slider, count } = this.#parts;
    const { steps, text } = this.#trace;
    slider.value = String(this.#step);
    const held = at.end - at.start;
    const ended = this.#step >= steps ? ", the end" : "";
    const words = `Step ${number(this.#step)} of ${number(steps)}${ended}`;
    slider.setAttribute("aria-valuetext", `${words}. ${at.state}. ${held ? `${held} held` : "Nothing held"}.`);
    count.textContent = `${words} · ${number(at.end)} of ${number(text.length)} characters`;
  }

  /** The text around the point: what is done with, what is held, what is to come; repairs marked. */
  #showText(at) {
    const { text, repairs } = this.#trace;
    const from = lineStart(text, Math.max(0, at.end - BEFORE), at.end - 2 * BEFORE);
    const to = whole(text, Math.min(text.length, at.end + AFTER));
    const made = repairs
      .filter((repair) => repair.step <= this.#step && repair.start <= to && repair.end >= from)
      .slice(-MARKS);
    const borders = [from, at.start, at.end, to, ...made.flatMap(({ start, end }) => [start, end])];
    const places = [...new Set(borders)].filter((p) => p >= from && p <= to).sort((a, b) => a - b);
    const nodes = [];
    if (from > 0) nodes.push(element("span", { className: "elided" }, `… ${number(from)} characters before\n`));
    let cursor = null;
    places.forEach((place, n) => {
      if (place === at.end) nodes.push((cursor = element("span", { className: "cursor" })));
      for (const repair of made) if (repair.start === place) nodes.push(this.#mark(repair));
      const next = places[n + 1];
      if (next === undefined) return;
      const kind = place >= at.end ? "ahead" : place >= at.start ? "held" : "done";
      const repaired = made.some(({ start, end }) => start <= place && end >= next);
      nodes.push(element("span", { className: repaired ? `${kind} repaired` : kind }, harmless(text.slice(place, next))));
    });
    if (to < text.length) nodes.push(element("span", { className: "elided" }, `\n… ${number(text.length - to)} characters to come`));
    const pane = this.#parts.text;
    pane.replaceChildren(...nodes);
    if (cursor && !pane.hidden) {
      const place = cursor.offsetTop - pane.offsetTop;
      if (place < pane.scrollTop + 24 || place > pane.scrollTop + pane.clientHeight - 48)
        pane.scrollTop = place - pane.clientHeight * 0.6;
    }
  }

  #mark = ({ number: n, kind, sentence }) =>
    element("sup", { className: "repair-mark", title: `${kind}: ${sentence}` }, String(n));

  #showState(at) {
    const { state, held, why } = this.#parts;
    state.replaceChildren(element("code", {}, at.state), ` ${at.words}`);
    const waits = this.#trace.text.slice(at.start, at.end);
    const { rule, reason } = at.hold;
    held.textContent = waits ? shownHeld(waits) : "";
    held.hidden = !waits;
    const ruled = rule === null ? "" : ` Recovery rule ${rule}.`;
    const words = `${reason.charAt(0).toUpperCase()}${reason.slice(1)}.${ruled} `;
    why.textContent = waits ? `${words}${counted(waits.length, "character")}.` : "Nothing is held.";
    why.classList.toggle("faint", !waits);
  }

  #showEvents() {
    const trace = this.#trace;
    const count = trace.rowsAt(this.#step);
    const from = Math.max(0, count - ROWS);
    const rows = [];
    if (from) rows.push(element("li", { className: "elided" }, `… ${number(from)} earlier`));
    for (let n = from; n < count; n++) rows.push(this.#eventRow(trace.row(n, this.#step), n));
    const { events, eventCount } = this.#parts;
    events.replaceChildren(...rows);
    events.scrollTop = events.scrollHeight;
    eventCount.textContent = counted(count, "row");
  }

  #eventRow(row, n) {
    const details = {
      ToolCallStart: () => `${row.index}: ${row.namespace === null ? "" : `${row.namespace}::`}${row.name}, ${row.id}`,
      ToolCallEnd: () => String(row.index),
      ToolCallAborted: () => `${row.index}: ${row.reason}; closing ${row.closing}`,
      Diagnostic: () => `${row.kind}. ${row.sentence}`,
      StopHit: () => row.string,
      End: () => row.finish,
    };
    const text = row.text ?? details[row.type]?.() ?? "";
    const mark = row.type === "Diagnostic" ? element("sup", { className: "repair-mark" }, String(this.#trace.numberOf(n))) : null;
    const isNew = row.step === this.#step || (row.runs && n === this.#trace.rowsAt(this.#step) - 1);
    const most = row.type === "Diagnostic" ? 400 : LONGEST_ROW;
    return element(
      "li",
      { className: isNew ? "new" : "" },
      element("span", { className: `pill ${KINDS[row.type] ?? "end"}` }, row.type),
      mark,
      element("span", { className: row.runs ? "said mono" : "said" }, brief(text, most)),
      row.deltas > 1 ? element("span", { className: "faint times" }, `×${number(row.deltas)}`) : null,
    );
  }

  #showMessage() {
    const { reasoning, content, calls, callsBefore, finish } = this.#trace.messageAt(this.#step, TEXT, CALLS);
    const field = (name, { before, text }, kind) =>
      before || text ? [element("h4", {}, name), element("pre", { className: kind }, before ? element("span", { className: "elided" }, `… ${number(before)} characters before\n`) : null, harmless(text))] : [];
    const nodes = [
      ...field("Reasoning", reasoning, "reasoning"),
      ...field("Content", content, "content"),
      callsBefore ? element("p", { className: "faint" }, `… ${counted(callsBefore, "call")} before`) : null,
      ...calls.flatMap((call) => [
        element("h4", {}, "Call ", element("code", {}, harmless(call.namespace === null ? call.name : `${call.namespace}::${call.name}`)), " ",
          element("span", { className: `status ${call.status}` }, call.status)),
        element("pre", { className: "call" }, call.text.before ? element("span", { className: "elided" }, `… ${number(call.text.before)} characters before\n`) : null, harmless(call.text.text)),
      ]),
      finish ? element("p", { className: "finish" }, "Finish ", element("code", {}, finish)) : null,
    ].filter(Boolean);
    this.#parts.message.replaceChildren(...(nodes.length ? nodes : [element("p", { className: "faint" }, "Nothing yet.")]));
  }

  /** The strict grammar reads whole turns: before the end it says nothing. */
  #showStrict() {
    const { strict, steps } = this.#trace;
    const nodes = [];
    if (this.#step < steps) {
      nodes.push(element("p", { className: "faint" }, "Holds everything until the end."));
    } else if (!strict.accepts) {
      nodes.push(element("p", { className: "verdict problem" }, "Refused"));
      nodes.push(element("p", {}, `At character ${number(strict.position)}: ${harmless(strict.problem)}.`));
      nodes.push(button("Show the place", () => this.#to(this.#trace.stepAt(strict.position + 1))));
    } else {
      nodes.push(element("p", { className: "verdict good" }, "Accepted"));
      nodes.push(element("p", {}, strict.message ? "It reads another message:" : "The message is the same."));
      if (strict.message) nodes.push(element("pre", {}, harmless(brief(JSON.stringify(strict.message, null, 1), TEXT))));
    }
    this.#parts.strict.replaceChildren(...nodes);
  }

  #showFrames(name) {
    const trace = this.#trace;
    const { list, count } = this.#parts.frames.get(name);
    const sent = trace.frameCount(name, this.#step);
    const from = Math.max(0, sent - FRAMES);
    const rows = [];
    if (from) rows.push(element("li", { className: "elided" }, `… ${number(from)} earlier`));
    for (let n = from; n < sent; n++) {
      const { frame, step } = trace.frame(name, n);
      rows.push(
        element(
          "li",
          { className: step === this.#step ? "new" : "" },
          frame.type ? element("b", {}, frame.type) : null,
          element("code", {}, brief(JSON.stringify(name === "chat" ? frame.choices : untyped(frame)), LONGEST_FRAME)),
        ),
      );
    }
    if (!trace.isFramed(name) && this.#step >= trace.steps)
      rows.push(element("li", { className: "elided" }, "The text has more events than frames are shown for."));
    list.replaceChildren(...rows);
    list.scrollTop = list.scrollHeight;
    count.textContent = counted(sent, "frame");
  }
}

// Small things.

const untyped = ({ type, ...frame }) => frame;
const unescaped = (line) => line.replace(/\\n/g, "\n").replace(/\\t/g, "\t");
const problem = (words) => element("p", { className: "notice problem", role: "alert" }, words);

/** What is held, its end where it is long. */
function shownHeld(text) {
  const cut = whole(text, Math.max(0, text.length - TEXT));
  return (cut ? `… ${number(cut)} characters before\n` : "") + harmless(text.slice(cut)).replace(/\n/g, "↵\n");
}

/** The start of the line that a place is on, if it is not before `least`. */
function lineStart(text, place, least) {
  const found = text.lastIndexOf("\n", place - 1) + 1;
  return found >= least ? found : whole(text, place);
}
