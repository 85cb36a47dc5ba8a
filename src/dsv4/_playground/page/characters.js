// Text that must not change how the page reads: control characters and marks of direction are shown
// as signs in place of acting.

// Tab and line break stay; the other controls have pictures in Unicode.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const ACTING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const PICTURES = 0x2400;
const DELETE = "\u2421";

/**
 * The text with signs in place of control characters and marks of direction.
 * @param {string} text
 */
export const harmless = (text) =>
  text.replace(ACTING, (found) => {
    const code = found.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(PICTURES + code);
    if (code === 0x7f) return DELETE;
    return `\u27e8${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
  });

/**
 * The text on one line, cut in its middle where it is longer than `most`.
 * @param {string} text
 * @param {number} most
 */
export function brief(text, most) {
  const half = most >> 1;
  const cut =
    text.length <= most
      ? text
      : `${text.slice(0, whole(text, half))} \u2026 ${text.slice(whole(text, text.length - half))}`;
  return harmless(cut).replace(/\n/g, "\u21b5").replace(/\t/g, "\u21e5");
}

/**
 * A place that does not cut a character of two units.
 * @param {string} text
 * @param {number} at
 */
export const whole = (text, at) =>
  text.charCodeAt(at) >= 0xdc00 && text.charCodeAt(at) <= 0xdfff ? at - 1 : at;
