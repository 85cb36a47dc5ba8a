import assert from "node:assert/strict";
import { test } from "node:test";
import { page } from "./page.js";

const { commonEnds, innermostPlace, pairedRows, sameRow } = await page("pairing.js");

test("a row is found again by the place it came from", () => {
  const before = [[null], [[5, 9]], [[5, 9]], [], [[20, 30]]];
  assert.equal(sameRow(before, before, 2), 2, "as many rows are the same rows");
  const after = [[], [], [[5, 9]], [[5, 9]], [[12, 14]], [[20, 30], null]];
  assert.equal(sameRow(before, after, 2), 3, "the second of two from one place");
  assert.equal(sameRow(before, after, 3), 3, "a row from nowhere stays behind the one before it");
  assert.equal(sameRow(before, after, 4), 5);
  assert.equal(sameRow(before, [[[5, 9]], [[6, 7]]], 4), 1, "what is gone: the last before it");
  assert.equal(sameRow(before, [], 4), 0);
});

const side = (...keys) => ({
  rows: keys.map((key) => ({ message: Number(key[0]), field: key.slice(1) })),
});

test("lists share a start and an end, which do not overlap", () => {
  assert.deepEqual(commonEnds(["a", "b", "c"], ["a", "x", "c"]), [1, 1]);
  assert.deepEqual(commonEnds(["a", "a"], ["a", "a", "a"]), [2, 0]);
  assert.deepEqual(commonEnds(["a"], ["b"]), [0, 0]);
  assert.deepEqual(commonEnds([], ["b"]), [0, 0]);
});

test("one prompt has a row in each pair", () => {
  assert.deepEqual(pairedRows([side("0header", "0content")]), [[0], [1]]);
  assert.deepEqual(pairedRows([]), []);
});

test("rows of the same message and field go beside each other", () => {
  const pairs = pairedRows([side("0a", "0b", "1a"), side("0a", "1a")]);
  assert.deepEqual(pairs, [[0, 0], [1, null], [2, 1]]);
});

test("what only the second prompt has stands between", () => {
  const pairs = pairedRows([side("0a", "1a"), side("0a", "0b", "0c", "1a", "2a")]);
  assert.deepEqual(pairs, [[0, 0], [null, 1], [null, 2], [1, 3], [null, 4]]);
});

test("every row is in one pair, in order, when the prompts have little in common", () => {
  const [left, right] = [side("0a", "0b", "0a", "3c"), side("3c", "0a", "9z", "0b", "0a")];
  const pairs = pairedRows([left, right]);
  const column = (n) => pairs.map((pair) => pair[n]).filter((row) => row !== null);
  assert.deepEqual(column(0), [0, 1, 2, 3]);
  assert.deepEqual(column(1), [0, 1, 2, 3, 4]);
});

test("the innermost place around an offset is found", () => {
  const places = [[[0, 100], null], [[10, 40], [20, 25]], []];
  assert.deepEqual(innermostPlace([{ places }], 22), [20, 25]);
  assert.deepEqual(innermostPlace([{ places }], 30), [10, 40]);
  assert.deepEqual(innermostPlace([{ places }], 99), [0, 100]);
  assert.equal(innermostPlace([{ places }], 101), null);
});
