import assert from "node:assert/strict";
import { test } from "node:test";
import { page } from "./page.js";

const { scan, withItems, withMember, withoutMember } = await page("jsontext.js");

const TEXT = `{
  "model": "m", "temperature": 1.50,
  "messages": [
    {"role": "user", "content": "a \\"b\\" [c]"},
    {"role": "assistant", "content": null, "tool_calls": []}
  ]
}`;

/** Every node below one, with itself. */
const nodes = (node) => [
  node,
  ...(node.items ?? []).flatMap(nodes),
  ...[...(node.members?.values() ?? [])].flatMap(nodes),
];

test("each node is the text of its value", () => {
  const found = nodes(scan(TEXT));
  assert.equal(found.length, 11);
  for (const { start, end, value } of found)
    assert.deepEqual(JSON.parse(TEXT.slice(start, end)), value);
});

test("text that is not JSON, or nested too deep, has no tree", () => {
  assert.equal(scan('{"a": '), null);
  assert.equal(scan("[".repeat(200_000) + "]".repeat(200_000)), null);
});

test("a changed member leaves all else as it was written", () => {
  const message = scan(TEXT).members.get("messages").items[0];
  const changed = withMember(TEXT, message, "content", "x\ny");
  assert.equal(changed, TEXT.replace('"a \\"b\\" [c]"', '"x\\ny"'));
});

test("a new member goes after the last, spaced as the first", () => {
  const message = scan(TEXT).members.get("messages").items[0];
  const changed = withMember(TEXT, message, "name", "n");
  assert.equal(changed, TEXT.replace('[c]"}', '[c]", "name": "n"}'));
  assert.equal(withMember("{}", scan("{}"), "a", 1), '{"a": 1}');
  assert.equal(withMember('{\n  "a": 1\n}', scan('{\n  "a": 1\n}'), "b", 2), '{\n  "a": 1,\n  "b": 2\n}');
});

test("a member is taken out of its object alone", () => {
  const message = scan(TEXT).members.get("messages").items[1];
  const changed = JSON.parse(withoutMember(TEXT, message, "tool_calls"));
  assert.deepEqual(changed.messages[1], { role: "assistant", content: null });
  assert.ok(withoutMember(TEXT, message, "tool_calls").includes('"temperature": 1.50'));
});

test("items are moved, added and removed as they were written", () => {
  const list = scan(TEXT).members.get("messages");
  const [first, second] = list.items;
  const moved = withItems(TEXT, list, [second, first, { value: { role: "user", content: "new" } }]);
  assert.deepEqual(
    JSON.parse(moved).messages.map(({ role, content }) => [role, content]),
    [["assistant", null], ["user", 'a "b" [c]'], ["user", "new"]],
  );
  assert.ok(moved.includes('{"role": "user", "content": "a \\"b\\" [c]"}'));
  assert.deepEqual(JSON.parse(withItems(TEXT, list, [])).messages, []);
});
