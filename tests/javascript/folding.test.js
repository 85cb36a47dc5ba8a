import assert from "node:assert/strict";
import { test } from "node:test";
import { page } from "./page.js";

const { FoldedText, foldableLines } = await page("folding.js");

const BODY = { messages: [{ role: "user", content: "Hi {" }, { role: "tool", content: "]" }], n: [1] };
const TEXT = JSON.stringify(BODY, null, 2);
const LINES = TEXT.split("\n");

test("what opens at the end of a line and closes on one of its own can be folded", () => {
  assert.deepEqual([...foldableLines(LINES)], [[0, 14], [1, 10], [2, 5], [6, 9], [11, 13]]);
  assert.deepEqual([...foldableLines(['{"a": [', "1", "]}"])], [[0, 2]]);
  assert.deepEqual([...foldableLines(["{", "}"])], []);
  assert.deepEqual([...foldableLines(["{", '  "open', "  1", "}"])], [[0, 3]]);
  assert.deepEqual([...foldableLines(["}", "{", "[", "1", "}"])], []);
});

test("the outline leaves the items of lists folded", () => {
  const outline = new FoldedText(TEXT).outlined();
  assert.deepEqual([...outline.folds], [2, 6]);
  assert.equal(outline.text, TEXT);
  const shown = ["{", '  "messages": [', "    {", "    },", "    {", "    }", "  ],", '  "n": [', "    1", "  ]", "}"];
  assert.deepEqual(outline.shownLines, shown);
  assert.equal(outline.summary(2), '"role": "user", "content": "Hi {"');
});

test("offsets lead to what is shown and back", () => {
  const folded = new FoldedText(TEXT, [1]);
  for (let at = 0; at <= TEXT.length; at++) {
    const isHidden = at > TEXT.indexOf("[") + 1 && at < TEXT.indexOf("  ],");
    assert.equal(folded.isHidden(at), isHidden);
    assert.equal(folded.toText(folded.toShown(at)), isHidden ? TEXT.indexOf("[") + 1 : at);
  }
});

test("a place inside of folds opens those around it, and no others", () => {
  const folded = new FoldedText(TEXT, [1, 2, 6]);
  assert.deepEqual([...folded.openedAt(TEXT.indexOf("Hi")).folds], [6]);
  assert.equal(folded.openedAt(0), folded);
});

test("the innermost part around a place is found", () => {
  assert.equal(new FoldedText(TEXT).around(TEXT.indexOf("Hi")), 2);
  assert.equal(new FoldedText("1").around(0), null);
});

const edit = (folded, from, to) => folded.edited(folded.shownText.replace(from, to));

test("an edit elsewhere leaves folds, and their lines, as they are", () => {
  const folded = new FoldedText(TEXT, [2, 11]);
  const one = edit(folded, '"tool"', '"user"');
  assert.equal(one.text, TEXT.replace('"tool"', '"user"'));
  assert.deepEqual([...one.folds], [2, 11]);
  const more = edit(folded, '"role": "tool",', '"role": "tool",\n\n"a": 1,');
  assert.equal(more.text, TEXT.replace('"role": "tool",', '"role": "tool",\n\n"a": 1,'));
  assert.deepEqual([...more.folds], [2, 13]);
});

test("an edit of the line that is folded leaves it folded while it opens something", () => {
  const folded = new FoldedText(TEXT, [11]);
  assert.deepEqual([...edit(folded, '"n": [', '"many": [').folds], [11]);
  const open = edit(folded, '"n": [', '"n": ');
  assert.deepEqual([...open.folds], []);
  assert.equal(open.shownText, TEXT.replace('"n": [', '"n": '));
});

test("an edit across a fold takes what is folded with it, and never half of it", () => {
  const folded = new FoldedText(TEXT, [11]);
  assert.equal(edit(folded, '"n": [\n  ]', '"n": []').text, TEXT.replace('[\n    1\n  ]', "[]"));
  assert.equal(folded.edited("").text, "");
  const headless = edit(folded, '  "n": [\n', "");
  assert.equal(headless.text, TEXT.replace('  "n": [\n', ""));
  assert.deepEqual([...headless.folds], []);
  const enter = edit(folded, '"n": [\n', '"n": [\n\n');
  assert.equal(enter.shownText, enter.text);
});

test("a text that is too long is not folded", () => {
  assert.equal(new FoldedText(`[\n${"1,\n".repeat(4000)}1\n]`).foldable.size, 0);
});
