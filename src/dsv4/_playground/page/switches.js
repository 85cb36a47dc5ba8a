// The switches that views of a request share. Where one is not set, the request decides.

import { choice, element, menu } from "./dom.js";

/** @typedef {import("./types.js").PageContext} PageContext */

const UNSET = "";
/** @param {string} words */
const asSaid = (words) => [UNSET, words];

/** @type {Record<string, boolean | undefined>} */
const VALUES = { [UNSET]: undefined, true: true, false: false };
/**
 * Reads a choice as the JSON that is sent: nothing, true, false or a text.
 * @param {string} value
 */
const read = (value) => (value in VALUES ? VALUES[value] : value);

/**
 * The part of the shared slice that api/prompt and api/cache take.
 * @param {import("./types.js").Slice} request
 */
export function requestBody(request) {
  const { source, pictures, protocol, dialect, thinking, effort, drop_thinking, tool_choice, turn } =
    request.get();
  return { source, pictures, protocol, dialect, thinking, effort, drop_thinking, tool_choice, turn };
}

/**
 * The shown JSON text: the user's, or the first example.
 * @param {Pick<PageContext, "request" | "settings">} context
 * @returns {string}
 */
export const sourceOf = ({ request, settings }) =>
  request.get().source ?? settings.examples[0].source;

/**
 * A menu of requests to begin with.
 * @param {PageContext} context
 */
export const examples = ({ request, settings }) =>
  menu(
    "Examples",
    settings.examples.map(({ title }) => title),
    (n) => request.set({ source: settings.examples[n].source, pictures: undefined, protocol: undefined, turn: undefined }),
  );

/**
 * A row of switches. `update(tools)` renews the names of tools that can be chosen.
 * @param {PageContext} context
 */
export function switches(context) {
  const { request, settings } = context;
  const root = element("div", { className: "switches", role: "group", "aria-label": "Switches" });
  /** @type {string[]} */
  let tools = [];
  const draw = () => {
    const now = request.get();
    const active = document.activeElement;
    const open = active instanceof HTMLSelectElement && root.contains(active) ? active.name : null;
    const efforts =
      settings.dialects.find(({ name }) => name === (now.dialect ?? settings.dialect))?.efforts ??
      [];
    /**
     * @param {string} label
     * @param {string} name
     * @param {string[][]} options
     */
    const made = (label, name, options) =>
      choice(
        label,
        options,
        String(now[name] ?? UNSET),
        (value) => request.set({ [name]: read(value) }),
        { name },
      );
    const said = asSaid("as sent");
    const names = tools.map((name) => [name, name]);
    const chosen = now.tool_choice;
    const modes = ["auto", "none", "required"];
    if (chosen && !modes.includes(chosen) && !tools.includes(chosen)) names.push([chosen, chosen]);
    root.replaceChildren(
      made("Dialect", "dialect", [
        asSaid(`${settings.dialect} (default)`),
        ...settings.dialects.map(({ name }) => [name, name]),
      ]),
      made("Thinking", "thinking", [said, ["true", "on"], ["false", "off"]]),
      made("Effort", "effort", [said, ...efforts.map((effort) => [effort, effort])]),
      made("Old reasoning", "drop_thinking", [said, ["true", "dropped"], ["false", "kept"]]),
      made("Tool choice", "tool_choice", [said, ...modes.map((mode) => [mode, mode]), ...names]),
    );
    for (const select of root.querySelectorAll("select")) if (select.name === open) select.focus();
  };
  request.onChange((_, names) => {
    if (names.some((name) => name !== "source")) draw();
  });
  draw();
  return {
    root,
    /** @param {string[]} names */
    update(names) {
      if (String(names) === String(tools)) return;
      tools = names;
      draw();
    },
  };
}
