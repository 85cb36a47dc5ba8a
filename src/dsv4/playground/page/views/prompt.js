// A request, and the prompt that it becomes: each lights up what it has to do with in the other.

import { debounced } from "../calls.js";
import { toClipboard } from "../copying.js";
import { button, choice, element } from "../dom.js";
import { Editor } from "../editor.js";
import { Form } from "../form.js";
import { Rows } from "../rows.js";
import { asked, examples, sourceOf, switches } from "../switches.js";

const TYPING = 120;
const PROTOCOLS = [
  ["auto", "detected"],
  ["chat", "Chat Completions"],
  ["responses", "Responses"],
  ["messages", "Anthropic Messages"],
  ["file", "File, as dsv4 show does"],
];
const TOKENS = [
  ["off", "hidden"],
  ["borders", "borders"],
  ["ids", "with ids"],
];
const NAMES = Object.fromEntries(PROTOCOLS);

export function mount(root, context) {
  const { request, state, settings } = context;
  const source = () => sourceOf(context);

  // Left: the request.

  const editor = new Editor({
    label: "Request, as JSON",
    oninput: (text) => request.set({ source: text }),
    oncaret: (offset, isPointer) => lightPrompt(offset, !isPointer),
  });
  const form = new Form({ onchange: (text) => request.set({ source: text }), say: context.say });
  const problem = element("div", { className: "trouble", role: "status", hidden: true });
  const mode = (name, label) =>
    button(label, () => state.set({ mode: name }), { "data-mode": name });
  const modes = element(
    "div",
    { className: "modes", role: "group", "aria-label": "Edit as" },
    mode("json", "JSON"),
    mode("form", "Form"),
  );
  const protocol = choice("Read as", PROTOCOLS, request.get().protocol ?? "auto", (value) =>
    request.set({ protocol: value === "auto" ? undefined : value }),
  );
  const readAs = protocol.querySelector("select");
  const left = element(
    "section",
    { className: "pane source", "aria-label": "Request" },
    element("div", { className: "head" }, modes, protocol, examples(context)),
    editor.root,
    form.root,
    problem,
  );

  // Right: the prompt.

  const rows = new Rows({ label: "Prompt", onpoint: lightSource });
  const set = switches(context);
  const total = element("p", { className: "total" });
  const bar = element("div", { className: "shares" });
  const facts = element("div", { className: "facts" });
  const titles = element("div", { className: "titles" });
  const ending = element("p", { className: "ending" });
  const tokens = choice(
    "Tokens",
    TOKENS,
    state.get().tokens ?? "off",
    (value) => state.set({ tokens: value }),
    {
      disabled: !settings.tokens,
      title: settings.tokens ? undefined : "The extra `tokens` is not installed",
    },
  );
  const sides = [
    ...settings.dialects.map(({ name }) => [`dialect:${name}`, `dsv4, ${name}`]),
    ...settings.profiles.map(({ name, server }) => [`profile:${name}`, server]),
  ];
  const beside = choice("Beside", [["", "nothing"], ...sides], state.get().beside ?? "", (value) =>
    state.set({ beside: value || undefined }),
  );
  const against = choice(
    "Show",
    [["dsv4", "dsv4, as switched"], ...sides],
    state.get().shown ?? "dsv4",
    (value) => state.set({ shown: value === "dsv4" ? undefined : value }),
  );
  const copyText = button("Copy prompt", async () => {
    try {
      const { shown } = state.get();
      const answer = await context.call("text", { ...asked(request), source: source(), shown });
      if (!answer) return;
      await toClipboard(answer.prompt);
      context.tell("Copied the prompt.");
    } catch (error) {
      context.tell(`Nothing was copied: ${error.message}`);
    }
  });
  const scroller = element("div", { className: "scroller" }, facts, titles, rows.root, ending);
  const right = element(
    "section",
    { className: "pane result", "aria-label": "Prompt" },
    element("div", { className: "head" }, against, beside, tokens, copyText),
    element("div", { className: "summary" }, total, bar),
    scroller,
  );
  root.append(
    element(
      "div",
      { className: "toolbar" },
      set.root,
      context.copy(() => ({ ...asked(request), source: source(), shown: state.get().shown })),
    ),
    element("div", { className: "panes" }, left, right),
  );

  // Asking, and showing the answer.

  const ask = debounced(async () => {
    const { shown = "dsv4", beside: other, tokens: borders = "off" } = state.get();
    const body = {
      ...asked(request),
      source: source(),
      ids: borders !== "off",
      sides: other ? [shown, other] : [shown],
    };
    right.classList.add("waiting");
    try {
      const answer = await context.call("prompt", body);
      if (answer === undefined) return;
      show(answer);
      showProblem(null);
    } catch (error) {
      if (!error.problem) throw error;
      right.classList.add("stale");
      showProblem(error.problem);
    }
    right.classList.remove("waiting");
  }, TYPING);

  function show(answer) {
    right.classList.remove("stale");
    const good = answer.sides.filter((side) => !side.problem);
    set.update(answer.tools);
    readAs.options[0].textContent = `${NAMES[answer.protocol]} (detected)`;
    total.textContent = good.map((side) => side.total).join("  ·  ");
    bar.replaceChildren(...(good.length === 1 ? sharesOf(good[0]) : []));
    facts.replaceChildren(...factsOf(answer, editor));
    titles.replaceChildren(
      ...(answer.sides.length > 1
        ? answer.sides.map((side) => element("b", {}, side.title ?? side.problem.message))
        : []),
    );
    const last = good[0]?.ending;
    ending.textContent = last ? `${last.generates ? "▶" : "■"} ${last.words}` : "";
    ending.classList.toggle("silent", Boolean(last && !last.generates));
    const borders = state.get().tokens ?? "off";
    rows.root.classList.toggle("with-tokens", borders !== "off");
    // Kept for tests, and for whoever looks at how much work a change makes.
    root.shown = rows.show(good, borders);
  }

  function showProblem(found) {
    problem.hidden = !found;
    const isPlaced = Number.isInteger(found?.start);
    editor.mark(isPlaced ? [found.start, found.end] : null);
    if (!found) return problem.replaceChildren();
    const where = found.line ? `Line ${found.line}, column ${found.column}` : "";
    const place = [where, found.path].filter(Boolean).join(": ");
    problem.replaceChildren(
      isPlaced
        ? button(place, () => editor.focus(found.start), { className: "place" })
        : element("b", {}, place),
      " ",
      element("span", {}, found.message),
    );
  }

  // Provenance.

  function lightSource(place, how) {
    editor.light(place, { scroll: how !== "hover" });
    if (place && how === "click" && state.get().mode !== "form") editor.focus(place[0]);
  }

  function lightPrompt(offset, scroll) {
    const place = offset === null ? null : rows.placeAt(offset);
    editor.light(place);
    rows.light(place, { scroll });
  }

  // What the state says.

  function draw() {
    const isForm = state.get().mode === "form";
    for (const one of modes.children)
      one.setAttribute("aria-pressed", String((one.dataset.mode === "form") === isForm));
    editor.root.hidden = isForm;
    form.root.hidden = !isForm;
    if (isForm) form.text = source();
    else editor.text = source();
  }

  request.onChange((values, names) => {
    if (names.length === 1 && names[0] === "caret") return;
    readAs.value = values.protocol ?? "auto";
    draw();
    if (names.includes("source") && names.length === 1) ask();
    else ask.now();
  });
  state.onChange((_, names) => {
    draw();
    if (names.some((name) => name !== "mode")) ask.now();
  });
  draw();
  ask.now();
  // Another view may have named a place to look at.
  context.onShown(() => {
    const { caret } = request.get();
    if (!Number.isInteger(caret)) return;
    request.set({ caret: undefined });
    state.set({ mode: "json" });
    editor.focus(caret);
    lightPrompt(caret, true);
  });
}

/** What takes how much, as a bar and in words. */
function sharesOf(side) {
  const all = side.shares.reduce((sum, { amount }) => sum + amount, 0) || 1;
  const unit = side.tokens === null ? "characters" : "tokens";
  const percent = (amount) => `${((100 * amount) / all).toFixed(amount * 100 < all ? 1 : 0)}%`;
  return [
    element(
      "div",
      { className: "bar-of-shares", "aria-hidden": "true" },
      side.shares.map(({ kind, amount }) => {
        const part = element("span", {
          className: `share ${kind}`,
          title: `${kind}: ${amount} ${unit}`,
        });
        part.style.flexGrow = amount;
        return part;
      }),
    ),
    element(
      "ul",
      { className: "legend", "aria-label": `${unit} by part` },
      side.shares.map(({ kind, amount }) =>
        element(
          "li",
          {},
          element("span", { className: `share ${kind}`, "aria-hidden": "true" }),
          `${kind} `,
          element(
            "span",
            { className: "faint" },
            `${amount.toLocaleString("en")} · ${percent(amount)}`,
          ),
        ),
      ),
    ),
  ];
}

/** What is to be known of the prompts: what differs and why, what is missing. */
function factsOf(answer, editor) {
  const found = [];
  const say = (words, className = "") =>
    found.push(element("p", { className: `fact ${className}` }, words));
  for (const side of answer.sides)
    if (side.problem) say(`${side.problem.path} ${side.problem.message}`, "problem");
  const good = answer.sides.filter((side) => !side.problem);
  if (answer.same === true) say("Both prompts are the same.", "good");
  if (answer.same === false && !answer.reasons.length)
    say("The prompts differ where they are marked.");
  for (const reason of answer.reasons)
    found.push(
      element(
        "p",
        { className: "fact" },
        element("b", {}, reason.kind),
        ` ${reason.message} `,
        reason.place &&
          button("Show in the request", () => editor.light(reason.place, { scroll: true }), {
            className: "small",
          }),
      ),
    );
  for (const words of new Set(good.map((side) => side.no_tokens).filter(Boolean))) say(words);
  const [side] = good;
  if (side?.spelled)
    say(
      `${side.spelled === 1 ? "One place" : `${side.spelled} places`} in the text spell a special token. They are marked, and stay text.`,
      "warning",
    );
  if (side?.unread.length) {
    const names = side.unread.map(({ message, field }) => `messages[${message}].${field}`);
    const more = names.length > 5 ? ` and ${names.length - 5} more` : "";
    say(`The format has no place for ${names.slice(0, 5).join(", ")}${more}.`);
  }
  return found;
}
