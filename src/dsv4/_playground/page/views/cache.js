// A conversation turn by turn: how much of each prompt the engine has in its cache, and why not more.

import { CallError, debounced } from "../server.js";
import { counted, number } from "../cards.js";
import { button, element, fill, options } from "../dom.js";
import { examples, requestBody, sourceOf, switches } from "../switches.js";

/** @typedef {import("../types.js").CacheAnswer} CacheAnswer */
/** @typedef {import("../types.js").Place} Place */

/**
 * The server names units in the plural.
 * @param {number} count
 * @param {string} unit
 */
const amount = (count, unit) => counted(count, unit.replace(/s$/, ""));
/**
 * @param {number} part
 * @param {number} whole
 */
const percent = (part, whole) => (whole ? `${Math.floor((100 * part) / whole)}%` : "–");

/**
 * @param {HTMLElement} root
 * @param {import("../types.js").PageContext} context
 */
export function mount(root, context) {
  const { request, state } = context;
  const source = () => sourceOf(context);
  const set = switches(context);
  const head = element("div", { className: "clients", role: "group", "aria-label": "Clients" });
  const facts = element("div", { className: "facts" });
  const strip = element("ol", { className: "strip" });
  const intro = element(
    "p",
    { className: "faint intro" },
    "Each bar is one request. ",
    element("span", { className: "key-mark reused", "aria-hidden": "true" }),
    " Tokens already in the cache. ",
    element("span", { className: "key-mark fresh", "aria-hidden": "true" }),
    " Tokens to compute. The conversation is that of the Prompt view.",
  );
  const copied = () => ({ ...requestBody(request), source: source(), variant: state.get().variant });
  const bar = element("div", { className: "toolbar" }, set.root, examples(context), context.copy(copied));
  root.append(
    options("Switches, examples and copying", bar),
    element("div", { className: "sheet-of-turns" }, intro, head, facts, strip),
  );

  const ask = debounced(async () => {
    strip.setAttribute("aria-busy", "true");
    try {
      const body = { ...requestBody(request), source: source(), variant: state.get().variant };
      const answer = await context.call("cache", body);
      if (answer) show(answer);
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      const { line, path, message } = error.problem;
      const place = [line && `Line ${line}`, path].filter(Boolean).join(": ");
      facts.replaceChildren(
        element(
          "p",
          { className: "fact problem", role: "alert" },
          element("b", {}, place),
          ` ${message} `,
          button("Open the Prompt view", () => context.go("prompt"), { className: "small" }),
        ),
      );
      strip.replaceChildren();
      strip.setAttribute("aria-busy", "false");
      head.replaceChildren();
    }
  }, 120);

  /** @param {CacheAnswer} answer */
  function show(answer) {
    head.replaceChildren(...answer.variants.map((variant) => clientOf(variant, answer, state)));
    const said = answer.no_tokens ? `${answer.no_tokens} Characters are counted instead.` : null;
    const alone =
      answer.turns.length < 2
        ? "There is one prompt here: a cache has nothing to reuse until a second one comes."
        : null;
    const left = answer.left_out
      ? `The conversation is long: ${number(answer.left_out)} prompts before these are not shown.`
      : null;
    facts.replaceChildren(
      ...[said, alone, left]
        .filter(Boolean)
        .map((words) => element("p", { className: "fact" }, words)),
    );
    const widest = Math.max(...answer.turns.map((turn) => turn.size), 1);
    fill(strip, answer.turns, (turn, n) => turnOf(turn, n, widest, answer.unit, open));
  }

  /**
   * Opens the Prompt view where a prompt breaks.
   * @param {Place} place
   */
  function open(place) {
    request.set({ caret: place[0] });
    context.go("prompt");
  }

  request.onChange((_, names) => {
    if (names.length === 1 && names[0] === "caret") return;
    if (root.hidden) return;
    if (names.includes("source") && names.length === 1) ask();
    else ask.now();
  });
  state.onChange(() => ask.now());
  context.onShown(() => ask.now());
}

/**
 * A client: what a conversation costs with it, and what it loses.
 * @param {import("../types.js").CacheVariant} variant
 * @param {CacheAnswer} answer
 * @param {import("../types.js").Slice} state
 */
function clientOf(variant, { unit, variant: chosen }, state) {
  const { name, title, computed, prompted, lost } = variant;
  const saved = percent(prompted - computed, prompted);
  return button(
    [
      element("b", {}, title[0].toUpperCase() + title.slice(1)),
      element(
        "span",
        { className: "faint" },
        `${number(computed)} of ${amount(prompted, unit)} computed, ${saved} reused`,
      ),
      element(
        "span",
        { className: lost > 0 ? "loss" : "faint" },
        name === "as_sent"
          ? "what the request has"
          : lost > 0
            ? `loses ${amount(lost, unit)}`
            : lost < 0
              ? `saves ${amount(-lost, unit)}`
              : "loses nothing here",
      ),
    ],
    () => state.set({ variant: name }),
    { className: "client", "aria-pressed": String(name === chosen) },
  );
}

/**
 * @param {import("../types.js").CacheTurn} turn
 * @param {number} n
 * @param {number} widest
 * @param {string} unit
 * @param {(place: Place) => void} open
 */
function turnOf(turn, n, widest, unit, open) {
  const fresh = turn.size - turn.reused;
  const { place } = turn;
  const isBroken = turn.held > turn.reused;
  const bar = element("div", { className: "turn-bar", "aria-hidden": "true" });
  for (const [kind, amount] of Object.entries({ reused: turn.reused, fresh })) {
    const part = element("span", { className: kind });
    part.style.width = `${(100 * amount) / widest}%`;
    bar.append(part);
  }
  // The rest of the engine's cache, which was not reused.
  if (isBroken) {
    const ghost = element("span", { className: "held" });
    ghost.style.left = `${(100 * turn.reused) / widest}%`;
    ghost.style.width = `${(100 * Math.min(turn.held - turn.reused, widest - turn.reused)) / widest}%`;
    bar.append(ghost);
  }
  const kept = Math.min(turn.reused, turn.before);
  const words =
    n === 0
      ? "The first prompt: all of it is new."
      : kept === turn.before
        ? `All ${amount(kept, unit)} of the prompt before are still a prefix.`
        : `${number(kept)} of the ${amount(turn.before, unit)} of the prompt before (${percent(kept, turn.before)}) are still a prefix.`;
  return element(
    "li",
    { className: isBroken ? "turn broken" : "turn" },
    element(
      "div",
      { className: "turn-head" },
      element("b", {}, `Prompt ${n + 1}`),
      element(
        "span",
        { className: "faint" },
        counted(turn.messages, "message"),
      ),
      element(
        "span",
        { className: "amount" },
        `${amount(turn.size, unit)}, ${number(fresh)} new`,
      ),
    ),
    bar,
    element(
      "p",
      { className: "turn-words" },
      words,
      n > 0 &&
        !isBroken &&
        ` With the answer, the engine held ${amount(turn.reused, unit)}, and all of it is reused.`,
      isBroken &&
        element(
          "span",
          { className: "break" },
          ` It loses ${number(turn.held - turn.reused)} of what the engine held: ${turn.words}. `,
        ),
      isBroken &&
        place &&
        button("Show in the request", () => open(place), { className: "small" }),
    ),
  );
}
