// Pasted text that is not a request.

// A step after the last of any text: the view goes to the end of the text.
const LAST = Number.MAX_SAFE_INTEGER;

/**
 * Opens an answer in Stream, at its end.
 * @param {NonNullable<import("./types.js").WhyAnswer["answer"]>} answer
 * @param {Pick<import("./types.js").PageContext, "slice" | "go">} context
 */
export function openAnswer({ text, thinking, dialect }, { slice, go }) {
  const shown = { text, thinking, dialect: dialect ?? undefined };
  slice("stream").set({ ...shown, tools: "", reason: undefined, step: LAST });
  go("stream");
}

/**
 * Whether a text that is pasted into the example is meant to replace it.
 * @param {string} text
 */
export const isWhole = (text) => /^\s*([[{"]|curl\b|\$ )|[\n｜]|<\/?think>|\p{L}{2,}\s+\p{L}{2,}\s+\p{L}|\p{Script=Han}{4}/u.test(text);
