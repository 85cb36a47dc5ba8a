import assert from "node:assert/strict";
import { test } from "node:test";
import { page } from "./page.js";

const { EVERYTHING, clientName, isWanted } = await page("requestfilter.js");

const summary = {
  number: 7,
  owner: "ann",
  client: "claude-cli/2.1 (external, cli)",
  protocol: "messages",
  model: "deepseek-v4",
  said: "Fix the leak in Parser.py",
  tail: "I will look at it.",
  problem: "",
  repairs: 0,
};
const wanted = (filter, changes = {}) =>
  isWanted({ ...summary, ...changes }, { ...EVERYTHING, ...filter });

test("a client is named by its user agent, without remarks", () => {
  assert.equal(clientName(summary), "claude-cli/2.1");
  assert.equal(clientName({ client: "OpenAI/Python 2.3.0" }), "OpenAI/Python 2.3.0");
  assert.equal(clientName({ client: "Mozilla/5.0 (X11) Chrome/140" }), "Browser");
  assert.equal(clientName({ client: "" }), "unnamed client");
});

test("a request is found by any text of its row, however it is capitalised", () => {
  for (const text of ["", " parser.PY ", "CLAUDE-CLI", "external", "look at it", "ann", "v4"])
    assert.ok(wanted({ text }), text);
  assert.ok(!wanted({ text: "umbrella" }));
});

test("a request is wanted for its protocol and for its repairs", () => {
  assert.ok(wanted({ protocol: "messages" }));
  assert.ok(!wanted({ protocol: "chat" }));
  assert.ok(!wanted({ hasRepairs: true }));
  assert.ok(wanted({ hasRepairs: true, text: "leak", protocol: "messages" }, { repairs: 2 }));
});
