// Buttons that copy the shown view as a link, as curl, as Python, and as a pytest case.

import { button, element } from "./dom.js";

const FORMS = [
  ["curl", "curl"],
  ["python", "Python"],
  ["pytest", "pytest"],
];

/**
 * Puts a text on the clipboard.
 * @param {string} text
 */
export async function toClipboard(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Pages that came over plain HTTP from another machine have no clipboard.
  const area = element("textarea", { value: text, className: "visually-hidden" });
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/**
 * A row of buttons that copy. `ask(form)` resolves to the text of a form, `link()` to the address
 * that restores the page, null where it would be too long; `tell` reports what was done.
 * @param {{
 *   ask: (form: string) => Promise<string | undefined>,
 *   link: () => Promise<string | null>,
 *   tell: (words: string) => void,
 * }} options
 */
export function copyButtons({ ask, link, tell }) {
  /**
   * @param {HTMLButtonElement} control
   * @param {string} words
   */
  const done = (control, words) => {
    control.classList.add("done");
    setTimeout(() => control.classList.remove("done"), 1500);
    tell(words);
  };
  /**
   * @param {string} label
   * @param {string} words
   * @param {() => Promise<string | null | undefined>} text
   */
  const made = (label, words, text) => {
    /** @type {HTMLButtonElement} */
    const control = button(
      label,
      async () => {
        try {
          const copied = await text();
          if (copied === null) return tell("This is too long for a link.");
          if (copied === undefined) return;
          await toClipboard(copied);
          done(control, `Copied ${words}.`);
        } catch (error) {
          tell(`Nothing was copied: ${error instanceof Error ? error.message : error}`);
        }
      },
      { title: `Copy ${words}`, "aria-label": `Copy ${words}` },
    );
    return control;
  };
  return element(
    "div",
    { className: "copying", role: "group", "aria-label": "Copy" },
    element("span", { className: "faint" }, "Copy"),
    made("Link", "a link to this page", link),
    FORMS.map(([form, label]) => made(label, `this as ${label}`, () => ask(form))),
  );
}
