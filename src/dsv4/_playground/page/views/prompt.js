// A request, and the prompt that it becomes: each lights up what it has to do with in the other.

import { debounced } from "../server.js";
import { toClipboard } from "../copybuttons.js";
import { element } from "../dom.js";
import { PromptPane } from "../promptpane.js";
import { RequestPane } from "../requestpane.js";
import { requestBody, sourceOf, switches } from "../switches.js";

const TYPING = 120; // milliseconds without a key until the prompt is asked for

export function mount(root, context) {
  const { request, state } = context;
  const set = switches(context);
  const left = new RequestPane(context, lightPrompt);
  const right = new PromptPane(context, lightRequest, copyPrompt);
  const body = () => ({ ...requestBody(request), source: sourceOf(context) });
  const shown = () => ({ ...body(), shown: state.get().shown });
  root.append(
    element("div", { className: "toolbar" }, set.root, context.copy(shown)),
    element("div", { className: "panes" }, left.root, right.root),
  );

  const ask = debounced(async () => {
    right.wait(true);
    try {
      const answer = await context.call("prompt", { ...body(), ...right.wanted() });
      if (answer === undefined) return;
      set.update(answer.tools);
      left.detected(answer.protocol);
      left.complain(null);
      right.show(answer);
      right.wait(false);
    } catch (error) {
      if (!error.problem) throw error;
      left.complain(error.problem);
      right.wait(false, true);
    }
  }, TYPING);

  async function copyPrompt() {
    try {
      const answer = await context.call("text", shown());
      if (answer === undefined) return;
      await toClipboard(answer.prompt);
      context.tell("Copied the prompt.");
    } catch (error) {
      context.tell(`Nothing was copied: ${error.message}`);
    }
  }

  function lightRequest(place, how) {
    left.light(place, how);
    if (how === "focus") right.rows.light(place);
  }

  function lightPrompt(offset, isPointer) {
    const place = offset === null ? null : right.rows.placeAt(offset);
    left.light(place, "hover");
    right.rows.light(place, { scroll: !isPointer });
  }

  request.onChange((_, names) => {
    if (names.length === 1 && names[0] === "caret") return;
    left.draw();
    if (names.length === 1 && names[0] === "source") ask();
    else ask.now();
  });
  state.onChange((_, names) => {
    left.draw();
    if (names.some((name) => name !== "mode")) ask.now();
  });
  left.draw();
  ask.now();
  // Another view may have named a place to look at.
  context.onShown(() => {
    const { caret } = request.get();
    if (!Number.isInteger(caret)) return;
    request.set({ caret: undefined });
    state.set({ mode: "json" });
    left.light([caret, caret + 1], "click");
    lightPrompt(caret, false);
  });
}
