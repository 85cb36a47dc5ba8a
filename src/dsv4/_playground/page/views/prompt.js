// A request, and the prompt that it becomes: each lights up what it has to do with in the other.

import { CallError, debounced, messageOf } from "../server.js";
import { toClipboard } from "../copybuttons.js";
import { button, element } from "../dom.js";
import { isWhole, openPasted } from "../pasted.js";
import { addressOf, freeName, liftedPictures, picturesIn, picturesOf } from "../pictures.js";
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
    const replaced = before;
    before = null;
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
      offerToRead(sourceOf(context), replaced);
    }
  }, TYPING);

  /**
   * What was in the editor before somebody pasted or dropped what is there now.
   * @type {Record<string, any> | null}
   */
  let before = null;

  /**
   * For a text that is no request: what was pasted is opened where it belongs, and else that is
   * offered; of many lines one can be chosen.
   * @param {string} source
   * @param {Record<string, any> | null} replaced
   */
  async function offerToRead(source, replaced) {
    /** @type {import("../types.js").Imported | undefined} */
    const found = await context.call("import", { source }).catch(() => undefined);
    if (!found) return;
    if (found.kind === "lines")
      return left.offerLines(lineTitles(found.lines), (n) => take(found.lines[n]));
    if (replaced && (found.kind === "answer" || found.kind === "request")) {
      request.set(replaced);
      openPasted(found, context);
    } else if (found.kind === "unknown") left.note(found.notes ?? []);
    else left.offer([[OFFERS[found.kind], () => openPasted(found, context)]]);
  }

  const requestText = () => {
    const { source, pictures, protocol } = request.get();
    return { source, pictures, protocol };
  };

  /**
   * Another text in place of the request, from outside.
   * @param {string} source
   */
  function take(source) {
    before = requestText();
    request.set({ source, pictures: undefined, protocol: undefined });
  }

  /**
   * Pictures go into the request. A text stays where it is pasted, but for the example, which it
   * replaces.
   * @param {ClipboardEvent} event
   */
  function paste(event) {
    const given = event.clipboardData;
    const text = given?.getData("text/plain") ?? "";
    if (root.hidden || !given) return;
    if (!text && addPictures(picturesIn(given))) return event.preventDefault();
    if (!(event.target instanceof Element && event.target.closest(".editor"))) return;
    before = requestText();
    if (before.source !== undefined || !isWhole(text)) return;
    event.preventDefault();
    take(text);
  }

  /** @param {DragEvent} event */
  async function drop(event) {
    const file = event.dataTransfer?.files[0];
    if (!file) return;
    event.preventDefault();
    if (!addPictures(picturesIn(event.dataTransfer))) take(await file.text());
  }

  /**
   * Puts pictures into the last turn of the user. Returns whether there are any.
   * @param {File[]} files
   */
  function addPictures(files) {
    if (files.length) add(files).catch((error) => context.tell(messageOf(error)));
    return files.length > 0;
  }

  /** @param {File[]} files */
  async function add(files) {
    for (const file of files) {
      const known = picturesOf(request);
      const name = freeName(file.name, known);
      const pictures = { ...known, [name]: await addressOf(file) };
      const added = await context.call("picture", { ...body(), pictures, name });
      if (added === undefined) continue;
      const dialect = added.dialect ?? request.get().dialect;
      request.set({ source: added.source, pictures, dialect });
      const switched = added.dialect ? ` The dialect is ${dialect} now, which reads pictures.` : "";
      context.tell(`${name} is in the last turn.${switched}`);
    }
  }

  /** Long pictures go beside the text, before it is drawn. Returns whether there were any. */
  function lift() {
    const { source } = request.get();
    if (typeof source !== "string") return false;
    const { text, pictures } = liftedPictures(source, picturesOf(request));
    if (text === source) return false;
    request.set({ source: text, pictures });
    return true;
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

  document.addEventListener("paste", paste);
  root.addEventListener("dragover", (event) => event.preventDefault());
  root.addEventListener("drop", drop);
  request.onChange((_, names) => {
    if (names.length === 1 && names[0] === "caret") return;
    if (names.includes("source") && lift()) return;
    left.draw();
    if (names.length === 1 && names[0] === "source") ask();
    else ask.now();
  });
  state.onChange((_, names) => {
    left.draw();
    if (names.some((name) => name !== "mode")) ask.now();
  });
  lift();
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

const OFFERS = {
  answer: "Open this answer in Stream",
  request: "Take the request of this command",
  prompt: "Decode this prompt",
};
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
