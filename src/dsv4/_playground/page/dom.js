// Elements are built, never written as markup: text from outside is only ever text.

/**
 * An element. `properties` sets what an element has (`className`, `onclick`, `value`), and as
 * attributes what it has not (`role`, `aria-label`, `data-source`); undefined and false set nothing.
 * Children are nodes or texts; those that are null or false are left out.
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, any>} properties
 * @param {...any} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function element(name, properties = {}, ...children) {
  /** @type {any} */
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === false || value === null) continue;
    if (key in made && !key.includes("-") && key !== "list" && key !== "form") made[key] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== false));
  return made;
}

/**
 * A button that does something.
 * @param {any} label
 * @param {(event: MouseEvent) => unknown} onclick
 * @param {Record<string, any>} properties
 */
export const button = (label, onclick, properties = {}) =>
  element("button", { type: "button", onclick, ...properties }, label);

/**
 * The element of a name that was built inside another.
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Element} root
 * @param {Name} name
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function inside(root, name) {
  const found = root.querySelector(name);
  if (!found) throw new Error(`there is no ${name} in ${root.className}`);
  return found;
}

// As in style.css: below it, there is room for one pane.
const ROOMY = "(min-width: 60.01rem)";

/**
 * Options: all visible if there is room for them, and else folded under a title, because the prompt
 * is more important.
 * @param {string} title
 * @param {...any} children
 */
export function options(title, ...children) {
  const room = matchMedia(ROOMY);
  const root = element("details", { className: "options" }, element("summary", {}, title), element("div", {}, ...children));
  const follow = () => {
    root.open = room.matches;
  };
  room.addEventListener("change", follow);
  follow();
  return root;
}

let labels = 0;

/**
 * A choice that makes something happen and is a choice no more: its first option says what it is
 * for. `onchoose(number)` is called with the number of the title that was chosen.
 * @param {string} label
 * @param {string[]} titles
 * @param {(number: number) => void} onchoose
 */
export function menu(label, titles, onchoose) {
  /** @type {HTMLSelectElement} */
  const select = element(
    "select",
    {
      "aria-label": label,
      onchange: () => {
        const chosen = select.selectedIndex - 1;
        select.selectedIndex = 0;
        if (chosen >= 0) onchoose(chosen);
      },
    },
    [`${label}…`, ...titles].map((title) => element("option", {}, title)),
  );
  return element("span", { className: "choice" }, select);
}

/**
 * A labelled choice among options, each `[value, words]`.
 * @param {string} label
 * @param {string[][]} options
 * @param {string} value
 * @param {(value: string) => void} onchange
 * @param {Record<string, any>} properties
 */
export function choice(label, options, value, onchange, properties = {}) {
  const id = `choice-${++labels}`;
  /** @type {HTMLSelectElement} */
  const select = element(
    "select",
    { id, onchange: () => onchange(select.value), ...properties },
    options.map(([name, words]) => element("option", { value: name }, words)),
  );
  select.value = value;
  return element("span", { className: "choice" }, element("label", { htmlFor: id }, label), select);
}

/**
 * A labelled box to tick.
 * @param {string} label
 * @param {boolean} checked
 * @param {(checked: boolean) => void} onchange
 * @param {Record<string, any>} properties
 */
export function tick(label, checked, onchange, properties = {}) {
  /** @type {HTMLInputElement} */
  const box = element("input", {
    type: "checkbox",
    checked,
    onchange: () => onchange(box.checked),
    ...properties,
  });
  return element("label", { className: "tick" }, box, " ", label);
}

/**
 * Fills an element with what `build(item)` returns for each item, in slices: what can be seen first
 * immediately, the rest while the browser is idle. A later call for the same element ends an earlier
 * one. Until all is there, the element is marked as busy.
 * @template Item
 * @param {Element} root
 * @param {Item[]} items
 * @param {(item: Item, number: number) => Node} build
 */
export function fill(root, items, build, { first = 60, slice = 120 } = {}) {
  const turn = (turns.get(root) ?? 0) + 1;
  turns.set(root, turn);
  /**
   * @param {number} from
   * @param {number} to
   */
  const built = (from, to) => items.slice(from, to).map((item, n) => build(item, from + n));
  root.setAttribute("aria-busy", "true");
  root.replaceChildren(...built(0, first));
  /** @param {number} at */
  const go = (at) => {
    if (turns.get(root) !== turn) return;
    if (at >= items.length) {
      root.setAttribute("aria-busy", "false");
      return;
    }
    root.append(...built(at, at + slice));
    idle(() => go(at + slice));
  };
  idle(() => go(first));
}

const turns = new WeakMap();

/**
 * Runs something when the browser has nothing better to do. Safari has no idle callbacks.
 * @param {() => void} then
 */
export const idle = (then) => {
  if ("requestIdleCallback" in window) requestIdleCallback(() => then(), { timeout: 50 });
  else setTimeout(then);
};
