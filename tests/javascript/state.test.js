import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";
import { page } from "./page.js";

const { Store, fromFragment, withoutKeys } = await page("state.js");

test("a fragment restores the view and its slices", async () => {
  const store = new Store({ view: "prompt", slices: {} });
  store.slice("request").set({ source: "¡Hola! 🌧 <b>", thinking: false });
  store.slice("prompt").set({ tokens: "ids" });
  const read = await fromFragment(await store.toFragment());
  assert.deepEqual(read, {
    view: "prompt",
    slices: {
      request: { source: "¡Hola! 🌧 <b>", thinking: false },
      prompt: { tokens: "ids" },
    },
    isBroken: false,
  });
});

test("a view with nothing in it is its name", async () => {
  assert.equal(await new Store({ view: "cache", slices: {} }).toFragment(), "#cache");
});

test("a state that is too long for a URL has no fragment", async () => {
  const noise = Array.from({ length: 700_000 }, (_, n) => String.fromCharCode(32 + ((n * n * 7919) % 90000)));
  const store = new Store({ view: "prompt", slices: { request: { source: noise.join("") } } });
  assert.equal(await store.toFragment(), null);
});

for (const fragment of ["#prompt/1.!!!!", "#prompt/1.AAAA"])
  test(`a fragment that cannot be read is broken: ${fragment}`, async () => {
    assert.deepEqual(await fromFragment(fragment), { view: "prompt", slices: {}, isBroken: true });
  });

test("a fragment of another form, or none, has no slices", async () => {
  for (const fragment of ["#prompt/9.AAAA", "#prompt", "#/", ""])
    assert.deepEqual((await fromFragment(fragment)).slices, {});
});

test("slices that are not objects are left out", async () => {
  const slices = { cache: [1], prompt: 5, request: null, live: { draft: "x" } };
  const packed = deflateRawSync(JSON.stringify(slices)).toString("base64url");
  const read = await fromFragment(`#live/1.${packed}`);
  assert.deepEqual(read, { view: "live", slices: { live: { draft: "x" } }, isBroken: false });
});

test("listeners are called with the names of what has changed, and only then", () => {
  const store = new Store({ view: "prompt", slices: { request: { source: "a", tools: [1] } } });
  const slice = store.slice("request");
  const heard = [];
  slice.onChange((values, names) => heard.push([values, names]));
  slice.set({ source: "a", tools: [1] });
  assert.deepEqual(heard, []);
  slice.set({ source: "b", tools: [1], thinking: true });
  assert.deepEqual(heard, [[{ source: "b", tools: [1], thinking: true }, ["source", "thinking"]]]);
});

test("the store hears of slices and of the open view", () => {
  const store = new Store({ view: "prompt", slices: {} });
  let heard = 0;
  store.onChange(() => heard++);
  store.open("prompt");
  assert.equal(heard, 0);
  store.open("cache");
  store.slice("cache").set({ variant: "as_sent" });
  assert.deepEqual([heard, store.view], [2, "cache"]);
});

test("a link that was cut is broken, wherever it was cut", async () => {
  const store = new Store({ view: "prompt", slices: { request: { source: "x".repeat(300) + Math.PI } } });
  const whole = /** @type {string} */ (await store.toFragment());
  for (let end = "#prompt/".length; end < whole.length; end++)
    assert.equal((await fromFragment(whole.slice(0, end))).isBroken, true, whole.slice(0, end));
  assert.equal((await fromFragment("#prompt")).isBroken, false);
  assert.equal((await fromFragment("")).isBroken, false);
});

test("a link has no keys in it, and all else", async () => {
  const cases = {
    "-H 'Authorization: Bearer sk-abcdefghijkl' -d 1": "-H 'Authorization: Bearer ***' -d 1",
    '{"api_key": "abcdefgh", "n": 1}': '{"api_key": "***", "n": 1}',
    "https://x/?access_token=abcdefgh&n=1": "https://x/?access_token=***&n=1",
    "with hf_abcdefghijkl here": "with hf_*** here",
    "the key word, a skin, a bearer": "the key word, a skin, a bearer",
  };
  for (const [source, struck] of Object.entries(cases)) {
    assert.equal(withoutKeys(source), struck);
    const store = new Store({ view: "prompt", slices: { request: { source } } });
    const { slices } = await fromFragment(await store.toFragment());
    assert.equal(slices.request.source, struck);
  }
});
