import assert from "node:assert/strict";
import { test } from "node:test";
import { page } from "./page.js";

const { hitFrom, hitsOf } = await page("findbar.js");

test("hits are found whatever their capitals, and do not overlap", () => {
  assert.deepEqual(hitsOf('{"role": "User", "user": 1}', "USER"), [
    [10, 14],
    [18, 22],
  ]);
  assert.deepEqual(hitsOf("aaaa", "aa"), [
    [0, 2],
    [2, 4],
  ]);
  assert.deepEqual(hitsOf("a.b", "."), [[1, 2]], "no pattern, only text");
  assert.deepEqual(hitsOf("anything", ""), []);
});

test("where small letters are longer than capitals, places stay right", () => {
  assert.deepEqual(hitsOf("\u0130\u0130x", "x"), [[2, 3]]);
});

test("there is an end to hits", () => {
  assert.equal(hitsOf("a".repeat(5000), "a").length, 2000);
});

test("the first hit is the one after the caret, and after the last the first", () => {
  const hits = hitsOf("a a a", "a");
  assert.equal(hitFrom(hits, 1), 1);
  assert.equal(hitFrom(hits, 5), 0);
  assert.equal(hitFrom([], 0), -1);
});
