// A trace (api/trace), and what there is at each of its steps. Everything is found by binary search:
// the cost of a question grows with its answer, not with the text.

import { whole } from "./characters.js";

/** @typedef {import("./types.js").Frame} Frame */
/** @typedef {import("./types.js").ParserState} ParserState */
/** @typedef {import("./types.js").TraceAnswer} TraceAnswer */
/** @typedef {import("./types.js").TraceFrames} TraceFrames */
/** @typedef {import("./types.js").TraceRow} TraceRow */

/**
 * The end of a text, and how much is before it.
 * @typedef {{ before: number, text: string }} Tail
 */

/**
 * A call as it was started, the rows it is made of, and the rows in which it ended.
 * @typedef {TraceRow & { row: number, parts: Parts, ended: number | null, aborted: number | null }} Call
 */

const JOINED = new Set(["ReasoningDelta", "ContentDelta", "ArgumentsDelta"]);

/**
 * The last index whose value, by `of`, is at most `most`; -1 if there is none.
 * @param {number} length
 * @param {(index: number) => number} of
 * @param {number} most
 */
function lastUpTo(length, of, most) {
  let [low, high] = [-1, length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (of(middle) <= most) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Deltas of one kind, of which some have arrived. */
class Deltas {
  #row;
  #trace;
  #counts = [0]; // of deltas before each run
  #lengths = [0]; // of their text

  /**
   * @param {TraceRow} row
   * @param {Trace} trace
   */
  constructor(row, trace) {
    this.#row = row;
    this.#trace = trace;
    for (const [step, count, length] of row.runs) {
      const size = count === 1 ? length : trace.end(step + count - 1) - trace.end(step - 1);
      this.#counts.push(last(this.#counts) + count);
      this.#lengths.push(last(this.#lengths) + size);
    }
  }

  get count() {
    return last(this.#counts);
  }

  /**
   * The number of deltas that have arrived at a step, and the length of their text.
   * @param {number} step
   */
  at(step) {
    const { runs } = this.#row;
    const run = lastUpTo(runs.length, (n) => runs[n][0], step);
    if (run < 0) return { count: 0, length: 0 };
    const come = Math.min(runs[run][1], step - runs[run][0] + 1);
    return { count: this.#counts[run] + come, length: this.#lengthOf(run, come) };
  }

  /**
   * @param {number} run
   * @param {number} come
   */
  #lengthOf(run, come) {
    const [step, count, length] = this.#row.runs[run];
    const size = count === 1 ? length : this.#trace.end(step + come - 1) - this.#trace.end(step - 1);
    return this.#lengths[run] + (come ? size : 0);
  }

  /**
   * The text of a delta, and the step it came with.
   * @param {number} number
   */
  get(number) {
    const run = lastUpTo(this.#row.runs.length, (n) => this.#counts[n], number);
    const come = number - this.#counts[run];
    const from = come ? this.#lengthOf(run, come) : this.#lengths[run];
    const text = this.#row.text.slice(from, this.#lengthOf(run, come + 1));
    return { text, step: this.#row.runs[run][0] + come };
  }
}

/** Rows that make up one text. */
class Parts {
  /** @type {number[]} */
  rows = [];
  #before = [0];

  /**
   * @param {number} row
   * @param {number} length
   */
  add(row, length) {
    this.rows.push(row);
    this.#before.push(last(this.#before) + length);
  }

  /**
   * The last of the first `count` rows, so many that their text is `most` long or more, where the
   * very last is only `length` long yet.
   * @param {number} count
   * @param {number} length
   * @param {number} most
   */
  last(count, length, most) {
    if (!count) return { rows: [], before: 0 };
    const end = this.#before[count - 1] + length;
    const from = Math.max(0, lastUpTo(count, (n) => this.#before[n], end - most));
    return { rows: this.rows.slice(from, count), before: this.#before[from] };
  }
}

export class Trace {
  #answer;
  /** @type {Uint32Array | null} */
  #ends = null;
  /** @type {Map<number, Deltas>} */
  #deltas = new Map();
  /** @type {Map<string, { answer: TraceFrames, before: Uint32Array }>} */
  #frames = new Map();
  /** @type {Map<number, number>} */
  #firstSeen = new Map();
  #numbers;
  #reasoning = new Parts();
  #content = new Parts();
  /** @type {Call[]} */
  #calls = [];

  /**
   * @param {TraceAnswer} answer
   * @param {string} text
   * @param {ParserState[]} states
   */
  constructor(answer, text, states) {
    this.#answer = answer;
    this.text = text;
    this.steps = answer.steps;
    this.rows = answer.rows;
    this.strict = answer.strict;
    this.isLikeAnswer = answer.like_answer;
    this.message = answer.message;
    this.events = answer.events;
    this.states = states;
    if (answer.cuts) {
      const ends = new Uint32Array(answer.steps + 1);
      answer.cuts.forEach((size, n) => {
        ends[n + 1] = ends[n] + size;
      });
      ends[answer.steps] = answer.length;
      this.#ends = ends;
    }
    for (const [step, state] of answer.knots)
      if (!this.#firstSeen.has(state)) this.#firstSeen.set(state, step);
    this.repairs = answer.rows
      .map((row, index) => ({ ...row, index }))
      .filter((row) => row.type === "Diagnostic")
      .sort((a, b) => a.start - b.start || a.end - b.end)
      .map((row, n) => ({ ...row, number: n + 1 }));
    this.#numbers = new Map(this.repairs.map(({ index, number }) => [index, number]));
    this.#collect();
  }

  /** Collects the rows that each text and each call is made of. */
  #collect() {
    this.rows.forEach((row, n) => {
      if (row.type === "ReasoningDelta") this.#reasoning.add(n, row.text.length);
      else if (row.type === "ContentDelta") this.#content.add(n, row.text.length);
      else if (row.type === "ToolCallStart")
        this.#calls.push({ ...row, row: n, parts: new Parts(), ended: null, aborted: null });
      else if (row.type === "ArgumentsDelta") this.#call(row).parts.add(n, row.text.length);
      else if (row.type === "ToolCallEnd") this.#call(row).ended = n;
      else if (row.type === "ToolCallAborted") this.#call(row).aborted = n;
    });
  }

  /**
   * Calls are numbered from 0, in the order in which they begin.
   * @param {TraceRow} row
   */
  #call(row) {
    return this.#calls[row.index];
  }

  /**
   * The number of the repair in a row, with which the text is marked.
   * @param {number} row
   */
  numberOf(row) {
    return this.#numbers.get(row);
  }

  /**
   * The length of the text that has arrived at a step.
   * @param {number} step
   */
  end(step) {
    const at = Math.max(0, Math.min(step, this.steps));
    return this.#ends ? this.#ends[at] : Math.min(at, this.#answer.length);
  }

  /**
   * The first step at which a place of the text has arrived.
   * @param {number} place
   */
  stepAt(place) {
    return Math.min(lastUpTo(this.steps, (n) => this.end(n), place - 1) + 1, this.steps);
  }

  /**
   * The state of the parser at a step, the one before it, and what is held, from where and why.
   * @param {number} step
   */
  at(step) {
    const knots = this.#answer.knots;
    const knot = lastUpTo(knots.length, (n) => knots[n][0], step);
    const [begun, state, hold, start, slides] = knots[knot];
    const end = this.end(step);
    let before = knot;
    while (before > 0 && knots[before][1] === state && knot - before < 64) before--;
    return {
      state: this.states[state].name,
      words: this.states[state].words,
      before: this.states[knots[before][1]].name,
      hold: { rule: this.#answer.holds[hold][0], reason: this.#answer.holds[hold][1] },
      start: slides ? start + end - this.end(begun) : start,
      end,
    };
  }

  /**
   * The states that the parser has been in, by their names.
   * @param {number} step
   */
  seen(step) {
    return new Set(
      [...this.#firstSeen].filter(([, first]) => first <= step).map(([n]) => this.states[n].name),
    );
  }

  /**
   * The next step, in a direction, at which something other than the text changes.
   * @param {number} step
   * @param {1 | -1} direction
   */
  change(step, direction) {
    const knots = this.#answer.knots;
    const knot = lastUpTo(knots.length, (n) => knots[n][0], direction > 0 ? step : step - 1);
    if (direction > 0) return knot + 1 < knots.length ? knots[knot + 1][0] : this.steps;
    return knot >= 0 ? knots[knot][0] : 0;
  }

  /**
   * The next step, in a direction, at which a repair is made; null if there is none.
   * @param {number} step
   * @param {1 | -1} direction
   */
  repair(step, direction) {
    const steps = this.repairs.map((repair) => repair.step).sort((a, b) => a - b);
    const found = direction > 0 ? steps.find((s) => s > step) : steps.findLast((s) => s < step);
    return found ?? null;
  }

  /** @param {number} row */
  #deltasOf(row) {
    const known = this.#deltas.get(row) ?? new Deltas(this.rows[row], this);
    this.#deltas.set(row, known);
    return known;
  }

  /**
   * The number of rows that have begun at a step.
   * @param {number} step
   */
  rowsAt(step) {
    return lastUpTo(this.rows.length, (n) => this.rows[n].step, step) + 1;
  }

  /**
   * A row as it is at a step: the text that has arrived, and how many deltas.
   * @param {number} n
   * @param {number} step
   */
  row(n, step) {
    const row = this.rows[n];
    if (!JOINED.has(row.type)) return { ...row, deltas: 1 };
    const { count, length } = this.#deltasOf(n).at(step);
    return { ...row, text: row.text.slice(0, length), deltas: count };
  }

  /**
   * The end of a text, as long as `most`.
   * @param {Parts} parts
   * @param {number} step
   * @param {number} most
   * @returns {Tail}
   */
  #tail(parts, step, most) {
    const rows = this.rowsAt(step);
    const count = lastUpTo(parts.rows.length, (n) => parts.rows[n], rows - 1) + 1;
    const length = count ? this.row(parts.rows[count - 1], step).text.length : 0;
    const { rows: shown, before } = parts.last(count, length, most);
    const text = shown.map((n) => this.row(n, step).text).join("");
    const cut = whole(text, Math.max(0, text.length - most));
    return { before: before + cut, text: text.slice(cut) };
  }

  /**
   * The message so far: the ends of its texts, and its last calls.
   * @param {number} step
   * @param {number} most
   * @param {number} mostCalls
   */
  messageAt(step, most, mostCalls) {
    const rows = this.rowsAt(step);
    const begun = lastUpTo(this.#calls.length, (n) => this.#calls[n].row, rows - 1) + 1;
    /** @param {number | null} row */
    const has = (row) => row !== null && row < rows;
    const calls = this.#calls.slice(Math.max(0, begun - mostCalls), begun).map((call) => ({
      ...call,
      text: this.#tail(call.parts, step, most),
      status: has(call.ended) ? "complete" : has(call.aborted) ? "incomplete" : "open",
    }));
    const finish = step >= this.steps ? this.message.finish : null;
    if (finish)
      // The final arguments: a parameter that was given twice is there once.
      for (const call of calls) {
        const whole = this.message.tool_calls?.find(({ id }) => id === call.id);
        if (whole) call.text = tailOf(whole.function.arguments, most);
      }
    return {
      reasoning: this.#tail(this.#reasoning, step, most),
      content: this.#tail(this.#content, step, most),
      calls,
      callsBefore: begun - calls.length,
      finish,
    };
  }

  // The frames of a protocol. Those of a row are its first ones, and one for each delta after.

  /** @param {string} protocol */
  #framesOf(protocol) {
    const known = this.#frames.get(protocol);
    if (known) return known;
    const answer = this.#answer.frames[protocol];
    const before = new Uint32Array(answer.rows.length + 1);
    before[0] = answer.start.length;
    answer.rows.forEach(([first, more], n) => {
      const rest = more ? this.#deltasOf(n).count - 1 : 0;
      before[n + 1] = before[n] + first.length + rest;
    });
    const found = { answer, before };
    this.#frames.set(protocol, found);
    return found;
  }

  /**
   * Whether every row has frames: those of very many rows are left out.
   * @param {string} protocol
   */
  isFramed(protocol) {
    return this.#answer.frames[protocol].whole;
  }

  /**
   * The number of frames that have been sent at a step.
   * @param {string} protocol
   * @param {number} step
   */
  frameCount(protocol, step) {
    const { answer, before } = this.#framesOf(protocol);
    const rows = Math.min(this.rowsAt(step), answer.rows.length);
    if (!rows) return answer.start.length;
    if (step >= this.steps) return before[answer.rows.length] + answer.finish.length;
    const row = rows - 1;
    const [first, more] = answer.rows[row];
    if (!more) return before[row] + first.length;
    return before[row] + first.length + this.#deltasOf(row).at(step).count - 1;
  }

  /**
   * A frame by its number, with the step it was sent at.
   * @param {string} protocol
   * @param {number} number
   */
  frame(protocol, number) {
    const { answer, before } = this.#framesOf(protocol);
    /**
     * @param {Frame} frame
     * @param {number} step
     */
    const sent = (frame, step) => ({ frame: numbered(frame, number), step });
    const end = before[answer.rows.length];
    if (number < answer.start.length) return sent(answer.start[number], 0);
    if (number >= end) return sent(answer.finish[number - end], this.steps);
    const row = lastUpTo(answer.rows.length, (n) => before[n], number);
    const [first, more] = answer.rows[row];
    const inside = number - before[row];
    if (inside < first.length || !more) return sent(first[inside], this.rows[row].step);
    const { text, step } = this.#deltasOf(row).get(inside - first.length + 1);
    return sent(filled(more.frame, more.path, text), step);
  }
}

/**
 * The last item of a list that is not empty.
 * @param {number[]} numbers
 */
const last = (numbers) => numbers[numbers.length - 1];

/**
 * A frame with a text where a path leads.
 * @param {any} frame
 * @param {(string | number)[]} path
 * @param {string} text
 * @returns {any}
 */
function filled(frame, path, text) {
  const [key, ...rest] = path;
  const made = Array.isArray(frame) ? [...frame] : { ...frame };
  made[key] = rest.length ? filled(frame[key], rest, text) : text;
  return made;
}

/**
 * @param {Frame} frame
 * @param {number} number
 */
const numbered = (frame, number) =>
  "sequence_number" in frame ? { ...frame, sequence_number: number } : frame;

/**
 * The end of a text, as long as `most`.
 * @param {string} text
 * @param {number} most
 * @returns {Tail}
 */
const tailOf = (text, most) => {
  const cut = whole(text, Math.max(0, text.length - most));
  return { before: cut, text: text.slice(cut) };
};
