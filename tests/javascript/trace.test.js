// `test_trace_in_javascript.py` compares every step of real traces with the parser. Here is what it
// does not ask: where buttons go, and the ends of long texts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { page } from "./page.js";

const { Trace } = await page("trace.js");

// "Hm. Hello" in pieces of three: reasoning, then content, with a repair that comes with the last.
const TEXT = "Hm. Hello";
const STATES = [
  { name: "PROSE", words: "text" },
  { name: "BLOCK", words: "between tags" },
];
const ANSWER = {
  length: 9,
  steps: 4,
  cuts: [3, 3, 3],
  knots: [
    [0, 0, 0, 0, true],
    [2, 1, 1, 4, false],
    [3, 0, 0, 9, true],
  ],
  holds: [
    [null, ""],
    [4, "a tag may follow"],
  ],
  rows: [
    { type: "ReasoningDelta", step: 1, text: "Hm.", runs: [[1, 1, 3]] },
    { type: "Diagnostic", step: 3, kind: "b", start: 6, end: 7, sentence: "" },
    { type: "Diagnostic", step: 2, kind: "a", start: 3, end: 4, sentence: "" },
    { type: "ContentDelta", step: 3, text: " Hello", runs: [[3, 1, 6]] },
  ],
  frames: { chat: { start: [{}], rows: [[[{}], null]], finish: [], whole: false } },
  message: { finish: "stop" },
  events: 4,
  strict: { accepts: true, message: null },
};
const trace = new Trace(ANSWER, TEXT, STATES);

test("a place has the step at which it arrived", () => {
  assert.deepEqual([0, 1, 2, 3, 4].map((step) => trace.end(step)), [0, 3, 6, 9, 9]);
  assert.deepEqual([0, 1, 3, 4, 9].map((place) => trace.stepAt(place)), [0, 1, 1, 2, 3]);
});

test("the state, what is held and why, at a step", () => {
  assert.equal(trace.at(1).state, "PROSE");
  const { state, before, start, end, hold } = trace.at(2);
  assert.deepEqual([state, before, start, end], ["BLOCK", "PROSE", 4, 6]);
  assert.deepEqual(hold, { rule: 4, reason: "a tag may follow" });
});

test("states count as seen from the step they were first entered", () => {
  assert.deepEqual([...trace.seen(1)], ["PROSE"]);
  assert.deepEqual([...trace.seen(2)], ["PROSE", "BLOCK"]);
});

test("changes lead from knot to knot, and to both ends", () => {
  assert.deepEqual([0, 2, 3].map((step) => trace.change(step, 1)), [2, 3, 4]);
  assert.deepEqual([4, 3, 2, 0].map((step) => trace.change(step, -1)), [3, 2, 0, 0]);
});

test("repairs are numbered by their place, and found by their step", () => {
  assert.deepEqual(trace.repairs.map(({ kind, number }) => [kind, number]), [["a", 1], ["b", 2]]);
  assert.deepEqual([1, 2].map((row) => trace.numberOf(row)), [2, 1]);
  assert.deepEqual([0, 2, 3].map((step) => trace.repair(step, 1)), [2, 3, null]);
  assert.deepEqual([2, 3].map((step) => trace.repair(step, -1)), [null, 2]);
});

test("of a long text the end is given, and how much is before it", () => {
  const { reasoning, content, finish } = trace.messageAt(3, 2, 10);
  assert.deepEqual(reasoning, { before: 1, text: "m." });
  assert.deepEqual(content, { before: 4, text: "lo" });
  assert.equal(finish, null);
  assert.equal(trace.messageAt(4, 2, 10).finish, "stop");
});

test("a protocol says whether all of its frames are there", () => {
  assert.equal(trace.isFramed("chat"), false);
});
