// A request, and the prompt that it becomes: each lights up what it has to do with in the other.

import { CallError, debounced, messageOf } from "../server.js";
import { toClipboard } from "../copybuttons.js";
import { button, element } from "../dom.js";
import { PromptPane } from "../promptpane.js";
import { RequestPane } from "../requestpane.js";
import { requestBody, sourceOf, switches } from "../switches.js";

/** @typedef {import("../types.js").Place} Place */
/** @typedef {import("../types.js").Pointing} Pointing */

const TYPING = 120; // milliseconds without a key until the prompt is asked for

/**
 * @param {HTMLElement} root
 * @param {import("../types.js").PageContext} context
 */
export function mount(root, context) {
  const { request, state } = context;
  const set = switches(context);
  const left = new RequestPane(context, lightPrompt);
  const right = new PromptPane(context, lightRequest, copyPrompt, savePage);
  const body = () => ({ ...requestBody(request), source: sourceOf(context) });
  const shown = () => ({ ...body(), shown: state.get().shown });
  const panes = element("div", { className: "panes" }, left.root, right.root);
  root.append(
    element("div", { className: "toolbar" }, set.root, context.copy(shown)),
    sidesOf(panes),
    panes,
  );

  const ask = debounced(async () => {
    right.wait(true);
    try {
      const answer = await context.call("prompt", { ...body(), ...right.wanted() });
      if (answer === undefined) return;
      set.update(answer.tools);
      left.detected(answer.protocol);
      left.complain(null);
      right.show(answer);
      right.wait(false);
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      left.complain(error.problem);
      right.wait(false, true);
      if (!error.problem.path) offerToRead(sourceOf(context));
    }
  }, TYPING);

  /**
   * For a text that is no JSON: a prompt can be decoded, and of many lines one chosen.
   * @param {string} source
   */
  async function offerToRead(source) {
    const found = await context.call("import", { source }).catch(() => undefined);
    if (found?.kind === "prompt")
      left.offer([
        [
          "Decode this prompt",
          () => {
            request.set({ source: found.source, protocol: undefined });
            context.tell(found.notes.length ? found.notes.join(" ") : "Decoded.");
          },
        ],
      ]);
    if (found?.kind === "lines")
      left.offerLines(
        lineTitles(found.lines),
        (n) => request.set({ source: found.lines[n], protocol: undefined }),
      );
  }

  async function copyPrompt() {
    try {
      const answer = await context.call("text", shown());
      if (answer === undefined) return;
      await toClipboard(answer.prompt);
      context.tell("Copied the prompt.");
    } catch (error) {
      context.tell(`Nothing was copied: ${messageOf(error)}`);
    }
  }

  async function savePage() {
    try {
      const saved = await context.call("page", shown());
      if (saved === undefined) return;
      const file = URL.createObjectURL(new Blob([saved.html], { type: "text/html" }));
      element("a", { href: file, download: saved.name }).click();
      setTimeout(() => URL.revokeObjectURL(file), 1000);
      context.tell(`Saved ${saved.name}.`);
    } catch (error) {
      context.tell(`Nothing was saved: ${messageOf(error)}`);
    }
  }

  /**
   * @param {Place | null} place
   * @param {Pointing} how
   */
  function lightRequest(place, how) {
    left.light(place, how);
    if (how === "focus") right.rows.light(place);
  }

  /**
   * @param {number | null} offset
   * @param {boolean} isPointer
   */
  function lightPrompt(offset, isPointer) {
    const place = offset === null ? null : right.rows.placeAt(offset);
    left.light(place, "own");
    right.rows.light(place, { scroll: true, isGentle: isPointer });
  }

  request.onChange((_, names) => {
    if (names.length === 1 && names[0] === "caret") return;
    left.draw();
    if (names.length === 1 && names[0] === "source") ask();
    else ask.now();
  });
  state.onChange((_, names) => {
    left.draw();
    if (names.some((name) => name !== "mode")) ask.now();
  });
  left.draw();
  ask.now();
  // Another view may have named a place to look at.
  context.onShown(() => {
    const { caret } = request.get();
    if (!Number.isInteger(caret)) return;
    request.set({ caret: undefined });
    state.set({ mode: "json" });
    left.light([caret, caret + 1], "click");
    lightPrompt(caret, false);
  });
}

const LONGEST_TITLE = 60;
const SHARED_IN_TITLE = 12;

/**
 * Titles that tell lines apart: they may begin alike for long, as the lines of a dataset do.
 * @param {string[]} lines
 */
function lineTitles(lines) {
  const short = lines.map((line) => line.replace(/\s+/g, " "));
  let shared = 0;
  while (shared < short[0].length && short.every((line) => line[shared] === short[0][shared])) shared++;
  const from = Math.max(0, shared - SHARED_IN_TITLE);
  return short.map((line, n) => `Line ${n + 1}: ${from ? "…" : ""}${line.slice(from, from + LONGEST_TITLE)}`);
}

/**
 * Where both do not fit, on a phone, one of the panes is shown, and this chooses which.
 * @param {HTMLElement} panes
 */
function sidesOf(panes) {
  const names = [
    ["request", "Request"],
    ["prompt", "Prompt"],
  ];
  const buttons = names.map(([name, title]) => button(title, () => show(name), { "data-side": name }));
  /** @param {string} side */
  const show = (side) => {
    panes.dataset.side = side;
    for (const one of buttons) one.setAttribute("aria-pressed", String(one.dataset.side === side));
  };
  show("prompt");
  return element("div", { className: "sides modes", role: "group", "aria-label": "Pane" }, buttons);
}
