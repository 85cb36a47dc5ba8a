// The last requests that clients made, as they happen (dsv4 serve --inspect).

import { CallError, messageOf, post, postTo } from "./server.js";
import { counted, number } from "./cards.js";
import { brief, harmless, whole } from "./characters.js";
import { button, choice, element, tick } from "./dom.js";
import { drawnImage, liftedPictures } from "./pictures.js";
import { EVERYTHING, PROTOCOL_NAMES, clientName, isWanted } from "./requestfilter.js";
import { Rows } from "./rows.js";

/** @typedef {import("./requestfilter.js").RequestFilter} RequestFilter */
/** @typedef {import("./types.js").InspectedCompletion} InspectedCompletion */
/** @typedef {import("./types.js").InspectedRepair} InspectedRepair */
/** @typedef {import("./types.js").PromptAnswer} PromptAnswer */
/** @typedef {import("./types.js").RequestDetails} RequestDetails */
/** @typedef {import("./types.js").RequestSummary} RequestSummary */
/** @typedef {import("./types.js").SessionAnswer} SessionAnswer */
/** @typedef {import("./types.js").SessionNote} SessionNote */

const AGAIN = 2000; // after a failure, in milliseconds
const REFRESH = 400;
const TEXT = 20_000;
const NOTHING = "No requests yet. Point a client at this server.";

export class Inspector {
  #context;
  #root;
  #list = element("ol", { className: "requests", "aria-label": "Requests, the newest first" });
  #details = element("div", { className: "details" });
  #filters;
  #notice = element("p", { className: "faint" }, NOTHING);
  #filter = EVERYTHING;
  #matches = element("p", { className: "faint", role: "status" });
  /**
   * By number: the summary, its place in the list, and what chooses it.
   * @type {Map<number, { summary: RequestSummary, item: HTMLElement, control: HTMLElement }>}
   */
  #seen = new Map();
  /**
   * By id: the row of a session, and the list of its requests.
   * @type {Map<string, { item: HTMLElement, list: HTMLElement }>}
   */
  #sessions = new Map();
  /** @type {number | null} */
  #chosen = null;
  #name = "";
  #version = 0;
  #watches = false;
  /** @type {ReturnType<typeof setTimeout> | null} */
  #refresh = null;

  /** @param {import("./types.js").PageContext} context */
  constructor(context) {
    this.#context = context;
    this.#filters = this.#drawFilters();
    this.#root = element(
      "div", { className: "inspector" },
      this.#notice, this.#filters, this.#matches, this.#list, this.#details,
    );
    const clear = button("Clear", async () => {
      await postTo("inspector/clear", {});
      this.#choose(null);
    });
    this.beside = [clear];
  }

  get root() {
    return this.#root;
  }

  /** The filters of the requests, hidden while there are no requests. */
  #drawFilters() {
    /** @type {HTMLInputElement} */
    const text = element("input", {
      type: "search", placeholder: "Find text", "aria-label": "Requests with this text",
      oninput: () => this.#want({ text: text.value }),
    });
    const protocols = [["", "all"], ...Object.entries(PROTOCOL_NAMES)];
    return element(
      "div", { className: "filters", role: "group", "aria-label": "Requests to show", hidden: true },
      text,
      choice("API", protocols, "", (protocol) => this.#want({ protocol })),
      tick("With repairs only", false, (hasRepairs) => this.#want({ hasRepairs })),
    );
  }

  /** @param {Partial<RequestFilter>} change */
  #want(change) {
    this.#filter = { ...this.#filter, ...change };
    this.#sift();
  }

  /** Hides what is not wanted: requests, and sessions of which none is. */
  #sift() {
    let count = 0;
    for (const { summary, item } of this.#seen.values()) {
      item.hidden = !isWanted(summary, this.#filter);
      if (!item.hidden) count++;
    }
    for (const { item, list } of this.#sessions.values())
      item.hidden = !list.querySelector("li:not([hidden])");
    const all = this.#seen.size;
    this.#notice.hidden = all > 0;
    this.#notice.textContent = NOTHING;
    this.#filters.hidden = all === 0;
    this.#matches.hidden = count === all;
    this.#matches.textContent = count === all ? "" : `${number(count)} of ${counted(all, "request")}`;
  }

  /** Watches as long as the view is open. */
  async watch() {
    if (this.#watches) return;
    this.#watches = true;
    while (this.#root.offsetParent !== null) {
      try {
        const answer = await postTo("inspector/changes", { name: this.#name, since: this.#version });
        this.#take(answer);
      } catch (error) {
        this.#notice.hidden = false;
        this.#notice.textContent = messageOf(error);
        if (error instanceof CallError && (error.status === 401 || error.status === 403)) break;
        await new Promise((resolve) => setTimeout(resolve, AGAIN));
      }
    }
    this.#watches = false;
  }

  /** @param {import("./types.js").InspectorChanges} changes */
  #take({ name, version, changed, numbers }) {
    if (name !== this.#name) this.#forget(() => true);
    this.#name = name;
    this.#version = version;
    const known = new Set(numbers);
    this.#forget((n) => !known.has(n));
    for (const summary of changed) this.#show(summary);
    this.#sift();
  }

  /** @param {(number: number) => boolean} isGone */
  #forget(isGone) {
    for (const [n, { item }] of this.#seen)
      if (isGone(n)) {
        item.remove();
        this.#seen.delete(n);
      }
    for (const [id, { item, list }] of this.#sessions)
      if (!list.childElementCount) {
        item.remove();
        this.#sessions.delete(id);
      }
  }

  /** @param {RequestSummary} summary */
  #show(summary) {
    const n = summary.number;
    const { item, control } = this.#seen.get(n) ?? this.#add(summary);
    control.replaceChildren(...row(summary));
    this.#seen.set(n, { summary, item, control });
    if (n === this.#chosen) this.#later();
  }

  /** @param {RequestSummary} summary */
  #add({ number: n, session }) {
    const control = button("", () => this.#choose(n), { className: "request" });
    control.setAttribute("aria-current", String(n === this.#chosen));
    const item = element("li", {}, control);
    this.#place(session).prepend(item);
    return { item, control };
  }

  /**
   * The list that requests are added to: a session is one row, with its requests below it.
   * @param {string | null} id
   */
  #place(id) {
    if (!id) return this.#list;
    const known = this.#sessions.get(id);
    if (known) return known.list;
    const open = button("", () => this.#openSession(id), { className: "request" });
    open.append(element("b", {}, "Session "), harmless(id));
    const list = element("ol", { className: "requests", "aria-label": `Requests of the session ${harmless(id)}` });
    const item = element("li", {}, open, folded("Requests", () => [list]));
    this.#list.prepend(item);
    this.#sessions.set(id, { item, list });
    return list;
  }

  /** @param {string} id */
  async #openSession(id) {
    this.#choose(null);
    try {
      this.#details.replaceChildren(...sessionTurns(await postTo("inspector/session", { session: id })));
      this.#details.scrollIntoView({ block: "nearest" });
    } catch (error) {
      this.#details.replaceChildren(problemOf(error));
    }
  }

  /** @param {number | null} n */
  #choose(n) {
    this.#chosen = n;
    for (const [other, { control }] of this.#seen)
      control.setAttribute("aria-current", String(other === n));
    if (n === null) this.#details.replaceChildren();
    else this.#open(n, true);
  }

  /** A request that is still being answered is looked at again, now and then. */
  #later() {
    this.#refresh ??= setTimeout(() => {
      this.#refresh = null;
      if (this.#chosen !== null) this.#open(this.#chosen, false);
    }, REFRESH);
  }

  /**
   * @param {number} n
   * @param {boolean} scroll
   */
  async #open(n, scroll) {
    try {
      const answer = await postTo("inspector/request", { number: n });
      if (n !== this.#chosen) return;
      this.#details.replaceChildren(...this.#describe(answer));
      if (!scroll) return;
      this.#details.scrollIntoView({ block: "nearest" });
      // The list is half as high as it was.
      this.#seen.get(n)?.control.scrollIntoView({ block: "nearest" });
    } catch (error) {
      this.#details.replaceChildren(problemOf(error));
    }
  }

  /** @param {RequestDetails} answer */
  #describe(answer) {
    const facts = [
      ["Client", answer.client],
      ["Protocol", PROTOCOL_NAMES[answer.protocol]],
      ["Model", answer.model],
      ["Key", answer.owner === "-" ? "none" : answer.owner],
      ["Received", timeOf(answer)],
      ["Queued", seconds(answer.queued)],
      ["First token", seconds(answer.first)],
      ["Total", seconds(answer.total)],
      ["Prompt", answer.prompt_tokens === null ? "" : counted(answer.prompt_tokens, "token")],
      ["In a prefix cache", answer.shared_tokens === null ? "" : counted(answer.shared_tokens, "token")],
      ["Completion", answer.usage.completion === undefined ? "" : counted(answer.usage.completion, "token")],
      ["Reasoning", answer.usage.reasoning ? counted(answer.usage.reasoning, "token") : ""],
    ].filter(([, value]) => value);
    return [
      element("h3", {}, `Request ${answer.number} `, status(answer)),
      answer.problem ? element("p", { className: "problem" }, harmless(answer.problem)) : null,
      element("dl", {}, facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, harmless(value))))),
      ...this.#request(answer),
      ...answer.completions.flatMap((completion, n) => this.#completion(answer, completion, n)),
    ].filter((part) => part !== null);
  }

  /** @param {RequestDetails} answer */
  #request({ request, prompt, protocol }) {
    if (request === null) return [element("p", { className: "faint" }, "The request is too large to be kept.")];
    const open = button("Open in Prompt", () => {
      this.#context.request.set({ source: pretty(request), pictures: undefined, protocol });
      this.#context.go("prompt");
    });
    return [
      element("h4", {}, "Request and prompt"),
      element("p", { className: "row-of-buttons" }, open),
      folded(`Request, as it was sent (${counted(request.length, "character")})`, () => [
        raw(liftedPictures(pretty(request), {}).text),
      ]),
      HAS_PICTURES.test(request) ? folded("Pictures, and what they cost in V4.1", () => pictures(request, protocol)) : null,
      prompt === null
        ? null
        : folded(`Prompt, as the model got it (${counted(prompt.length, "character")})`, () =>
            promptRows(request, protocol, prompt)),
    ];
  }

  /**
   * @param {RequestDetails} answer
   * @param {InspectedCompletion} completion
   * @param {number} n
   */
  #completion({ options, completions }, { text, repairs, finish }, n) {
    const title = completions.length > 1 ? `Completion ${n + 1}` : "Completion";
    const open = button("Open in Stream", () => {
      this.#context.slice("stream").set({
        text,
        thinking: options.thinking,
        dialect: options.dialect,
        tools: pretty(options.tools ?? ""),
        step: 0,
      });
      this.#context.go("stream");
    });
    return [
      element("h4", {}, title, " ", finish ? element("code", {}, finish) : null),
      text ? element("p", { className: "row-of-buttons" }, open) : null,
      element("pre", { className: "raw", tabIndex: 0 }, marked(text, repairs)),
      repairs.length
        ? element(
            "ol",
            { className: "repairs" },
            repairs.slice(0, 200).map(({ kind, sentence }) => element("li", {}, element("code", {}, kind), ` ${sentence}`)),
          )
        : finish
          ? element("p", { className: "faint" }, "No repairs.")
          : null,
    ];
  }
}

/** @param {unknown} error */
const problemOf = (error) => element("p", { className: "problem", role: "alert" }, messageOf(error));

/** @param {SessionNote} noted */
const note = ({ call, kind, message }) => element("li", {}, element("code", {}, kind), ` ${harmless(message)} (${harmless(call ?? "")})`);
/** @param {SessionNote[]} listed */
const notes = (listed) => (listed.length ? element("ol", { className: "repairs" }, listed.map(note)) : null);

/**
 * The turns of a session: what was sampled in colour, by how sure the model was.
 * @param {SessionAnswer} session
 */
function sessionTurns({ id, summary, turns, notes: rest }) {
  const shown = turns.flatMap(({ trajectory, call, facts, notes: own, runs }, n) => [
    n === 0 || turns[n - 1].trajectory !== trajectory ? element("h4", {}, `Trajectory ${trajectory}`) : null,
    element("p", {}, element("b", {}, harmless(call)), ` ${harmless(facts)}`),
    notes(own),
    element(
      "pre",
      { className: "raw", tabIndex: 0, "aria-label": `Turn ${harmless(call)}` },
      runs.map(([shade, text]) => element("span", { className: `sampled ${shade.length === 1 ? `shade${shade}` : shade}` }, harmless(text))),
    ),
  ]);
  return [element("h3", {}, `Session ${harmless(id)}`), element("p", {}, summary), ...shown, notes(rest)].filter((part) => part !== null);
}

/** @param {number | null} value */
const seconds = (value) => (value === null ? "" : value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(2)} s`);
/** @param {RequestSummary} summary */
const timeOf = ({ time }) => new Date(time * 1000).toLocaleTimeString();
/** @param {RequestSummary} summary */
const status = ({ status: name }) => element("span", { className: `status ${name}` }, name);

/** @param {RequestSummary} summary */
function row(summary) {
  const { prompt_tokens: prompt, shared_tokens: shared, usage, repairs, problem, said, tail } = summary;
  const facts = [
    PROTOCOL_NAMES[summary.protocol],
    prompt === null ? null : `${number(prompt)} in`,
    usage.completion === undefined ? null : `${number(usage.completion)} out`,
    shared ? `${number(shared)} shared` : null,
    seconds(summary.total ?? summary.first),
  ].filter(Boolean);
  return [
    element(
      "span", { className: "head" },
      element("b", {}, `${summary.number}`),
      element("time", { className: "faint" }, timeOf(summary)),
      element("span", { className: "agent", title: harmless(summary.client) }, brief(clientName(summary), 40)),
      status(summary),
      repairs ? element("span", { className: "status incomplete" }, counted(repairs, "repair")) : null,
    ),
    element("span", { className: "faint figures" }, facts.join(" · ")),
    said ? element("span", { className: "said" }, brief(said, 200)) : null,
    element("span", { className: "tail" }, problem ? brief(problem, 200) : brief(tail, 76)),
  ].filter((part) => part !== null);
}

/**
 * JSON with its lines; what is none, as it is.
 * @param {string} text
 */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/**
 * A folded element whose content is built when the user opens it.
 * @param {string} title
 * @param {() => Node[] | Promise<Node[]>} build
 */
function folded(title, build) {
  const body = element("div", {});
  /** @type {HTMLDetailsElement} */
  const details = element("details", {
    ontoggle: async () => {
      if (details.open && !body.hasChildNodes()) body.replaceChildren(...(await build()));
    },
  }, element("summary", {}, title), body);
  return details;
}

/** @param {string} text */
const raw = (text) => element("pre", { className: "raw", tabIndex: 0 }, cut(text, (part) => [harmless(part)]));

// The types of their blocks, in all protocols.
const HAS_PICTURES = /"(image|image_url|input_image)"/;

/**
 * The pictures of a request, whatever the server made of them.
 * @param {string} source
 * @param {string} protocol
 */
async function pictures(source, protocol) {
  try {
    /** @type {PromptAnswer} */
    const { sides: [side] } = await post("prompt", { source, protocol, dialect: "v4.1" });
    const images = side.problem ? [] : side.rows.flatMap((row) => row.images);
    const drawn = images.map((image) => drawnImage(image, "v4.1"));
    return [element("div", { className: "rows" }, drawn.length ? drawn : "None can be read.")];
  } catch (error) {
    return [problemOf(error)];
  }
}

/**
 * A prompt as the Prompt view shows it; as it is, where the server wrote another prompt.
 * @param {string} source
 * @param {string} protocol
 * @param {string} sent
 */
async function promptRows(source, protocol, sent) {
  try {
    const { prompt } = await post("text", { source, protocol });
    if (prompt !== sent)
      return [
        element("p", { className: "faint" }, "The request by itself gives another prompt: the server has settings of its own, and puts back turns as they were sampled."),
        raw(sent),
      ];
    const rows = new Rows({ label: "Prompt", onpoint: () => {} });
    /** @type {PromptAnswer} */
    const { sides: [side] } = await post("prompt", { source, protocol });
    if (side.problem) return [raw(sent)];
    await rows.show([side], "off");
    return [rows.root];
  } catch {
    return [raw(sent)];
  }
}

/**
 * The end of a text, if it is too long to be shown, and what was left out.
 * @param {string} text
 * @param {(part: string, from: number) => (Node | string)[]} shown
 */
function cut(text, shown) {
  const from = whole(text, Math.max(0, text.length - TEXT));
  const before = from ? [element("span", { className: "elided" }, `… ${counted(from, "character")} before\n`)] : [];
  return [...before, ...shown(text.slice(from), from)];
}

/**
 * A text with its repairs marked and numbered.
 * @param {string} text
 * @param {InspectedRepair[]} repairs
 */
const marked = (text, repairs) =>
  cut(text, (shown, from) => {
    /** @type {(Node | string)[]} */
    const nodes = [];
    let at = 0;
    repairs.slice(0, 200).forEach(({ start, end, kind, sentence }, n) => {
      const [a, b] = [Math.max(start - from, at), Math.max(end - from, at)];
      if (start < from && end <= from) return;
      nodes.push(harmless(shown.slice(at, a)));
      nodes.push(element("sup", { className: "repair-mark", title: `${kind}: ${sentence}` }, String(n + 1)));
      if (b > a) nodes.push(element("span", { className: "repaired" }, harmless(shown.slice(a, b))));
      at = b;
    });
    return [...nodes, harmless(shown.slice(at))];
  });
