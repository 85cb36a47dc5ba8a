// Pictures beside a request: names for long ones, and the words of a size.

import assert from "node:assert/strict";
import { test } from "node:test";
import { page } from "./page.js";

const { freeName, liftedPictures, picturesOf, sizeWords } = await page("pictures.js");
const { isWhole } = await page("pasted.js");

const DATA = "A".repeat(5000);
const URL = `data:image/png;base64,${DATA}`;

test("long pictures get names, and short texts stay", () => {
  const source = JSON.stringify({ url: URL, text: "data:image/png;base64,AAAA", note: "x".repeat(5000) + " y" });
  const { text, pictures } = liftedPictures(source, {});
  assert.deepEqual(JSON.parse(text).url, "picture:1");
  assert.deepEqual(pictures, { 1: URL });
  assert.equal(JSON.parse(text).text, "data:image/png;base64,AAAA");
  assert.equal(JSON.parse(text).note.length, 5002);
});

test("the same picture has one name, and taken names are left", () => {
  const { text, pictures } = liftedPictures(JSON.stringify([URL, URL, `${URL}AAAA`]), { 1: "data:x" });
  assert.equal(text, '["picture:2","picture:2","picture:3"]');
  assert.deepEqual(Object.keys(pictures), ["1", "2", "3"]);
});

test("base64 without an address is known by its beginning", () => {
  const kinds = { "/9j/": "jpeg", R0lGOD: "gif", UklGR: "webp", iVBORw: "png" };
  for (const [start, kind] of Object.entries(kinds)) {
    const { pictures } = liftedPictures(JSON.stringify({ data: start + DATA }), {});
    assert.equal(pictures[1], `data:image/${kind};base64,${start}${DATA}`);
  }
});

test("what is lifted changes nothing in what is known", () => {
  const known = {};
  liftedPictures(JSON.stringify([URL]), known);
  assert.deepEqual(known, {});
});

test("a file keeps its name, unless that is taken", () => {
  assert.equal(freeName("shot.png", {}), "shot.png");
  assert.equal(freeName("shot.png", { "shot.png": "", "shot-2.png": "" }), "shot-3.png");
  assert.equal(freeName("shot", { shot: "" }), "shot-2");
  assert.equal(freeName("", {}), "1");
});

test("a link may hold anything for pictures", () => {
  for (const pictures of [undefined, null, 5, "x", [URL]])
    assert.deepEqual(picturesOf({ get: () => ({ pictures }) }), {});
});

test("a size in words, beside the picture's own", () => {
  const whole = { scale: 100, width: 1920, height: 1080, columns: 41, rows: 23, tokens: 968 };
  const half = { scale: 50, width: 960, height: 540, columns: 23, rows: 13, tokens: 314 };
  assert.equal(sizeWords(half, whole), "50 %: 960 × 540, 23 × 13 cells, 314 tokens (−654)");
  assert.equal(sizeWords(whole, whole), "100 %: 1920 × 1080, 41 × 23 cells, 968 tokens");
});

test("what is pasted into the example replaces it, unless it is a word or two", () => {
  for (const text of ["{}", " [1]", "curl x", "$ curl x", "a\nb", "<｜User｜>", "Hm.</think>Hi"])
    assert.equal(isWhole(text), true, text);
  for (const text of ["", "hello", "curly", "a { b"]) assert.equal(isWhole(text), false, text);
});
