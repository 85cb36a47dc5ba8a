// A request as a form: its messages as cards. Each change is made in the JSON text, in the place
// that it is about.

import { button, choice, element, fill } from "./dom.js";
import { scan, withItems, withMember, withoutMember } from "./jsontext.js";
import { messageOf } from "./server.js";

/** @typedef {import("./jsontext.js").JsonNode} JsonNode */
/** @typedef {JsonNode & { items: JsonNode[] }} JsonList */
/** @typedef {import("./types.js").Place} Place */

const ROLES = ["system", "user", "assistant", "tool", "developer", "latest_reminder"];
/**
 * The fields that a card shows for each role, even if the message does not have them.
 * @type {Record<string, string[]>}
 */
const FIELDS = {
  assistant: ["reasoning_content", "content"],
  tool: ["tool_call_id", "content"],
};
/** @type {Record<string, string>} */
const TITLES = {
  reasoning_content: "reasoning",
  tool_call_id: "id of the call",
  tool_calls: "calls",
};

export class Form {
  #text = "";
  /** @type {JsonNode | null} */
  #tree = null;
  #cards = element("ol", { className: "cards" });
  #add = element("div", { className: "adding" });

  /**
   * `oncaret(offset)` is called with the place of the field that the user works in.
   * @param {{
   *   onchange: (text: string) => void, say: (words: string) => void,
   *   oncaret: (offset: number | null, isPointer: boolean) => void,
   * }} options
   */
  constructor({ onchange, oncaret, say }) {
    this.onchange = onchange;
    this.oncaret = oncaret;
    this.say = say;
    for (const role of ["system", "user", "assistant", "tool"])
      this.#add.append(button(`Add ${role}`, () => this.#append(role)));
    this.root = element("div", { className: "form", hidden: true }, this.#cards, this.#add);
  }

  /** @param {string} text */
  set text(text) {
    if (text === this.#text && this.#tree) return;
    this.#text = text;
    this.#tree = scan(text);
    this.#draw();
  }

  /** @param {number} offset */
  #cardAt(offset) {
    const at = this.#list?.items.findIndex(({ start, end }) => start <= offset && offset < end);
    return at === undefined ? undefined : this.#cards.children[at];
  }

  /**
   * Lights the message that a place of the JSON is in, or none.
   * @param {Place | null} place
   */
  light(place, { scroll = false } = {}) {
    this.#cards.querySelector(".lit")?.classList.remove("lit");
    const card = place && this.#cardAt(place[0]);
    card?.classList.add("lit");
    if (scroll) card?.scrollIntoView({ block: "nearest" });
  }

  /**
   * Puts the keyboard in the message that a character of the JSON is in.
   * @param {number} offset
   */
  focus(offset) {
    /** @type {HTMLElement | null | undefined} */
    const control = this.#cardAt(offset)?.querySelector("textarea, select");
    control?.focus();
  }

  /**
   * The list that holds the messages, wherever it is; null if there is none.
   * @returns {JsonList | null}
   */
  get #list() {
    const tree = this.#tree;
    const members = tree?.members;
    const found = tree?.items ? tree : (members?.get("messages") ?? members?.get("input"));
    return found?.items ? /** @type {JsonList} */ (found) : null;
  }

  /** The same where cards are drawn, which only a list has. */
  get #messages() {
    const list = this.#list;
    if (!list) throw new Error("The request has no list of messages.");
    return list;
  }

  #draw() {
    const list = this.#list;
    this.#add.hidden = !list;
    if (!list) {
      const why = this.#tree ? "has no list of messages" : "is no JSON";
      this.#cards.replaceChildren(
        element("li", { className: "card" }, `The request ${why}: edit it as JSON.`),
      );
      return;
    }
    fill(this.#cards, list.items, (item, n) => this.#card(item, n, list.items.length), {
      first: 20,
      slice: 20,
    });
  }

  /**
   * Another text, which this form made. `isDrawn` says that the cards show it already.
   * @param {string} text
   * @param {boolean} isDrawn
   */
  #change(text, isDrawn) {
    this.#text = text;
    this.#tree = scan(text);
    if (!isDrawn) this.#draw();
    this.onchange(text);
  }

  /** @param {number} n */
  #item(n) {
    return this.#messages.items[n];
  }

  /**
   * @param {JsonNode} item
   * @param {number} n
   * @param {number} count
   */
  #card(item, n, count) {
    const name = `Message ${n}`;
    const tools = element(
      "div",
      { className: "card-tools" },
      button("↑", () => this.#move(n, n - 1), {
        "aria-label": `Move message ${n} up`,
        disabled: n === 0,
      }),
      button("↓", () => this.#move(n, n + 1), {
        "aria-label": `Move message ${n} down`,
        disabled: n === count - 1,
      }),
      button("Delete", () => this.#remove(n), { "aria-label": `Delete message ${n}` }),
    );
    if (!item.members)
      return element(
        "li",
        { className: "card", "aria-label": name },
        tools,
        "This is no message: edit it as JSON.",
      );
    const { role } = item.value;
    const names = [...new Set([...(FIELDS[role] ?? ["content"]), ...item.members.keys()])];
    if (!("role" in item.value)) names.splice(0, 1);
    const head = element("span", { className: "number" }, String(n));
    return element(
      "li",
      { className: `card ${ROLES.includes(role) ? role : ""}`, "aria-label": name },
      element(
        "div",
        { className: "card-head" },
        head,
        "role" in item.value && this.#role(role, n),
        tools,
      ),
      names.filter((name) => name !== "role").map((name) => this.#field(n, name)),
    );
  }

  /**
   * @param {string} role
   * @param {number} n
   */
  #role(role, n) {
    const roles = ROLES.includes(role) ? ROLES : [...ROLES, String(role)];
    const options = roles.map((name) => [name, name]);
    return choice(
      "Role",
      options,
      String(role),
      (value) => {
        this.#change(withMember(this.#text, this.#item(n), "role", value), false);
      },
      { "aria-label": `Role of message ${n}` },
    );
  }

  /**
   * @param {number} n
   * @param {string} name
   */
  #field(n, name) {
    const value = this.#item(n).value[name];
    const isText = value === undefined || value === null || typeof value === "string";
    const area = element("textarea", {
      value: isText ? (value ?? "") : JSON.stringify(value, null, 2),
      "aria-label": `${TITLES[name] ?? name} of message ${n}`,
      rows: 1,
      spellcheck: false,
      className: isText ? "" : "json",
    });
    area.oninput = () => this.#typed(n, name, isText, area);
    area.onfocus = () => this.oncaret(this.#item(n)?.members?.get(name)?.start ?? null, true);
    return element(
      "label",
      { className: "field" },
      element("span", {}, TITLES[name] ?? name),
      area,
    );
  }

  /**
   * @param {number} n
   * @param {string} name
   * @param {boolean} isText
   * @param {HTMLTextAreaElement} area
   */
  #typed(n, name, isText, area) {
    let value = area.value;
    if (!isText) {
      try {
        value = JSON.parse(value);
      } catch (error) {
        area.setAttribute("aria-invalid", "true");
        area.title = messageOf(error);
        return;
      }
      area.removeAttribute("aria-invalid");
      area.title = "";
    }
    const item = this.#item(n);
    const isGone = isText && value === "" && name !== "content" && item.members?.has(name);
    const text = isGone
      ? withoutMember(this.#text, item, name)
      : withMember(this.#text, item, name, value);
    this.#change(text, true);
  }

  /** @param {string} role */
  #append(role) {
    /** @type {Record<string, string>} */
    const value = { role, content: "" };
    if (role === "tool") value.tool_call_id = this.#openCall() ?? "call_1";
    const list = this.#messages;
    this.#change(withItems(this.#text, list, [...list.items, { value }]), false);
    this.say(`Added a message of role ${role}.`);
    this.#focus(list.items.length, "textarea");
  }

  /** The id of the last call that no result answers. */
  #openCall() {
    const messages = this.#messages.items.map((item) => item.value);
    const answered = new Set(messages.map((message) => message?.tool_call_id));
    const calls = messages.flatMap((message) => message?.tool_calls ?? []);
    return calls.map((call) => call?.id).findLast((id) => id && !answered.has(id));
  }

  /**
   * @param {number} from
   * @param {number} to
   */
  #move(from, to) {
    const list = this.#messages;
    const items = [...list.items];
    items.splice(to, 0, ...items.splice(from, 1));
    this.#change(withItems(this.#text, list, items), false);
    this.say(`Message ${from} is now message ${to}.`);
    this.#focus(to, to > from ? "button:nth-of-type(2)" : "button");
  }

  /** @param {number} n */
  #remove(n) {
    const list = this.#messages;
    this.#change(
      withItems(
        this.#text,
        list,
        list.items.filter((_, at) => at !== n),
      ),
      false,
    );
    this.say(`Deleted message ${n}.`);
    this.#focus(Math.max(0, n - 1), "button:last-of-type");
  }

  /**
   * The keyboard goes on where it was: in a card that may not be drawn yet.
   * @param {number} n
   * @param {string} what
   */
  #focus(n, what) {
    /** @param {number} tries */
    const seek = (tries) => {
      const card = this.#cards.children[n];
      const found = /** @type {HTMLButtonElement | HTMLTextAreaElement | null | undefined} */ (
        card?.querySelector(what)
      );
      if (found && !found.disabled) found.focus();
      else if (found) enabledIn(card)?.focus();
      else if (tries) setTimeout(() => seek(tries - 1), 50);
      else this.#add.querySelector("button")?.focus();
    };
    seek(20);
  }
}

/**
 * The first button of a card that can be used.
 * @param {Element} card
 * @returns {HTMLButtonElement | null}
 */
const enabledIn = (card) => card.querySelector("button:not(:disabled)");
