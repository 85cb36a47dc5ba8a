// The panes of the Stream view for a step: `show(trace, step, at)` draws each, where `at` is the
// result of `trace.at(step)`. Each shows a window, so that drawing costs the same in any text.

import { card, counted, number } from "./cards.js";
import { brief, harmless, whole } from "./characters.js";
import { Diagram } from "./diagram.js";
import { button, element } from "./dom.js";

/** @typedef {import("./trace.js").Trace} Trace */
/** @typedef {ReturnType<Trace["at"]>} Moment */
/** @typedef {ReturnType<Trace["messageAt"]>} MessageSoFar */

/**
 * @param {string} words
 * @param {"span" | "li"} name
 */
const elided = (words, name = "span") => element(name, { className: "elided" }, words);

/**
 * The end of a text in a box, and how much is before it.
 * @param {string} kind
 * @param {{ before: number, text: string }} said
 */
const ending = (kind, { before, text }) =>
  element(
    "pre",
    { className: kind },
    before ? elided(`… ${counted(before, "character")} before\n`) : null,
    harmless(text),
  );

/**
 * @param {number} n
 * @param {string} [title]
 */
const repairMark = (n, title) =>
  element("sup", { className: "repair-mark", title }, String(n));

/** The whole text as a strip: what is read where, and where repairs are. Drawn once for a trace. */
export class TextMap {
  root = element("div", { className: "map", "aria-hidden": "true" });
  static #SEGMENTS = 200;
  /** @type {Record<string, string>} */
  static #WORDS = {
    prose: "reasoning or content",
    block: "between tags",
    value: "the value of a parameter",
    rare: "something malformed",
    gone: "removed",
  };
  /** @type {Record<string, string>} */
  static #KINDS = {
    PROSE: "prose", AFTER: "prose", BLOCK: "block", INVOKE: "block", VALUE: "value", JSON: "value",
    HALTED: "gone", INVENTED: "gone",
  };

  /** @param {Trace} trace */
  show(trace) {
    const count = Math.min(TextMap.#SEGMENTS, trace.steps);
    /** @type {{ kind: string, size: number }[]} */
    const runs = [];
    for (let n = 0; n < count; n++) {
      const { state } = trace.at(Math.round(((n + 0.5) * trace.steps) / count));
      const kind = TextMap.#KINDS[state] ?? "rare";
      const last = runs.at(-1);
      if (last && last.kind === kind) last.size++;
      else runs.push({ kind, size: 1 });
    }
    /** @param {number} step */
    const share = (step) => Math.round((step / trace.steps) * TextMap.#SEGMENTS) / TextMap.#SEGMENTS;
    const places = new Set(trace.repairs.map(({ step }) => share(step)));
    this.root.replaceChildren(...runs.map(this.#run), ...[...places].map(this.#repair));
  }

  /** @param {{ kind: string, size: number }} run */
  #run({ kind, size }) {
    const piece = element("span", { className: kind, title: TextMap.#WORDS[kind] });
    piece.style.flexGrow = String(size);
    return piece;
  }

  /** @param {number} place */
  #repair(place) {
    const mark = element("i", {});
    mark.style.left = `${place * 100}%`;
    return mark;
  }
}

/** The text around the point: what is done with, what is held, what is to come; repairs marked. */
export class TextPane {
  root = element("div", {
    className: "text",
    tabIndex: 0,
    role: "region",
    "aria-label": "Completion, as far as it has come",
  });
  static #BEFORE = 2400;
  static #AFTER = 800;
  static #MARKS = 200;

  /**
   * @param {Trace} trace
   * @param {number} step
   * @param {Moment} at
   */
  show({ text, repairs }, step, { start, end }) {
    const from = lineStart(text, Math.max(0, end - TextPane.#BEFORE), end - 2 * TextPane.#BEFORE);
    const to = whole(text, Math.min(text.length, end + TextPane.#AFTER));
    const made = repairs
      .filter((repair) => repair.step <= step && repair.start <= to && repair.end >= from)
      .slice(-TextPane.#MARKS);
    const cursor = element("span", { className: "cursor" });
    /** @type {Node[]} */
    const nodes = from ? [elided(`… ${counted(from, "character")} before\n`)] : [];
    const places = borders([from, start, end, to, ...made.flatMap((r) => [r.start, r.end])], from, to);
    places.forEach((place, n) => {
      if (place === end) nodes.push(cursor);
      for (const repair of made)
        if (repair.start === place)
          nodes.push(repairMark(repair.number, `${repair.kind}: ${repair.sentence}`));
      const next = places[n + 1];
      if (next === undefined) return;
      const kind = place >= end ? "ahead" : place >= start ? "held" : "done";
      const repaired = made.some((r) => r.start <= place && r.end >= next) ? " repaired" : "";
      nodes.push(element("span", { className: kind + repaired }, harmless(text.slice(place, next))));
    });
    if (to < text.length) nodes.push(elided(`\n… ${counted(text.length - to, "character")} to come`));
    this.root.replaceChildren(...nodes);
    this.#reveal(cursor);
  }

  /** @param {HTMLElement} cursor */
  #reveal({ offsetTop }) {
    const { scrollTop, clientHeight } = this.root;
    if (offsetTop < scrollTop + 24 || offsetTop > scrollTop + clientHeight - 48)
      this.root.scrollTop = offsetTop - clientHeight * 0.6;
  }
}

/**
 * @param {number[]} places
 * @param {number} from
 * @param {number} to
 */
const borders = (places, from, to) =>
  [...new Set(places)].filter((place) => place >= from && place <= to).sort((a, b) => a - b);

/**
 * The start of the line that a place is on, if it is not before `least`.
 * @param {string} text
 * @param {number} place
 * @param {number} least
 */
function lineStart(text, place, least) {
  const found = text.lastIndexOf("\n", place - 1) + 1;
  return found >= least ? found : whole(text, place);
}

export class StatePane {
  #diagram;
  #words = element("p", { className: "state-words" });

  /**
   * @param {ConstructorParameters<typeof Diagram>[0]} states
   * @param {ConstructorParameters<typeof Diagram>[1]} moves
   */
  constructor(states, moves) {
    this.#diagram = new Diagram(states, moves);
    const title = element("summary", {}, "Diagram of all states");
    const diagram = element("details", { className: "all-states" }, title, this.#diagram.root);
    this.root = card("state", "State", [], this.#words, diagram);
  }

  /**
   * @param {Trace} trace
   * @param {number} step
   * @param {Moment} at
   */
  show(trace, step, at) {
    this.#diagram.light(at, trace.seen(step));
    this.#words.replaceChildren(element("code", {}, at.state), ` ${at.words}`);
  }
}

export class HeldPane {
  #text = element("pre", { className: "held-text", tabIndex: 0 });
  #why = element("p", {});
  root = card("held", "Held back", [], this.#text, this.#why);
  static #TEXT = 1600;

  /**
   * @param {Trace} trace
   * @param {number} _step
   * @param {Moment} at
   */
  show({ text }, _step, { start, end, hold: { rule, reason } }) {
    const length = end - start;
    this.#text.hidden = !length;
    this.#why.classList.toggle("faint", !length);
    if (!length) {
      this.#text.textContent = "";
      this.#why.textContent = "Nothing is held.";
      return;
    }
    const from = whole(text, Math.max(start, end - HeldPane.#TEXT));
    const before = from > start ? `… ${counted(from - start, "character")} before\n` : "";
    this.#text.textContent = before + harmless(text.slice(from, end)).replace(/\n/g, "↵\n");
    const ruled = rule === null ? "" : ` Recovery rule ${rule}.`;
    const words = reason.charAt(0).toUpperCase() + reason.slice(1);
    this.#why.textContent = `${words}.${ruled} ${counted(length, "character")}.`;
  }
}

export class EventsPane {
  #list = element("ol", { className: "events", tabIndex: 0, "aria-label": "Events so far" });
  #count = element("span", { className: "faint" });
  root = card("event-list", "Events", [this.#count], this.#list);
  static #ROWS = 60;
  static #LONGEST = 160;
  /** @type {Record<string, string>} */
  static #KINDS = {
    ReasoningDelta: "reasoning", ContentDelta: "content",
    ToolCallStart: "call", ArgumentsDelta: "call", ToolCallEnd: "call",
    ToolCallAborted: "repair", Diagnostic: "repair", StopHit: "end", End: "end",
  };
  /** @type {Record<string, (row: import("./types.js").TraceRow) => string>} */
  static #WORDS = {
    ToolCallStart: ({ index, id, name, namespace }) =>
      `${index}: ${fullName({ name, namespace })}, ${id}`,
    ToolCallEnd: ({ index }) => String(index),
    ToolCallAborted: ({ index, reason, closing }) => `${index}: ${reason}; closing ${closing}`,
    StopHit: ({ string }) => string,
    End: ({ finish }) => finish,
  };

  /**
   * @param {Trace} trace
   * @param {number} step
   */
  show(trace, step) {
    const count = trace.rowsAt(step);
    const from = Math.max(0, count - EventsPane.#ROWS);
    const rows = from ? [elided(`… ${number(from)} earlier`, "li")] : [];
    for (let n = from; n < count; n++) {
      const row = trace.row(n, step);
      const isNew = row.step === step || (row.runs && n === count - 1);
      rows.push(element("li", { className: isNew ? "new" : "" }, this.#row(row, trace.numberOf(n))));
    }
    this.#list.replaceChildren(...rows);
    this.#list.scrollTop = this.#list.scrollHeight;
    this.#count.textContent = counted(count, "row");
  }

  /**
   * @param {ReturnType<Trace["row"]>} row
   * @param {number | undefined} repair
   */
  #row(row, repair) {
    const pill = element("span", { className: `pill ${EventsPane.#KINDS[row.type]}` }, row.type);
    if (repair) return [pill, repairMark(repair), element("span", { className: "said" }, `${row.kind}. ${row.sentence}`)];
    const text = row.text ?? EventsPane.#WORDS[row.type](row);
    return [
      pill,
      element("span", { className: row.runs ? "said mono" : "said" }, brief(text, EventsPane.#LONGEST)),
      row.deltas > 1 ? element("span", { className: "faint times" }, `×${number(row.deltas)}`) : null,
    ];
  }
}

/** @param {{ namespace: string | null, name: string }} call */
const fullName = ({ namespace, name }) => (namespace === null ? name : `${namespace}::${name}`);

const LIKE_ANSWER =
  "There are calls and no end of reasoning: this looks like an answer's text. Untick “Begins in reasoning”.";

/** The message so far, and beside it what the strict grammar says of the whole. */
export class MessagePane {
  #message = element("div", { className: "message" });
  #strict = element("div", { className: "strict" });
  #onplace;
  static #TEXT = 1600;
  static #CALLS = 12;

  /**
   * `onplace(place)` is called to go to a place of the text.
   * @param {(place: number) => void} onplace
   */
  constructor(onplace) {
    this.#onplace = onplace;
    /**
     * @param {string} title
     * @param {Node} content
     */
    const side = (title, content) => element("div", {}, element("h3", {}, title), content);
    this.root = card(
      "readings", "Message", [],
      element(
        "div",
        { className: "sides", tabIndex: 0, role: "group", "aria-label": "Message so far" },
        side("Tolerant", this.#message),
        side("Strict", this.#strict),
      ),
    );
  }

  /**
   * @param {Trace} trace
   * @param {number} step
   */
  show(trace, step) {
    const message = trace.messageAt(step, MessagePane.#TEXT, MessagePane.#CALLS);
    const nodes = this.#describe(message);
    if (!nodes.length) nodes.push(element("p", { className: "faint" }, "Nothing yet."));
    if (trace.isLikeAnswer && step >= trace.steps) nodes.push(element("p", {}, LIKE_ANSWER));
    this.#message.replaceChildren(...nodes);
    this.#strict.replaceChildren(...this.#judged(trace.strict, step >= trace.steps));
  }

  /** @param {MessageSoFar} message */
  #describe({ reasoning, content, calls, callsBefore, finish }) {
    /** @type {Node[]} */
    const nodes = [];
    for (const [name, said] of Object.entries({ Reasoning: reasoning, Content: content }))
      if (said.before || said.text)
        nodes.push(element("h4", {}, name), ending(name.toLowerCase(), said));
    if (callsBefore) nodes.push(element("p", { className: "faint" }, `… ${counted(callsBefore, "call")} before`));
    for (const call of calls) {
      const status = element("span", { className: `status ${call.status}` }, call.status);
      const name = element("code", {}, harmless(fullName(call)));
      nodes.push(element("h4", {}, "Call ", name, " ", status), ending("call", call.text));
    }
    if (finish) nodes.push(element("p", { className: "finish" }, "Finish ", element("code", {}, finish)));
    return nodes;
  }

  /**
   * The strict parser reads complete turns: before the end it has no result.
   * @param {import("./types.js").StrictResult} strict
   * @param {boolean} isEnd
   */
  #judged({ accepts, position = 0, problem = "", message }, isEnd) {
    if (!isEnd) return [element("p", { className: "faint" }, "Holds everything until the end.")];
    if (!accepts)
      return [
        element("p", { className: "verdict problem" }, "Refused"),
        element("p", {}, `At character ${number(position)}: ${harmless(problem)}.`),
        button("Show the place", () => this.#onplace(position)),
      ];
    const verdict = element("p", { className: "verdict good" }, "Accepted");
    if (!message) return [verdict, element("p", {}, "The message is the same.")];
    const other = brief(JSON.stringify(message), MessagePane.#TEXT);
    return [verdict, element("p", {}, "It reads another message:"), element("pre", {}, other)];
  }
}

/** The frames of a protocol. */
export class FramesPane {
  #name;
  #list;
  #count = element("span", { className: "faint" });
  static #FRAMES = 24;
  static #LONGEST = 420;

  /**
   * @param {string} name
   * @param {string} title
   */
  constructor(name, title) {
    this.#name = name;
    this.#list = element("ol", { tabIndex: 0, "aria-label": `Frames of ${title} so far` });
    this.root = card(`protocol ${name}`, title, [this.#count], this.#list);
  }

  /**
   * @param {Trace} trace
   * @param {number} step
   */
  show(trace, step) {
    const sent = trace.frameCount(this.#name, step);
    const from = Math.max(0, sent - FramesPane.#FRAMES);
    const rows = from ? [elided(`… ${number(from)} earlier`, "li")] : [];
    for (let n = from; n < sent; n++) rows.push(this.#row(trace.frame(this.#name, n), step));
    if (!trace.isFramed(this.#name) && step >= trace.steps)
      rows.push(elided("The text has more events than frames are shown for.", "li"));
    this.#list.replaceChildren(...rows);
    this.#list.scrollTop = this.#list.scrollHeight;
    this.#count.textContent = counted(sent, "frame");
  }

  /**
   * @param {ReturnType<Trace["frame"]>} sent
   * @param {number} now
   */
  #row({ frame: { type, ...frame }, step }, now) {
    const data = JSON.stringify(this.#name === "chat" ? frame.choices : frame);
    return element(
      "li",
      { className: step === now ? "new" : "" },
      type ? element("b", {}, type) : null,
      element("code", {}, brief(data, FramesPane.#LONGEST)),
    );
  }
}
