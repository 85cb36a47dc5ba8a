// Facts about prompts besides their text: shares, differences, missing parts.

/** @typedef {import("./types.js").Place} Place */
/** @typedef {import("./types.js").PromptAnswer} PromptAnswer */
/** @typedef {import("./types.js").PromptSide} PromptSide */

/**
 * A sentence, its style ("problem", "good", "warning" or none), the name of what it is about, and
 * the place in the request.
 * @typedef {{ words: string, style: string, name: string, place: Place | null }} Fact
 */

/** Fields without a place in the format that are named; the others are only counted. */
const MOST_NAMED = 5;

/**
 * The size of each kind of text in a prompt, with its share in percent.
 * @param {Pick<PromptSide, "shares" | "tokens">} side
 */
export function sharesOf({ shares, tokens }) {
  const all = shares.reduce((sum, { amount }) => sum + amount, 0) || 1;
  return {
    unit: tokens === null ? "character" : "token",
    parts: shares.map(({ kind, amount }) => ({ kind, amount, percent: percent(amount, all) })),
  };
}

/**
 * @param {number} amount
 * @param {number} all
 */
const percent = (amount, all) => `${((100 * amount) / all).toFixed(amount * 100 < all ? 1 : 0)}%`;

/**
 * The facts to show about an answer of api/prompt.
 * @param {Pick<PromptAnswer, "sides" | "same" | "reasons">} answer
 * @returns {Fact[]}
 */
export function factsOf({ sides, same, reasons }) {
  /** @type {PromptSide[]} */
  const prompts = [];
  /** @type {Fact[]} */
  const facts = [];
  for (const side of sides)
    if (side.problem) facts.push(fact(`${side.problem.path} ${side.problem.message}`, "problem"));
    else prompts.push(side);
  if (same === true) facts.push(fact("Both prompts are the same.", "good"));
  if (same === false && !reasons.length) facts.push(fact("The prompts differ where they are marked."));
  for (const { kind, message, place } of reasons)
    facts.push({ words: message, style: "", name: kind, place });
  for (const words of new Set(prompts.map((side) => side.no_tokens))) if (words) facts.push(fact(words));
  return prompts.length ? [...facts, ...factsOfPrompt(prompts[0])] : facts;
}

/**
 * @param {PromptSide} side
 * @returns {Fact[]}
 */
function factsOfPrompt({ spelled, unread }) {
  const facts = [];
  if (spelled)
    facts.push(
      fact(
        spelled === 1
          ? "One place in the text spells a special token. It is marked, and stays text."
          : `${spelled} places in the text spell a special token. They are marked, and stay text.`,
        "warning",
      ),
    );
  if (unread.length) {
    const more = unread.length > MOST_NAMED ? ` and ${unread.length - MOST_NAMED} more` : "";
    const named = unread.slice(0, MOST_NAMED).join(", ");
    facts.push(fact(`The format has no place for ${named}${more}.`));
  }
  return facts;
}

/**
 * @param {string} words
 * @returns {Fact}
 */
const fact = (words, style = "") => ({ words, style, name: "", place: null });
