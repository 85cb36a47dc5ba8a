// Elements that the Stream and Live views are built of.

import { element } from "./dom.js";

let made = 0;

/**
 * A card with a heading, the elements beside it, and its content.
 * @param {string} name
 * @param {string} title
 * @param {Node[]} beside
 * @param {...any} content
 */
export function card(name, title, beside, ...content) {
  const id = `card-${++made}`;
  return element(
    "section",
    { className: `box ${name}`, "aria-labelledby": id },
    element("header", {}, element("h2", { id }, title), beside),
    content,
  );
}

/**
 * A labelled text area.
 * @param {string} label
 * @param {string} value
 * @param {number} rows
 * @param {(text: string) => void} change
 */
export function area(label, value, rows, change) {
  const id = `area-${++made}`;
  const box = element("textarea", { id, rows, value, spellcheck: false });
  box.oninput = () => change(box.value);
  return element("div", { className: "area" }, element("label", { htmlFor: id }, label), box);
}

/** @param {number} value */
export const number = (value) => value.toLocaleString("en-US");

/**
 * A count with its noun: "1 token", "2,000 tokens".
 * @param {number} count
 * @param {string} noun
 */
export const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
