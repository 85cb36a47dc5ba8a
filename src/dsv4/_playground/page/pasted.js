// What was pasted and is no request. api/import recognises it; here it is opened where it belongs.

/** @typedef {import("./types.js").Imported} Imported */

// Behind the last step of any text: the view goes to its end.
const LAST = Number.MAX_SAFE_INTEGER;

/**
 * Opens an answer in Stream, at its end, and what is a request in Prompt. Returns whether there was
 * something to open.
 * @param {Imported} found
 * @param {Pick<import("./types.js").PageContext, "request" | "slice" | "go" | "tell">} context
 */
export function openPasted(found, { request, slice, go, tell }) {
  if (found.kind === "answer") {
    const { text, thinking, dialect } = found;
    const shown = { text, thinking, dialect: dialect ?? undefined };
    slice("stream").set({ ...shown, tools: "", reason: undefined, step: LAST });
    go("stream");
  } else if (found.kind === "request" || found.kind === "prompt") {
    request.set({ source: found.source, pictures: undefined, protocol: undefined });
    go("prompt");
  } else return false;
  tell([WORDS[found.kind], ...found.notes].join(" "));
  return true;
}

const WORDS = {
  answer: "This is an answer: Stream shows how it is read.",
  request: "This is a request.",
  prompt: "Decoded.",
};

/**
 * Whether a text that is pasted into the example is meant to stand in its place.
 * @param {string} text
 */
export const isWhole = (text) => /^\s*([[{"]|curl\b|\$ )|[\n｜]|<\/?think>/.test(text);
