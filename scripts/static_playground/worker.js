// Answers the page's calls where there is no server: Python runs here, beside the page.
//
// To the page: { progress, words } while things load, then { id, status, body } for each call.
// From the page: { id, name, body }; { cancel: id } where nobody waits for an answer any more.

import { loadPyodide } from "./pyodide/pyodide.mjs";
import { Tokenizer } from "./tokenizers.mjs";

/** Calls that came and were not answered yet, in their order. */
const waiting = new Map();
let playground = null;
let isAnswering = false;

// Nothing is awaited before this: a call that comes while a worker has no listener is lost.
self.onmessage = ({ data }) => {
  if ("cancel" in data) waiting.delete(data.cancel);
  else waiting.set(data.id, data);
  answerNext();
};

/** One call at a time, with a chance in between for newer ones to cancel older ones. */
function answerNext() {
  if (!playground || isAnswering || !waiting.size) return;
  isAnswering = true;
  setTimeout(() => {
    isAnswering = false;
    const [call] = waiting.values();
    if (!call) return;
    waiting.delete(call.id);
    const answered = playground.answer(call.name, JSON.stringify(call.body));
    const [status, body] = answered.toJs();
    answered.destroy();
    self.postMessage({ id: call.id, status, body });
    answerNext();
  });
}

const fetched = (name) => fetch(new URL(name, import.meta.url));

/** Loads a file, and says how much of all has come. */
let loaded = 0;
async function load(name, total) {
  const response = await fetched(name);
  if (!response.ok) throw new Error(`${name}: status ${response.status}`);
  const parts = [];
  for await (const part of chunksOf(response.body)) {
    parts.push(part);
    loaded += part.length;
    self.postMessage({ progress: Math.min(1, loaded / total), words: "Loading Python" });
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

async function* chunksOf(stream) {
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** Ids of text, by an engine that knows no added tokens: those come from the format alone. */
function engineOf(python, vocabulary) {
  const content = { ...JSON.parse(vocabulary), added_tokens: [] };
  const tokenizer = new Tokenizer(content, {});
  return (text) => python.toPy(tokenizer.encode(text, { add_special_tokens: false }).ids);
}

async function start() {
  const files = await (await fetched("files.json")).json();
  // The browser keeps what was fetched here, so Pyodide finds it at once.
  const [packed, vocabulary] = await Promise.all([
    load(files.package, files.total),
    load(files.vocabulary, files.total).then(inflated),
    ...files.python.map((name) => load(name, files.total)),
  ]);
  self.postMessage({ progress: 1, words: "Starting Python" });
  const python = await loadPyodide({ indexURL: new URL("pyodide/", import.meta.url).href });
  python.unpackArchive(packed, "zip", { extractDir: "/home/pyodide" });
  const { BrowserPlayground } = python.pyimport("dsv4._playground.page_functions");
  const made = BrowserPlayground();
  made.use_tokenizer(vocabulary, engineOf(python, vocabulary));
  playground = made;
  self.postMessage({ ready: true });
  answerNext();
}

start().catch((error) => self.postMessage({ failed: String(error.message ?? error) }));
