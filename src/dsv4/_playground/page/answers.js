// An answer as it arrives, in any of the three protocols: server-sent events in, a message out.

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
  /** @type {Map<number, AnswerCall>} */
  #items = new Map();

  /** @param {import("./types.js").ProtocolName} protocol */
  constructor(protocol) {
    this.write = { chat: this.#chat, responses: this.#responses, messages: this.#messages }[protocol];
  }

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
  #chat = (frame) => {
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
  };

  /** @param {Frame} frame */
  #responses = (frame) => {
    /** @type {Record<string, () => void>} */
    const kinds = {
      "response.reasoning_text.delta": () => {
        this.reasoning += frame.delta;
      },
      "response.output_text.delta": () => {
        this.content += frame.delta;
      },
      "response.output_item.added": () => this.#opened(frame.output_index, frame.item),
      "response.function_call_arguments.delta": () => this.#extend(frame.output_index, frame.delta),
      "response.completed": () => this.#ended(frame.response, "completed"),
      "response.incomplete": () => this.#ended(frame.response, "incomplete"),
      "response.failed": () => {
        this.problem = frame.response.error?.message ?? "It failed.";
      },
    };
    kinds[frame.type]?.();
  };

  /**
   * @param {number} index
   * @param {Record<string, any>} item
   */
  #opened(index, item) {
    if (item.type !== "function_call") return;
    this.#begin(index, { id: item.call_id, name: item.name, text: item.arguments ?? "" });
  }

  /**
   * A call that begins in an item or block of the answer.
   * @param {number} index
   * @param {AnswerCall} call
   */
  #begin(index, call) {
    this.#items.set(index, call);
    this.calls.push(call);
  }

  /**
   * More arguments of the call in an item or block.
   * @param {number} index
   * @param {string} text
   */
  #extend(index, text) {
    const call = this.#items.get(index);
    if (call) call.text += text;
  }

  /**
   * @param {Record<string, any>} response
   * @param {string} finish
   */
  #ended({ usage }, finish) {
    this.finish = finish;
    if (usage) this.usage = [usage.input_tokens, usage.output_tokens];
  }

  /** @param {Frame} frame */
  #messages = (frame) => {
    /** @type {Record<string, () => void>} */
    const kinds = {
      content_block_start: () => this.#begun(frame.index, frame.content_block),
      content_block_delta: () => this.#grown(frame.index, frame.delta),
      message_delta: () => {
        this.finish = frame.delta.stop_reason;
        const { usage } = frame;
        const cached = usage?.cache_read_input_tokens ?? 0;
        if (usage) this.usage = [usage.input_tokens + cached, usage.output_tokens];
      },
      error: () => {
        this.problem = frame.error.message;
      },
    };
    kinds[frame.type]?.();
  };

  /**
   * @param {number} index
   * @param {Record<string, any>} block
   */
  #begun(index, block) {
    if (block.type === "tool_use") this.#begin(index, { id: block.id, name: block.name, text: "" });
  }

  /**
   * @param {number} index
   * @param {Record<string, any>} delta
   */
  #grown(index, delta) {
    if (delta.type === "thinking_delta") this.reasoning += delta.thinking;
    else if (delta.type === "text_delta") this.content += delta.text;
    else if (delta.type === "input_json_delta") this.#extend(index, delta.partial_json);
  }
}
