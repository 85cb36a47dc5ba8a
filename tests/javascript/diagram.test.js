import assert from "node:assert/strict";
import { test } from "node:test";
import { page } from "./page.js";

const { neighbour } = await page("diagram.js");

test("arrows lead from a state to the one beside it", () => {
  assert.equal(neighbour("PROSE", "ArrowRight"), "BLOCK");
  assert.equal(neighbour("BLOCK", "ArrowDown"), "BROKEN");
  assert.equal(neighbour("BROKEN", "ArrowLeft"), "PLAIN");
  assert.equal(neighbour("PLAIN", "ArrowUp"), "PROSE");
});

test("at the edge an arrow leads nowhere", () => {
  assert.equal(neighbour("STRAY", "ArrowUp"), "STRAY");
  assert.equal(neighbour("JSON", "ArrowRight"), "JSON");
});
