// A conversation with the model behind the server, in any protocol; and its clients' requests.

import { Answer, eventsOf } from "../answers.js";
import { CallError, credentials, isAborted, messageOf, refusalOf } from "../server.js";
import { area, card, counted, number } from "../cards.js";
import { brief, harmless, whole } from "../characters.js";
import { button, choice, element, inside, tick } from "../dom.js";
import { Inspector } from "../inspector.js";
import { isObject } from "../state.js";

/** @typedef {import("../types.js").ChatCall} ChatCall */
/** @typedef {import("../types.js").ChatMessage} ChatMessage */
/** @typedef {import("../types.js").Frame} Frame */
/** @typedef {import("../types.js").PageContext} PageContext */
/** @typedef {import("../types.js").ProtocolName} ProtocolName */

/**
 * The content of a turn.
 * @typedef {{ reasoning: string, content: string, calls: { name: string, text: string }[] }} Said
 */

/** @type {[ProtocolName, string][]} */
const PROTOCOLS = [["chat", "Chat Completions"], ["responses", "Responses"], ["messages", "Messages"]];
const EFFORTS = [["", "server default"], ["none", "no thinking"], ["low", "low"], ["high", "high"], ["max", "max"]];
const TEXT = 12_000; // characters of an answer that are shown while it comes
const FRAMES = 30;
const LONGEST_FRAME = 400;

/**
 * @param {HTMLElement} root
 * @param {PageContext} context
 */
export function mount(root, context) {
  if (!context.settings.serves) return root.append(notHere());
  const talk = new Talk(context);
  const left = card("talk", "Talk", talk.beside, talk.root);
  const { inspects } = context.settings;
  const inspector = inspects ? new Inspector(context) : null;
  const right = card(
    "inspect", "Inspector", inspector?.beside ?? [],
    inspector?.root ??
      element("p", { className: "faint" }, "Start the server with ", element("code", {}, "--inspect"), " to see what clients send."),
  );
  root.append(talk.toolbar, element("div", { className: "halves" }, left, right));
  context.onShown(() => inspector?.watch());
}

/** The content of the view in a page without a server. */
const notHere = () =>
  element(
    "p", { className: "notice" },
    "This page runs entirely in your browser, so there is no model to talk to and no client to " +
      "watch. For both, run ",
    element("code", {}, "dsv4 playground --inspect"),
    " on your machine.",
  );

class Talk {
  #context;
  #state;
  #turns = element("div", { className: "turns", role: "log", "aria-label": "Conversation", tabIndex: 0 });
  #composer = element("div", { className: "composer" });
  #problem = element("p", { className: "problem", role: "alert", hidden: true });
  /** @type {AbortController | null} */
  #running = null;

  /** @param {PageContext} context */
  constructor(context) {
    this.#context = context;
    this.#state = context.state;
    this.toolbar = this.#toolbar();
    this.beside = [button("New conversation", () => this.#clear())];
    this.root = element("div", { className: "conversation" }, this.#turns, this.#problem, this.#composer);
    this.#draw();
  }

  // The values in the link.

  get #said() {
    const said = this.#state.get();
    /** @type {unknown[]} */
    const messages = Array.isArray(said.messages) ? said.messages : [];
    return {
      protocol: PROTOCOLS.find(([name]) => name === said.protocol)?.[0] ?? "chat",
      effort: EFFORTS.find(([name]) => name === said.effort)?.[0] ?? "",
      offers: said.offers === true,
      tools: typeof said.tools === "string" ? said.tools : TOOLS,
      draft: typeof said.draft === "string" ? said.draft : "",
      messages: messages.filter(isMessage),
    };
  }

  #toolbar() {
    const said = this.#said;
    /**
     * @param {string} name
     * @returns {(value: string) => void}
     */
    const set = (name) => (value) => this.#state.set({ [name]: value });
    const tools = area("As a JSON list", said.tools, 8, set("tools"));
    const more = element("details", { className: "tools", hidden: !said.offers }, element("summary", {}, "Tools"), tools);
    return element(
      "div",
      { className: "live-options" },
      element(
        "div",
        { className: "toolbar" },
        choice("Protocol", PROTOCOLS, said.protocol, set("protocol")),
        choice("Effort", EFFORTS, said.effort, set("effort")),
        tick("Offer tools", said.offers, (offers) => {
          more.hidden = !offers;
          this.#state.set({ offers });
        }),
        element("span", { className: "faint model" }, this.#context.settings.model),
        this.#context.copy(() => this.#requestBody()),
      ),
      more,
    );
  }

  #requestBody(messages = this.#said.messages) {
    const { protocol, effort, offers, tools } = this.#said;
    return { protocol, effort: effort || null, messages, tools: offers ? JSON.parse(tools) : null };
  }

  // Drawing.

  #draw() {
    const { messages } = this.#said;
    this.#turns.replaceChildren(...messages.map(turn));
    if (!messages.length)
      this.#turns.append(element("p", { className: "faint" }, "Say something to the model. With the demo backend, offer tools and write a line ", element("code", {}, "RUN: ls"), "."));
    this.#drawComposer();
    this.#scroll();
  }

  #scroll() {
    this.#turns.scrollTop = this.#turns.scrollHeight;
  }

  #drawComposer() {
    const { messages, draft } = this.#said;
    const open = unanswered(messages);
    const stop = button("Stop", () => this.#running?.abort(), { className: "stop" });
    stop.hidden = this.#running === null;
    if (open.length) {
      const results = open.map(({ function: called }) => area(`Result of ${called.name}`, "", 2, () => {}));
      const send = button("Send results", () =>
        this.#send(open.map(({ id }, n) => ({ role: "tool", tool_call_id: id, content: inside(results[n], "textarea").value }))),
      { className: "primary" });
      send.disabled = this.#running !== null;
      return this.#composer.replaceChildren(...results, element("div", { className: "row-of-buttons" }, send, stop));
    }
    const box = area("Your message", draft, 3, (text) => this.#state.set({ draft: text }));
    const input = inside(box, "textarea");
    const say = () => {
      if (!input.value.trim() || this.#running) return;
      this.#send([{ role: "user", content: input.value }]);
    };
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      say();
    });
    const send = button("Send", say, { className: "primary", title: "Enter" });
    send.disabled = this.#running !== null;
    this.#composer.replaceChildren(box, element("div", { className: "row-of-buttons" }, send, stop));
  }

  #clear() {
    this.#running?.abort();
    this.#state.set({ messages: [], draft: "" });
    this.#problem.hidden = true;
    this.#draw();
  }

  // Sending.

  /** @param {ChatMessage[]} added */
  async #send(added) {
    const messages = [...this.#said.messages, ...added];
    this.#problem.hidden = true;
    this.#running = new AbortController();
    this.#state.set({ messages, draft: "" });
    this.#draw();
    try {
      const request = await this.#context.call("live", this.#requestBody(messages));
      if (request !== undefined) await this.#answer(request, messages);
    } catch (error) {
      if (!isAborted(error)) this.#fail(messageOf(error));
      // Nothing was answered: what was to be sent is there to be sent again.
      if (this.#said.messages.length === messages.length) {
        const draft = added[0].role === "user" ? added[0].content : "";
        this.#state.set({ messages: messages.slice(0, -added.length), draft });
        this.#draw();
      }
    } finally {
      this.#running = null;
      this.#drawComposer();
      this.#composer.querySelector("textarea")?.focus({ preventScroll: true });
    }
  }

  /**
   * @param {import("../types.js").LiveRequest} request
   * @param {ChatMessage[]} messages
   */
  async #answer({ path, body }, messages) {
    const { protocol } = this.#said;
    const answer = new Answer(protocol);
    const shown = new Shown(answer);
    this.#turns.append(shown.root);
    let drawing = 0;
    const draw = () => {
      drawing = 0;
      shown.draw();
      this.#scroll();
    };
    try {
      const response = await fetch(`../${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", ...credentials() },
        body: JSON.stringify(body),
        signal: this.#running?.signal,
      });
      if (!response.ok) throw await refusalOf(response);
      const stream = response.body;
      if (!stream) throw new CallError(response.status, { message: "The server sent no answer." });
      for await (const frame of eventsOf(stream)) {
        answer.write(frame);
        shown.note(frame);
        drawing ||= requestAnimationFrame(draw);
      }
      if (answer.problem) this.#fail(answer.problem);
      this.#context.say("The answer is complete.");
    } catch (error) {
      // A call that was cut short is not sent back.
      answer.calls = [];
      if (!isAborted(error)) throw error;
      answer.finish = "stopped here";
    } finally {
      cancelAnimationFrame(drawing);
      shown.end();
      if (answer.content || answer.reasoning || answer.calls.length)
        this.#state.set({ messages: [...messages, answer.message] });
      this.#scroll();
    }
  }

  /** @param {string} words */
  #fail(words) {
    this.#problem.textContent = harmless(words);
    this.#problem.hidden = false;
  }
}

/** An answer that is coming. */
class Shown {
  #answer;
  #began = performance.now();
  /** @type {number | null} */
  #first = null;
  #count = 0;
  /** @type {Frame[]} */
  #frames = [];
  #body = element("div", {});
  #facts = element("p", { className: "faint figures" });
  #list = element("ol", { className: "frame-list", tabIndex: 0, "aria-label": "Frames" });
  #title = element("summary", {}, "Frames");
  /** @type {HTMLDetailsElement} */
  #details = element("details", { className: "faint", ontoggle: () => this.#drawFrames() }, this.#title, this.#list);

  /** @param {Answer} answer */
  constructor(answer) {
    this.#answer = answer;
    this.root = element("article", { className: "spoken assistant coming" }, element("h3", {}, "Assistant"), this.#body, this.#facts, this.#details);
  }

  /** @param {Frame} frame */
  note(frame) {
    const { reasoning, content, calls } = this.#answer;
    if (this.#first === null && (reasoning || content || calls.length)) this.#first = performance.now();
    this.#count++;
    this.#frames.push(frame);
    if (this.#frames.length > FRAMES) this.#frames.shift();
  }

  /** While it comes, the end of it: what a picture costs does not grow with the answer. */
  draw(most = TEXT) {
    const { reasoning, content, calls, finish, usage } = this.#answer;
    this.#body.replaceChildren(...said({ reasoning, content, calls }, most));
    const facts = [
      this.#first === null ? null : `first token after ${milliseconds(this.#first - this.#began)}`,
      finish ? `${milliseconds(performance.now() - this.#began)} in all` : null,
      usage ? `${counted(usage[0], "token")} in, ${number(usage[1])} out` : null,
      finish,
    ];
    this.#facts.textContent = facts.filter(Boolean).join(" · ");
    this.#drawFrames();
  }

  #drawFrames() {
    this.#title.textContent = counted(this.#count, "frame");
    if (!this.#details.open) return;
    const before = this.#count - this.#frames.length;
    this.#list.replaceChildren(
      ...(before ? [element("li", { className: "elided" }, `… ${number(before)} earlier`)] : []),
      ...this.#frames.map((frame) => element("li", {}, element("code", {}, brief(JSON.stringify(frame), LONGEST_FRAME)))),
    );
  }

  end() {
    this.draw(Infinity);
    this.root.classList.remove("coming");
  }
}

/** @param {number} value */
const milliseconds = (value) => (value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(2)} s`);

/**
 * The content of a turn: thinking, answer and calls.
 * @param {Said} turn
 */
export function said({ reasoning, content, calls }, most = Infinity) {
  /** @param {string} text */
  const cut = (text) => {
    const from = text.length > most ? whole(text, text.length - most) : 0;
    return (from ? `… ${counted(from, "character")} before\n` : "") + harmless(text.slice(from));
  };
  return [
    reasoning ? element("details", { className: "thinking", open: true }, element("summary", {}, "Reasoning"), element("pre", {}, cut(reasoning))) : null,
    content ? element("pre", { className: "content" }, cut(content)) : null,
    ...calls.map(({ name, text }) =>
      element("div", { className: "called" }, element("code", {}, harmless(name)), element("pre", {}, cut(text)))),
  ].filter((part) => part !== null);
}

/** @type {Record<ChatMessage["role"], string>} */
const NAMES = { user: "You", assistant: "Assistant", tool: "Result", system: "System" };

/**
 * A turn of the conversation, as Chat Completions has it.
 * @param {ChatMessage} message
 */
function turn(message) {
  const calls = (message.tool_calls ?? []).map((call) => ({ name: call.function.name, text: call.function.arguments }));
  return element(
    "article",
    { className: `spoken ${message.role}` },
    element("h3", {}, NAMES[message.role]),
    said({ reasoning: message.reasoning_content ?? "", content: message.content ?? "", calls }),
  );
}

/** @param {unknown} value */
const isText = (value) => value === undefined || value === null || typeof value === "string";

/**
 * @param {unknown} call
 * @returns {call is ChatCall}
 */
const isCall = (call) =>
  isObject(call) && typeof call.id === "string" && isObject(call.function) &&
  typeof call.function.name === "string" && typeof call.function.arguments === "string";

/**
 * Whether a message from a link has the form that is shown.
 * @param {unknown} message
 * @returns {message is ChatMessage}
 */
const isMessage = (message) =>
  isObject(message) && typeof message.role === "string" && Object.hasOwn(NAMES, message.role) &&
  isText(message.content) && isText(message.reasoning_content) &&
  (message.tool_calls === undefined || (Array.isArray(message.tool_calls) && message.tool_calls.every(isCall)));

/**
 * The calls that wait for their results.
 * @param {ChatMessage[]} messages
 */
function unanswered(messages) {
  const last = messages.findLastIndex(({ role }) => role === "assistant");
  if (last < 0) return [];
  const results = new Set(messages.slice(last).map(({ tool_call_id: id }) => id));
  return (messages[last].tool_calls ?? []).filter(({ id }) => !results.has(id));
}

const TOOLS = JSON.stringify(
  [
    {
      type: "function",
      function: {
        name: "bash",
        description: "Runs a command in a shell",
        parameters: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
      },
    },
  ],
  null,
  1,
);
