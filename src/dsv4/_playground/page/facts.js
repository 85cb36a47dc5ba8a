// What is to be known of prompts, besides their text: shares, differences, what is missing.

import { button, element } from "./dom.js";

/** What takes how much, as a bar and in words. */
export function sharesOf(side) {
  const all = side.shares.reduce((sum, { amount }) => sum + amount, 0) || 1;
  const unit = side.tokens === null ? "characters" : "tokens";
  const percent = (amount) => `${((100 * amount) / all).toFixed(amount * 100 < all ? 1 : 0)}%`;
  return [
    element(
      "div",
      { className: "bar-of-shares", "aria-hidden": "true" },
      side.shares.map(({ kind, amount }) => {
        const part = element("span", {
          className: `share ${kind}`,
          title: `${kind}: ${amount} ${unit}`,
        });
        part.style.flexGrow = amount;
        return part;
      }),
    ),
    element(
      "ul",
      { className: "legend", "aria-label": `${unit} by part` },
      side.shares.map(({ kind, amount }) =>
        element(
          "li",
          {},
          element("span", { className: `share ${kind}`, "aria-hidden": "true" }),
          `${kind} `,
          element(
            "span",
            { className: "faint" },
            `${amount.toLocaleString("en")} · ${percent(amount)}`,
          ),
        ),
      ),
    ),
  ];
}

/** What is to be known of them, and what is missing. `point(place)` shows a place of the request. */
export function factsOf(answer, point) {
  const found = [];
  const say = (words, className = "") =>
    found.push(element("p", { className: `fact ${className}` }, words));
  for (const side of answer.sides)
    if (side.problem) say(`${side.problem.path} ${side.problem.message}`, "problem");
  const good = answer.sides.filter((side) => !side.problem);
  if (answer.same === true) say("Both prompts are the same.", "good");
  if (answer.same === false && !answer.reasons.length)
    say("The prompts differ where they are marked.");
  for (const reason of answer.reasons)
    found.push(
      element(
        "p",
        { className: "fact" },
        element("b", {}, reason.kind),
        ` ${reason.message} `,
        reason.place &&
          button("Show in the request", () => point(reason.place), {
            className: "small",
          }),
      ),
    );
  for (const words of new Set(good.map((side) => side.no_tokens).filter(Boolean))) say(words);
  const [side] = good;
  if (side?.spelled)
    say(
      side.spelled === 1
        ? "One place in the text spells a special token. It is marked, and stays text."
        : `${side.spelled} places in the text spell a special token. They are marked, and stay text.`,
      "warning",
    );
  if (side?.unread.length) {
    const names = side.unread.map(({ message, field }) => `messages[${message}].${field}`);
    const more = names.length > 5 ? ` and ${names.length - 5} more` : "";
    say(`The format has no place for ${names.slice(0, 5).join(", ")}${more}.`);
  }
  return found;
}
