// What is copied: texts, and a link to what is shown.

import { button, element } from "./dom.js";

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
 * A button that copies a link. `link()` resolves to the address that restores the page, null where
 * it would be too long; `tell` reports what was done.
 * @param {() => Promise<string | null>} link
 * @param {(words: string) => void} tell
 */
export function linkButton(link, tell) {
  return button(
    "Copy link",
    async () => {
      try {
        const copied = await link();
        if (copied === null) return tell("This is too long for a link.");
        await toClipboard(copied);
        tell("Copied a link to this page.");
      } catch (error) {
        tell(`Nothing was copied: ${error instanceof Error ? error.message : error}`);
      }
    },
    { className: "copying", title: "Copy a link to this page", "aria-label": "Copy a link to this page" },
  );
}
