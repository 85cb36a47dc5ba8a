// An answer as it arrives: server-sent events of Chat Completions in, a message out.

/** @typedef {import("./types.js").Frame} Frame */
/** @typedef {import("./types.js").ChatMessage} ChatMessage */
/** @typedef {{ id: string, name: string, text: string }} AnswerCall */

/**
 * The data of each event in a stream of bytes.
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} stream
 * @returns {AsyncGenerator<Frame>}
 */
export async function* eventsOf(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (waiting + value).split("\n");
    waiting = lines.pop() ?? "";
    for (const line of lines) {
      if (!line.startsWith("data: ")) continue;
      const data = line.slice(6).replace(/\r$/, "");
      if (data !== "[DONE]") yield JSON.parse(data);
    }
  }
}

/** The message of an answer. `write` adds to it, a frame at a time. */
export class Answer {
  reasoning = "";
  content = "";
  /** @type {AnswerCall[]} */
  calls = [];
  /** @type {string | null} */
  finish = null;
  /**
   * Tokens of the prompt, and of the answer.
   * @type {[number, number] | null}
   */
  usage = null;
  /** @type {string | null} */
  problem = null;

  /** The turn as Chat Completions has it, to be sent back. */
  get message() {
    /** @type {ChatMessage} */
    const message = { role: "assistant", content: this.content };
    if (this.reasoning) message.reasoning_content = this.reasoning;
    if (this.calls.length)
      message.tool_calls = this.calls.map(({ id, name, text }) => ({
        id, type: "function", function: { name, arguments: text || "{}" },
      }));
    return message;
  }

  /** @param {Frame} frame */
  write(frame) {
    if (frame.error) this.problem = frame.error.message;
    if (frame.usage) this.usage = [frame.usage.prompt_tokens, frame.usage.completion_tokens];
    const choice = frame.choices?.[0];
    if (!choice) return;
    const { delta } = choice;
    this.reasoning += delta.reasoning_content ?? delta.reasoning ?? "";
    this.content += delta.content ?? "";
    for (const { index, id, function: called } of delta.tool_calls ?? []) {
      if (id) this.calls[index] = { id, name: called.name, text: "" };
      this.calls[index].text += called.arguments ?? "";
    }
    this.finish = choice.finish_reason ?? this.finish;
  }
}
