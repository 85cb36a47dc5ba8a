import assert from "node:assert/strict";
import { test } from "node:test";
import { page } from "./page.js";

const { factsOf, sharesOf } = await page("facts.js");

const side = { no_tokens: null, spelled: 0, unread: [] };
const answer = { sides: [side], same: null, reasons: [] };
const words = (facts) => facts.map((fact) => fact.words);

test("shares are in percent of all, with a digit more below one", () => {
  const shares = [
    { kind: "user", amount: 990 },
    { kind: "tools", amount: 4 },
    { kind: "format", amount: 6 },
  ];
  assert.deepEqual(sharesOf({ shares, tokens: 1000 }), {
    unit: "token",
    parts: [
      { kind: "user", amount: 990, percent: "99%" },
      { kind: "tools", amount: 4, percent: "0.4%" },
      { kind: "format", amount: 6, percent: "0.6%" },
    ],
  });
});

test("without tokens, characters are counted", () => {
  assert.deepEqual(sharesOf({ shares: [], tokens: null }), { unit: "character", parts: [] });
});

test("a prompt with nothing to tell has no facts", () => {
  assert.deepEqual(factsOf(answer), []);
});

test("two prompts are the same, or differ for reasons with their place", () => {
  const two = { ...answer, sides: [side, side] };
  assert.deepEqual(words(factsOf({ ...two, same: true })), ["Both prompts are the same."]);
  assert.deepEqual(words(factsOf({ ...two, same: false })), [
    "The prompts differ where they are marked.",
  ]);
  const reasons = [{ kind: "effort", message: "is not written", place: [3, 9] }];
  assert.deepEqual(factsOf({ ...two, same: false, reasons }), [
    { words: "is not written", style: "", name: "effort", place: [3, 9] },
  ]);
});

test("a side that cannot be written says why, and the other is still described", () => {
  const problem = { path: "messages[1].role", message: "found 5" };
  const found = factsOf({ ...answer, sides: [{ problem }, { ...side, spelled: 1 }] });
  assert.deepEqual(
    found.map(({ words, style }) => [words, style]),
    [
      ["messages[1].role found 5", "problem"],
      ["One place in the text spells a special token. It is marked, and stays text.", "warning"],
    ],
  );
});

test("what is missing is told once, and fields beyond five are counted", () => {
  const unread = [0, 1, 2, 3, 4, 5, 6].map((n) => `messages[${n}].name`);
  const poor = { ...side, no_tokens: "No counts.", unread };
  const found = words(factsOf({ ...answer, sides: [poor, poor] }));
  assert.equal(found.filter((one) => one === "No counts.").length, 1);
  assert.match(found.at(-1), /messages\[4\]\.name and 2 more\.$/);
});
