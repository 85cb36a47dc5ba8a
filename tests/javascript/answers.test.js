import assert from "node:assert/strict";
import { test } from "node:test";
import { page } from "./page.js";

const { Answer, eventsOf } = await page("answers.js");
const { brief, harmless, whole } = await page("characters.js");
const { isAborted, latest, refusalOf } = await page("server.js");

const streamOf = (text, size) => {
  const bytes = new TextEncoder().encode(text);
  return new ReadableStream({
    start(control) {
      for (let at = 0; at < bytes.length; at += size) control.enqueue(bytes.slice(at, at + size));
      control.close();
    },
  });
};

test("events are read however the bytes are cut", async () => {
  const text = 'event: x\ndata: {"a":"🌧"}\n\n: ping\n\ndata: {"b":2}\r\n\r\ndata: [DONE]\n\n';
  for (const size of [1, 2, 5, 1000]) {
    const found = [];
    for await (const event of eventsOf(streamOf(text, size))) found.push(event);
    assert.deepEqual(found, [{ a: "🌧" }, { b: 2 }]);
  }
});

const EXPECTED = {
  role: "assistant",
  content: "Let me look.",
  reasoning_content: "Hm.",
  tool_calls: [{ id: "c1", type: "function", function: { name: "ls", arguments: '{"a":1}' } }],
};
const chat = (delta, rest = {}) => ({ choices: [{ delta, finish_reason: null, ...rest }] });
const FRAMES = {
  chat: [
    chat({ reasoning_content: "Hm." }),
    chat({ content: "Let me " }),
    chat({ content: "look." }),
    chat({ tool_calls: [{ index: 0, id: "c1", function: { name: "ls", arguments: "" } }] }),
    chat({ tool_calls: [{ index: 0, function: { arguments: '{"a":1}' } }] }),
    chat({}, { finish_reason: "tool_calls" }),
    { choices: [], usage: { prompt_tokens: 3, completion_tokens: 4 } },
  ],
  responses: [
    { type: "response.reasoning_text.delta", delta: "Hm." },
    { type: "response.output_text.delta", delta: "Let me look." },
    {
      type: "response.output_item.added",
      output_index: 2,
      item: { type: "function_call", call_id: "c1", name: "ls", arguments: "" },
    },
    { type: "response.function_call_arguments.delta", output_index: 2, delta: '{"a":1}' },
    { type: "response.completed", response: { usage: { input_tokens: 3, output_tokens: 4 } } },
  ],
  messages: [
    { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "Hm." } },
    { type: "content_block_delta", index: 1, delta: { type: "text_delta", text: "Let me look." } },
    { type: "content_block_start", index: 2, content_block: { type: "tool_use", id: "c1", name: "ls" } },
    { type: "content_block_delta", index: 2, delta: { type: "input_json_delta", partial_json: '{"a":1}' } },
    {
      type: "message_delta",
      delta: { stop_reason: "tool_use" },
      usage: { input_tokens: 1, cache_read_input_tokens: 2, output_tokens: 4 },
    },
  ],
};

for (const [protocol, frames] of Object.entries(FRAMES))
  test(`frames of ${protocol} become the message`, () => {
    const answer = new Answer(protocol);
    for (const frame of frames) answer.write(frame);
    assert.deepEqual(answer.message, EXPECTED);
    assert.deepEqual(answer.usage, [3, 4]);
    assert.notEqual(answer.finish, null);
  });

test("an error in the stream is kept", () => {
  for (const [protocol, frame] of [
    ["chat", { error: { message: "broken" } }],
    ["responses", { type: "response.failed", response: { error: { message: "broken" } } }],
    ["messages", { type: "error", error: { message: "broken" } }],
  ]) {
    const answer = new Answer(protocol);
    answer.write(frame);
    assert.equal(answer.problem, "broken");
  }
});

test("control characters and marks of direction are shown as signs", () => {
  assert.equal(harmless("a\u0000\u001b\u007f\u202e\tb\n"), "a␀␛␡⟨202E⟩\tb\n");
});

test("a text is cut in its middle, and never inside a character", () => {
  assert.equal(brief("a\nb\tc", 10), "a↵b⇥c");
  assert.equal(brief("🌧".repeat(10), 6), "🌧 … 🌧🌧");
  assert.equal(whole("🌧", 1), 0);
  assert.equal(whole("ab", 1), 1);
});

test("of calls of one name, only the newest counts", async () => {
  const ended = [];
  const ask = (name, body, signal) =>
    new Promise((resolve) => {
      signal.addEventListener("abort", () => ended.push(body.n));
      setImmediate(() => resolve(`${name} ${body.n}`));
    });
  const call = latest(ask);
  const answers = await Promise.all([call("a", { n: 1 }), call("b", { n: 2 }), call("a", { n: 3 })]);
  assert.deepEqual(answers, [undefined, "b 2", "a 3"]);
  assert.deepEqual(ended, [1]);
});

test("a refusal is told in the server's words, and by its status where a proxy sent none", async () => {
  const told = new Response('{"error": {"message": "no such model", "path": "model"}}', { status: 404 });
  const refusal = await refusalOf(told);
  assert.equal(refusal.message, "no such model");
  assert.deepEqual([refusal.status, refusal.problem.path], [404, "model"]);
  for (const body of ["<html>Bad Gateway</html>", "", "null", '"busy"']) {
    const { message } = await refusalOf(new Response(body, { status: 502 }));
    assert.equal(message, "The server answered with status 502.");
  }
});

test("what somebody ended is told from what failed", () => {
  assert.ok(isAborted(AbortSignal.abort().reason));
  assert.ok(!isAborted(new TypeError("network")));
  assert.ok(!isAborted(undefined));
});
