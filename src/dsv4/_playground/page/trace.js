// A trace (api/trace), and what there is at each of its steps. Every question is answered by
// halving: what it costs grows with what is asked for, not with the text.

import { whole } from "./characters.js";

const JOINED = new Set(["ReasoningDelta", "ContentDelta", "ArgumentsDelta"]);

/** The last index whose value, by `of`, is at most `most`; -1 if there is none. */
function lastUpTo(length, of, most) {
  let [low, high] = [-1, length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (of(middle) <= most) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Deltas of one kind, of which some have come. */
class Deltas {
  #row;
  #trace;
  #counts = [0]; // of deltas before each run
  #lengths = [0]; // of their text

  constructor(row, trace) {
    this.#row = row;
    this.#trace = trace;
    for (const [step, count, length] of row.runs) {
      const size = count === 1 ? length : trace.end(step + count - 1) - trace.end(step - 1);
      this.#counts.push(this.#counts.at(-1) + count);
      this.#lengths.push(this.#lengths.at(-1) + size);
    }
  }

  get count() {
    return this.#counts.at(-1);
  }

  /** How many have come at a step, and how long their text is. */
  at(step) {
    const { runs } = this.#row;
    const last = lastUpTo(runs.length, (n) => runs[n][0], step);
    if (last < 0) return { count: 0, length: 0 };
    const come = Math.min(runs[last][1], step - runs[last][0] + 1);
    return { count: this.#counts[last] + come, length: this.#lengthOf(last, come) };
  }

  #lengthOf(run, come) {
    const [step, count, length] = this.#row.runs[run];
    const size = count === 1 ? length : this.#trace.end(step + come - 1) - this.#trace.end(step - 1);
    return this.#lengths[run] + (come ? size : 0);
  }

  /** The text of a delta, and the step it came with. */
  get(number) {
    const run = lastUpTo(this.#row.runs.length, (n) => this.#counts[n], number);
    const come = number - this.#counts[run];
    const from = come ? this.#lengthOf(run, come) : this.#lengths[run];
    const text = this.#row.text.slice(from, this.#lengthOf(run, come + 1));
    return { text, step: this.#row.runs[run][0] + come };
  }
}

/** Rows that make one text. */
class Parts {
  rows = [];
  #before = [0];

  add(row, length) {
    this.rows.push(row);
    this.#before.push(this.#before.at(-1) + length);
  }

  /** The last of the first `count` rows, so many that their text is `most` long or more, where the
      very last is only `length` long yet. */
  last(count, length, most) {
    if (!count) return { rows: [], before: 0 };
    const end = this.#before[count - 1] + length;
    const from = Math.max(0, lastUpTo(count, (n) => this.#before[n], end - most));
    return { rows: this.rows.slice(from, count), before: this.#before[from] };
  }
}

export class Trace {
  #answer;
  #ends = null;
  #deltas = new Map();
  #frames = new Map();
  #firstSeen = new Map();
  #numbers;
  #reasoning = new Parts();
  #content = new Parts();
  #calls = [];

  constructor(answer, text, states) {
    this.#answer = answer;
    this.text = text;
    this.steps = answer.steps;
    this.rows = answer.rows;
    this.strict = answer.strict;
    this.message = answer.message;
    this.events = answer.events;
    this.states = states;
    if (answer.cuts) {
      this.#ends = new Uint32Array(answer.steps + 1);
      answer.cuts.forEach((size, n) => (this.#ends[n + 1] = this.#ends[n] + size));
      this.#ends[answer.steps] = answer.length;
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

  /** Which rows each text and each call is made of. */
  #collect() {
    this.rows.forEach((row, n) => {
      if (row.type === "ReasoningDelta") this.#reasoning.add(n, row.text.length);
      else if (row.type === "ContentDelta") this.#content.add(n, row.text.length);
      else if (row.type === "ToolCallStart")
        this.#calls.push({ ...row, row: n, text: new Parts(), ended: null, aborted: null });
      else if (row.type === "ArgumentsDelta") this.#call(row).text.add(n, row.text.length);
      else if (row.type === "ToolCallEnd") this.#call(row).ended = n;
      else if (row.type === "ToolCallAborted") this.#call(row).aborted = n;
    });
  }

  // Calls are numbered from 0, in the order in which they begin.
  #call = (row) => this.#calls[row.index];

  /** The number of the repair in a row, as the text is marked with it. */
  numberOf(row) {
    return this.#numbers.get(row);
  }

  get knots() {
    return this.#answer.knots;
  }

  /** How much of the text has come at a step. */
  end(step) {
    const at = Math.max(0, Math.min(step, this.steps));
    return this.#ends ? this.#ends[at] : Math.min(at, this.#answer.length);
  }

  /** The first step at which a place of the text has come. */
  stepAt(place) {
    return Math.min(lastUpTo(this.steps, (n) => this.end(n), place - 1) + 1, this.steps);
  }

  /** Where reading is: the state, the one before it, and what is held, from where and why. */
  at(step) {
    const knots = this.#answer.knots;
    const last = lastUpTo(knots.length, (n) => knots[n][0], step);
    const [begun, state, hold, start, slides] = knots[last];
    const end = this.end(step);
    let before = last;
    while (before > 0 && knots[before][1] === state && last - before < 64) before--;
    return {
      state: this.states[state].name,
      words: this.states[state].words,
      before: this.states[knots[before][1]].name,
      hold: { rule: this.#answer.holds[hold][0], reason: this.#answer.holds[hold][1] },
      start: slides ? start + end - this.end(begun) : start,
      end,
    };
  }

  /** The states that reading has been in, by their names. */
  seen(step) {
    return new Set(
      [...this.#firstSeen].filter(([, first]) => first <= step).map(([n]) => this.states[n].name),
    );
  }

  /** The next step, in a direction, at which something changes other than the text. */
  change(step, direction) {
    const knots = this.#answer.knots;
    const last = lastUpTo(knots.length, (n) => knots[n][0], direction > 0 ? step : step - 1);
    if (direction > 0) return last + 1 < knots.length ? knots[last + 1][0] : this.steps;
    return last >= 0 ? knots[last][0] : 0;
  }

  /** The next step, in a direction, at which a repair is made; null if there is none. */
  repair(step, direction) {
    const steps = this.repairs.map((repair) => repair.step).sort((a, b) => a - b);
    const found = direction > 0 ? steps.find((s) => s > step) : steps.findLast((s) => s < step);
    return found ?? null;
  }

  #deltasOf(row) {
    if (!this.#deltas.has(row)) this.#deltas.set(row, new Deltas(this.rows[row], this));
    return this.#deltas.get(row);
  }

  /** How many rows have begun at a step. */
  rowsAt(step) {
    return lastUpTo(this.rows.length, (n) => this.rows[n].step, step) + 1;
  }

  /** A row as it is at a step: the text that has come, and how many deltas. */
  row(n, step) {
    const row = this.rows[n];
    if (!JOINED.has(row.type)) return { ...row, deltas: 1 };
    const { count, length } = this.#deltasOf(n).at(step);
    return { ...row, text: row.text.slice(0, length), deltas: count };
  }

  /** The end of a text, as long as `most`, and how much is before it. */
  #tail(parts, step, most) {
    const rows = this.rowsAt(step);
    const count = lastUpTo(parts.rows.length, (n) => parts.rows[n], rows - 1) + 1;
    const length = count ? this.row(parts.rows[count - 1], step).text.length : 0;
    const { rows: last, before } = parts.last(count, length, most);
    const text = last.map((n) => this.row(n, step).text).join("");
    const cut = whole(text, Math.max(0, text.length - most));
    return { before: before + cut, text: text.slice(cut) };
  }

  /** The message so far: the ends of its texts, and its last calls. */
  messageAt(step, most, mostCalls) {
    const rows = this.rowsAt(step);
    const begun = lastUpTo(this.#calls.length, (n) => this.#calls[n].row, rows - 1) + 1;
    const has = (row) => row !== null && row < rows;
    const calls = this.#calls.slice(Math.max(0, begun - mostCalls), begun).map((call) => ({
      ...call,
      text: this.#tail(call.text, step, most),
      status: has(call.ended) ? "complete" : has(call.aborted) ? "incomplete" : "open",
    }));
    const finish = step >= this.steps ? this.message.finish : null;
    if (finish)
      // As the toolkit puts it together: a parameter that was given twice is there once.
      for (const call of calls) {
        const said = this.message.tool_calls?.find(({ id }) => id === call.id);
        if (said) call.text = ended(said.function.arguments, most);
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

  #framesOf(protocol) {
    if (!this.#frames.get(protocol)) {
      const answer = this.#answer.frames[protocol];
      const before = new Uint32Array(answer.rows.length + 1);
      before[0] = answer.start.length;
      answer.rows.forEach(([first, more], n) => {
        const rest = more ? this.#deltasOf(n).count - 1 : 0;
        before[n + 1] = before[n] + first.length + rest;
      });
      this.#frames.set(protocol, { answer, before });
    }
    return this.#frames.get(protocol);
  }

  /** Whether every row has frames: of very many they are left out. */
  isFramed(protocol) {
    return this.#answer.frames[protocol].whole;
  }

  /** How many frames have been sent at a step. */
  frameCount(protocol, step) {
    const { answer, before } = this.#framesOf(protocol);
    const rows = Math.min(this.rowsAt(step), answer.rows.length);
    if (!rows) return answer.start.length;
    if (step >= this.steps) return before[answer.rows.length] + answer.finish.length;
    const last = rows - 1;
    const [first, more] = answer.rows[last];
    if (!more) return before[last] + first.length;
    return before[last] + first.length + this.#deltasOf(last).at(step).count - 1;
  }

  /** A frame by its number, with the step it was sent at. */
  frame(protocol, number) {
    const { answer, before } = this.#framesOf(protocol);
    const made = (frame, step) => ({ frame: numbered(frame, number), step });
    if (number < answer.start.length) return made(answer.start[number], 0);
    if (number >= before.at(-1)) return made(answer.finish[number - before.at(-1)], this.steps);
    const row = lastUpTo(answer.rows.length, (n) => before[n], number);
    const [first, more] = answer.rows[row];
    const inside = number - before[row];
    if (inside < first.length) return made(first[inside], this.rows[row].step);
    const { text, step } = this.#deltasOf(row).get(inside - first.length + 1);
    return made(filled(more.frame, more.path, text), step);
  }
}

/** A frame with a text put where a path leads. */
function filled(frame, [key, ...rest], text) {
  const made = Array.isArray(frame) ? [...frame] : { ...frame };
  made[key] = rest.length ? filled(frame[key], rest, text) : text;
  return made;
}

const numbered = (frame, number) =>
  "sequence_number" in frame ? { ...frame, sequence_number: number } : frame;

const ended = (text, most) => {
  const cut = whole(text, Math.max(0, text.length - most));
  return { before: cut, text: text.slice(cut) };
};
