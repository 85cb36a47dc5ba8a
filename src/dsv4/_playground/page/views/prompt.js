// A request, and the prompt that it becomes: each lights up what it has to do with in the other.

import { CallError, debounced, messageOf } from "../server.js";
import { toClipboard } from "../copybuttons.js";
import { button, element, options } from "../dom.js";
import { isWhole, openAnswer } from "../pasted.js";
import { addressOf, freeName, liftedPictures, picturesIn, picturesOf } from "../pictures.js";
import { PromptPane } from "../promptpane.js";
import { RequestPane } from "../requestpane.js";
import { requestBody, sourceOf, switches } from "../switches.js";
import { said } from "./live.js";
import { TurnList } from "../turnlist.js";
import { VerdictPane } from "../verdict.js";

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
  const right = new PromptPane(context, lightRequest, copyPrompt);
  const body = () => ({ ...requestBody(request), source: sourceOf(context) });
  const shown = () => ({ ...body(), shown: state.get().shown });
  const verdict = new VerdictPane(context.tell);
  const turns = new TurnList((turn) => request.set({ turn }));
  const answered = element("section", { className: "pane result answer-pane", "aria-label": "Answer", hidden: true, tabIndex: 0 });
  const panes = element("div", { className: "panes" }, left.root, right.root, turns.root, answered);
  const bar = element("div", { className: "toolbar" }, set.root, context.copy(shown));
  const sides = sidesOf(panes);
  root.append(options("Switches, and copying", bar), verdict.root, sides.root, panes);

  const ask = debounced(async () => {
    if (!String(sourceOf(context)).trim()) return showNothing();
    right.wait(true);
    context.cancel("turns");
    let isRead = false;
    try {
      const answer = await context.call("prompt", { ...body(), ...right.wanted() });
      if (answer === undefined) return;
      isRead = true;
      set.update(answer.tools);
      left.detected(answer.protocol);
      left.complain(null);
      right.show(answer).then(showPicture);
      right.wait(false);
      await explain(null);
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      if (!isRead) await explain(error.problem);
      right.wait(false, !isRead);
    }
  }, TYPING);

  /** Shows nothing for an empty box, which is not a mistake. */
  function showNothing() {
    context.cancel("prompt");
    context.cancel("why");
    left.complain(null);
    verdict.show(null);
    showBeside(null);
    right.wait(false, true);
  }

  /**
   * Says what the text is and what is wrong with it. `problem` is the reason why it has no prompt.
   * @param {import("../types.js").Problem | null} problem
   */
  async function explain(problem) {
    const { source, turn } = request.get();
    if (!problem) showBeside(right.root);
    if (source === undefined && !problem) return verdict.show(null);
    /** @type {import("../types.js").WhyAnswer | undefined} */
    const found = await context.call("why", { source: sourceOf(context) }).catch(() => null);
    if (found === undefined) return;
    if (found?.source && !turn) return request.set({ source: found.source });
    const isTold = found !== null && TOLD.includes(found.kind);
    left.complain(isTold ? null : problem);
    verdict.show(found, found ? actions(found) : []);
    if (!problem) return;
    if (found && found.turns > 1 && turn === undefined) return listTurns(body());
    if (found?.answer) answered.replaceChildren(element("h2", {}, "What dsv4 reads in it"), ...said(found.answer.message));
    showBeside(found?.answer ? answered : isTold ? null : right.root);
  }

  /**
   * Lists the turns of a session or a log, some at a time, as they are measured.
   * @param {object} asked
   */
  async function listTurns(asked) {
    for (let start = 0, total = 1; start < total; ) {
      /** @type {import("../types.js").TurnList | undefined} */
      const listed = await context.call("turns", { ...asked, start });
      if (!listed?.turns.length) return;
      turns.show(listed, start);
      showBeside(turns.root);
      start += listed.turns.length;
      total = listed.total;
    }
  }

  /**
   * Shows a pane beside the text, or none.
   * @param {HTMLElement | null} pane
   */
  function showBeside(pane) {
    for (const one of [right.root, turns.root, answered]) one.hidden = one !== pane;
    panes.classList.toggle("alone", pane === null);
    if (pane) sides.result.textContent = pane.ariaLabel;
  }

  /** @param {import("../types.js").WhyAnswer} found */
  function actions({ answer, turns: many }) {
    const { turn } = request.get();
    return [
      answer && button("Read it step by step", () => openAnswer(answer, context)),
      many > 1 && turn !== undefined && button("All turns", () => request.set({ turn: undefined })),
    ].filter((one) => one instanceof HTMLElement);
  }

  /**
   * Another text in place of the request, from outside.
   * @param {string} source
   */
  function take(source) {
    request.set({ source, pictures: undefined, protocol: undefined, turn: undefined });
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
    const handled = () => {
      event.preventDefault();
      event.stopPropagation();
    };
    if (!text && addPictures(picturesIn(given))) return handled();
    if (!(event.target instanceof Element && event.target.closest(".editor"))) return;
    if (request.get().source !== undefined || !isWhole(text)) return;
    handled();
    take(text);
  }

  /** @param {DragEvent} event */
  async function drop(event) {
    const file = event.dataTransfer?.files[0];
    if (!file) return;
    event.preventDefault();
    event.stopPropagation();
    if (addPictures(picturesIn(event.dataTransfer))) return;
    const text = textOf(await file.arrayBuffer());
    if (text !== null) return take(text);
    try {
      const data = (await addressOf(file)).replace(/^[^,]*,/, "");
      const found = await context.call("why", { data });
      if (found?.source) take(found.source);
      else if (found) verdict.show(found);
    } catch (error) {
      context.tell(messageOf(error));
    }
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
      isAdded = true;
      request.set({ source: added.source, pictures, dialect });
      const switched = added.dialect ? ` The dialect is ${dialect} now, which reads pictures.` : "";
      context.tell(`${name} is in the last turn.${switched}`, Boolean(switched));
    }
  }

  let isAdded = false;

  /** A picture that was just added is brought into view. */
  function showPicture() {
    if (!isAdded) return;
    isAdded = false;
    [...right.root.querySelectorAll("figure.image")].at(-1)?.scrollIntoView({ block: "center" });
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

  // Before the editor, which would take them as text.
  document.addEventListener("paste", paste, { capture: true });
  root.addEventListener("dragover", (event) => event.preventDefault());
  root.addEventListener("drop", drop, { capture: true });
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

// Kinds of text that the verdict explains: that they are not requests is not a mistake.
const TOLD = ["answer", "error", "exchanges", "record", "session", "lines", "prompt"];

/**
 * The text of a file; null where it has none.
 * @param {ArrayBuffer} bytes
 */
function textOf(bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text.includes("\0") || text.startsWith("%PDF-") ? null : text;
  } catch {
    return null;
  }
}

/**
 * The choice of the pane to show where both do not fit, as on a phone. The button `result` has the
 * name of the content beside the text.
 * @param {HTMLElement} panes
 */
function sidesOf(panes) {
  const request = button("Request", () => show(request));
  const result = button("Prompt", () => show(result));
  /** @param {HTMLElement} side */
  const show = (side) => {
    panes.dataset.side = side === request ? "request" : "result";
    for (const one of [request, result]) one.setAttribute("aria-pressed", String(one === side));
  };
  show(result);
  const root = element("div", { className: "sides modes", role: "group", "aria-label": "Pane" }, request, result);
  return { root, result };
}
