// Elements are built, never written as markup: text from outside is only ever text.

/**
 * An element. `properties` sets what an element has (`className`, `onclick`, `value`), and as
 * attributes what it has not (`role`, `aria-label`, `data-source`); undefined and false set nothing.
 * Children are nodes or texts; those that are null or false are left out.
 */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === false || value === null) continue;
    if (key in made && !key.includes("-") && key !== "list" && key !== "form") made[key] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== false));
  return made;
}

/** A button that does something. */
export const button = (label, onclick, properties = {}) =>
  element("button", { type: "button", onclick, ...properties }, label);

let labels = 0;

/**
 * A choice that makes something happen and is a choice no more: its first option says what it is
 * for. `onchoose(number)` is called with the number of the title that was chosen.
 */
export function menu(label, titles, onchoose) {
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

/** A labelled choice among options, each `[value, words]`. */
export function choice(label, options, value, onchange, properties = {}) {
  const id = `choice-${++labels}`;
  const select = element(
    "select",
    { id, onchange: () => onchange(select.value), ...properties },
    options.map(([name, words]) => element("option", { value: name }, words)),
  );
  select.value = value;
  return element("span", { className: "choice" }, element("label", { htmlFor: id }, label), select);
}

/** A labelled box to tick. */
export function tick(label, checked, onchange, properties = {}) {
  const box = element("input", {
    type: "checkbox",
    checked,
    onchange: () => onchange(box.checked),
    ...properties,
  });
  return element("label", { className: "tick" }, box, " ", label);
}

/**
 * Fills an element with what `build(item)` makes of each item, in slices: what can be seen first
 * at once, the rest while the browser has nothing better to do. A later call for the same element
 * ends an earlier one. Resolves when all is there.
 */
export function fill(root, items, build, { first = 60, slice = 120 } = {}) {
  const turn = (turns.get(root) ?? 0) + 1;
  turns.set(root, turn);
  const built = (from, to) => items.slice(from, to).map((item, n) => build(item, from + n));
  root.replaceChildren(...built(0, first));
  return new Promise((resolve) => {
    const go = (at) => {
      if (turns.get(root) !== turn) return;
      if (at >= items.length) return resolve();
      root.append(...built(at, at + slice));
      idle(() => go(at + slice));
    };
    idle(() => go(first));
  });
}

const turns = new WeakMap();
const idle = (then) =>
  window.requestIdleCallback ? requestIdleCallback(then, { timeout: 50 }) : setTimeout(then);
