// Reads traces from stdin, and writes what `trace.js` says of each of their steps and frames.

import { readFileSync } from "node:fs";
import { page } from "./page.js";

const { Trace } = await page("trace.js");
const ALL = 1e9;

function unfolded({ answer, text }, states) {
  const trace = new Trace(answer, text, states);
  const protocols = Object.keys(answer.frames);
  const steps = Array.from({ length: trace.steps + 1 }, (_, step) => {
    const { state, start, end, hold } = trace.at(step);
    const message = trace.messageAt(step, ALL, ALL);
    return {
      state,
      hold,
      held: text.slice(start, end),
      reasoning: message.reasoning.text,
      content: message.content.text,
      calls: message.calls.map((call) => [call.name, call.text.text]),
      frames: protocols.map((name) => trace.frameCount(name, step)),
    };
  });
  const frames = protocols.map((name) =>
    Array.from({ length: trace.frameCount(name, trace.steps) }, (_, n) => trace.frame(name, n)),
  );
  return { steps, frames };
}

const { states, traces } = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(traces.map((trace) => unfolded(trace, states))));
