// The shell: tabs, the state in the URL, and what views get to work with.
//
// A view is a module with `mount(root, context)`, called once, when it is first opened. It fills
// `root`, and returns nothing. `context` is all it knows of the page:
//
//   context.state       its own slice of the state: get(), set({…}), onChange((values, names) => …)
//   context.request     the slice that views share: the request that is looked at (`source`, its
//                       JSON as text) and the switches (`protocol`, `dialect`, `thinking`, …)
//   context.slice       slice(name) is the slice of another view: what it is to show when it is opened
//   context.settings    what api/settings says: dialects, profiles, whether there are tokens, …
//   context.call        call(name, body) asks api/NAME. Only the newest call of a name counts: an
//                       older one gives undefined. Throws a `CallError` (server.js)
//   context.copy        copy(describe) is an element with buttons that copy what the view shows, as
//                       a link, as curl, as Python and as pytest; describe() is the body for
//                       api/copy, with `view` filled in by the shell
//   context.say         say(words) tells a screen reader, politely
//   context.cancel      cancel(name) ends a call of that name
//   context.tell        tell(words) says it, and shows it for a moment; tell(words, true) until it is
//                       closed
//   context.go          go(name) opens another view
//   context.onShown     onShown(run) runs each time the view is opened, from the first time on
//
// Whatever is in the slices is in the link, and is plain JSON. A view must take any of it: links
// come from anywhere.

import { CallError, latest, post, python, useKey } from "./server.js";
import { copyButtons } from "./copybuttons.js";
import { button, element } from "./dom.js";
import { fromFragment, Store } from "./state.js";
import { labelled, savedTheme, themeAfter, useTheme } from "./theme.js";
import * as cache from "./views/cache.js";
import * as live from "./views/live.js";
import * as prompt from "./views/prompt.js";
import * as stream from "./views/stream.js";

/** @typedef {import("./types.js").PageContext} PageContext */
/** @typedef {import("./types.js").PageSettings} PageSettings */
/** @typedef {{ mount: (root: HTMLElement, context: PageContext) => void }} ViewModule */
/** @typedef {{ name: string, title: string, module: ViewModule }} View */

/** @type {View[]} */
const VIEWS = [
  { name: "prompt", title: "Prompt", module: prompt },
  { name: "cache", title: "Cache", module: cache },
  { name: "stream", title: "Stream", module: stream },
  { name: "live", title: "Live", module: live },
];

// The address of `dsv4 playground`, for commands that are copied from a page without a server.
const LOCAL = "http://127.0.0.1:8004";

/** @param {string} name */
const isView = (name) => VIEWS.some((view) => view.name === name);

/** @param {string} selector */
const found = (selector) => {
  /** @type {HTMLElement | null} */
  const element = document.querySelector(selector);
  if (!element) throw new Error(`${selector} is not in index.html`);
  return element;
};
const main = found("main");
const tabs = found(".tabs");
const said = found("#said");

/** @param {string} words */
const say = (words) => {
  // The same words twice would not be read twice.
  said.textContent = said.textContent === words ? `${words}\u00a0` : words;
};

/** @type {ReturnType<typeof setTimeout> | undefined} */
let telling;
const hush = () => said.classList.add("visually-hidden");
/** @param {string} words */
const tell = (words, stays = false) => {
  say(words);
  said.classList.remove("visually-hidden");
  clearTimeout(telling);
  if (stays) said.append(" ", button("Close", hush, { className: "small" }));
  else telling = setTimeout(hush, 2500);
};

async function start() {
  showProgress();
  found(".tail").append(themeSwitch(), helpLink());
  const read = await fromFragment(location.hash);
  const store = new Store({ ...read, view: isView(read.view) ? read.view : VIEWS[0].name });
  const settings = await settingsOf();
  const shell = new Shell(store, settings);
  shell.show();
  keepInAddress(store);
  found(".tail").append(element("span", { className: "faint" }, settings.version));
  if (read.isBroken || (read.view && !isView(read.view))) main.prepend(brokenLink());
}

/** Says that the content of the link is missing. The message stays until the user has seen it. */
function brokenLink() {
  const words =
    "This link is incomplete or damaged, so the page shows its example. Long links are often cut " +
    "when they are copied or sent: ask for the whole link again.";
  const notice = element("p", { className: "notice problem", role: "alert" }, `${words} `);
  notice.append(button("Close", () => notice.remove(), { className: "small" }));
  return notice;
}

function themeSwitch() {
  let theme = savedTheme();
  useTheme(theme);
  const control = button(theme, () => {
    theme = themeAfter(theme);
    useTheme(theme);
    labelled(control, theme);
  });
  control.className = "plain";
  return labelled(control, theme);
}

/** The documents beside a published page; for one on this machine, the command that has them. */
const helpLink = () =>
  python
    ? element("a", { href: "../playground-guide/", className: "plain" }, "Help")
    : element(
        "details",
        { className: "help" },
        element("summary", {}, "Help"),
        element(
          "div",
          { className: "help-text" },
          element("p", {}, "Prompt: paste a request in any protocol and see what the model sees. Point at any part to find where it comes from."),
          element("p", {}, "Cache: what each turn reuses of the one before. Stream: how a completion is read, character by character. Live: talk to the model behind this server."),
          element("p", {}, "The guide is ", element("code", {}, "dsv4 docs playground-guide"), ", and ", element("code", {}, "dsv4 --help"), " lists the commands."),
        ),
      );

/** Shows the progress of loading Python, in a page that answers itself. */
function showProgress() {
  if (!python) return;
  const bar = element("progress", { max: 1, "aria-label": "Loading Python" });
  const words = element("span", { className: "faint" });
  const shown = element("div", { className: "loading" }, bar, words);
  found(".tail").prepend(shown);
  python.onProgress((share, said) => {
    if (share === null) {
      shown.remove();
      return tell(said);
    }
    if (share < 1) bar.value = share;
    else bar.removeAttribute("value");
    words.textContent = said;
  });
}

/**
 * The settings, with a key where one is asked for.
 * @returns {Promise<PageSettings>}
 */
async function settingsOf() {
  for (;;) {
    try {
      return await post("settings", {});
    } catch (error) {
      if (!(error instanceof CallError) || error.status !== 401) throw error;
      useKey(await askForKey());
    }
  }
}

/** @returns {Promise<string>} */
function askForKey() {
  return new Promise((resolve) => {
    const input = element("input", { type: "password", id: "key", autocomplete: "off" });
    /** @param {SubmitEvent} event */
    const give = (event) => {
      event.preventDefault();
      asking.remove();
      resolve(input.value);
    };
    const asking = element(
      "form",
      { className: "notice key", onsubmit: give },
      element(
        "label",
        { htmlFor: "key" },
        "This server asks for an API key. It stays in this tab.",
      ),
      input,
      element("button", { type: "submit" }, "Use it"),
    );
    main.prepend(asking);
    input.focus();
  });
}

class Shell {
  #store;
  #settings;
  /** @type {Map<string, { tab: HTMLButtonElement, panel: HTMLElement }>} */
  #parts = new Map();
  /** @type {Map<string, (() => void)[]>} */
  #mounted = new Map();

  /**
   * @param {Store} store
   * @param {PageSettings} settings
   */
  constructor(store, settings) {
    this.#store = store;
    this.#settings = settings;
    for (const view of VIEWS) this.#add(view);
    tabs.addEventListener("keydown", (event) => this.#move(event));
  }

  /** @param {View} view */
  #add({ name, title }) {
    const tab = button(title, () => this.open(name), {
      role: "tab",
      id: `tab-${name}`,
      "aria-controls": `view-${name}`,
    });
    const panel = element("section", {
      role: "tabpanel",
      id: `view-${name}`,
      className: `view ${name}`,
      "aria-labelledby": `tab-${name}`,
    });
    tabs.append(tab);
    main.append(panel);
    this.#parts.set(name, { tab, panel });
  }

  /**
   * Arrows go from tab to tab, as the pattern for tabs has it.
   * @param {KeyboardEvent} event
   */
  #move(event) {
    const names = VIEWS.map((view) => view.name);
    const at = names.indexOf(this.#store.view);
    /** @type {Record<string, number>} */
    const jumps = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 };
    const to = jumps[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const name = names[(to + names.length) % names.length];
    this.open(name);
    this.#parts.get(name)?.tab.focus();
  }

  /** @param {string} name */
  open(name) {
    this.#store.open(name);
    this.show();
  }

  show() {
    const open = this.#store.view;
    for (const [name, { tab, panel }] of this.#parts) {
      tab.setAttribute("aria-selected", String(name === open));
      tab.tabIndex = name === open ? 0 : -1;
      panel.hidden = name !== open;
    }
    const view = VIEWS.find(({ name }) => name === open);
    if (view && !this.#mounted.has(open)) this.#mount(view);
    for (const run of this.#mounted.get(open) ?? []) run();
  }

  /** @param {View} view */
  #mount({ name, module }) {
    /** @type {(() => void)[]} */
    const runs = [];
    this.#mounted.set(name, runs);
    const call = latest();
    const copied = latest();
    const part = this.#parts.get(name);
    if (!part) return;
    module.mount(part.panel, {
      state: this.#store.slice(name),
      request: this.#store.slice("request"),
      slice: (other) => this.#store.slice(other),
      settings: this.#settings,
      call,
      cancel: call.cancel,
      say,
      tell,
      go: (other) => this.open(other),
      onShown: (run) => void runs.push(run),
      copy: (describe) =>
        copyButtons({
          tell,
          link: () => linkTo(this.#store),
          ask: async (form) => {
            const url = python ? LOCAL : location.origin;
            const body = { form, view: name, url, ...describe() };
            return (await copied("copy", body))?.text;
          },
        }),
    });
  }
}

/**
 * A link to what is shown.
 * @param {Store} store
 */
async function linkTo(store) {
  const fragment = await store.toFragment();
  return fragment === null ? null : location.href.replace(/#.*$/, "") + fragment;
}

/**
 * Writes the state into the address, a moment after it has changed; reads it when that changes.
 * @param {Store} store
 */
function keepInAddress(store) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let written = location.hash;
  const write = async () => {
    const fragment = store.isLarge ? null : await store.toFragment();
    written = fragment ?? `#${store.view}`;
    history.replaceState(null, "", written);
  };
  store.onChange(() => {
    clearTimeout(timer);
    timer = setTimeout(write, 300);
  });
  // A link that is opened in this tab is another page.
  window.addEventListener("hashchange", () => {
    if (location.hash !== written) location.reload();
  });
}

start().catch((error) => {
  main.replaceChildren(
    element(
      "p",
      { className: "notice problem", role: "alert" },
      `The page cannot start: ${error.message}`,
    ),
  );
});
