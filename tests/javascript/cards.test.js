import assert from "node:assert/strict";
import { test } from "node:test";
import { page } from "./page.js";

const { counted } = await page("cards.js");

test("one of a thing is not many", () => {
  assert.equal(counted(1, "token"), "1 token");
  assert.equal(counted(0, "repair"), "0 repairs");
  assert.equal(counted(2000, "character"), "2,000 characters");
});
