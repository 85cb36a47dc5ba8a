// JSON text with the place of each value, to change one value and leave all other text unchanged:
// numbers keep their spelling, and the author recognises the text.

/**
 * A value in a text: where it is, and what JSON.parse reads. A list has `items`, an object `members`
 * by name.
 * @typedef {{
 *   start: number, end: number, value: any, items?: JsonNode[], members?: Map<string, JsonNode>,
 * }} JsonNode
 */

/**
 * The tree of a text; null for text that is not JSON.
 * @param {string} text
 * @returns {JsonNode | null}
 */
export function scan(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  let at = 0;
  const skip = () => {
    while (" \t\n\r,:".includes(text[at])) at++;
  };
  const string = () => {
    const start = at++;
    while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
    at++;
    return text.slice(start, at);
  };
  /**
   * @param {any} value
   * @returns {JsonNode}
   */
  const node = (value) => {
    skip();
    /** @type {JsonNode} */
    const made = { start: at, end: at, value };
    if (text[at] === "[") {
      made.items = [];
      at++;
      for (skip(); text[at] !== "]"; skip()) made.items.push(node(value[made.items.length]));
      at++;
    } else if (text[at] === "{") {
      made.members = new Map();
      at++;
      for (skip(); text[at] !== "}"; skip()) {
        const name = JSON.parse(string());
        made.members.set(name, node(value[name]));
      }
      at++;
    } else if (text[at] === '"') string();
    else while (at < text.length && !" \t\n\r,]}".includes(text[at])) at++;
    made.end = at;
    return made;
  };
  try {
    return node(value);
  } catch (error) {
    if (error instanceof RangeError) return null; // nested too deep
    throw error;
  }
}

/**
 * @param {string} text
 * @param {number} start
 * @param {number} end
 * @param {string} by
 */
const replaced = (text, start, end, by) => text.slice(0, start) + by + text.slice(end);

/**
 * The text with a value in place of a node.
 * @param {string} text
 * @param {JsonNode} node
 * @param {unknown} value
 */
const withValue = (text, node, value) =>
  replaced(text, node.start, node.end, JSON.stringify(value));

/**
 * The text with a member of an object: another value for it, or one member more.
 * @param {string} text
 * @param {JsonNode} object
 * @param {string} name
 * @param {unknown} value
 */
export function withMember(text, object, name, value) {
  const known = object.members?.get(name);
  if (known) return withValue(text, known, value);
  const last = [...(object.members?.values() ?? [])].at(-1);
  const member = `${JSON.stringify(name)}: ${JSON.stringify(value)}`;
  if (!last) return replaced(text, object.start, object.end, `{${member}}`);
  const gap = /^\s*/.exec(text.slice(object.start + 1))?.[0];
  return replaced(text, last.end, last.end, `,${gap || " "}${member}`);
}

/**
 * The text without a member of an object.
 * @param {string} text
 * @param {JsonNode} object
 * @param {string} name
 */
export function withoutMember(text, object, name) {
  const { [name]: _, ...others } = object.value;
  return replaced(text, object.start, object.end, indented(others, columnOf(text, object.start)));
}

/**
 * The text with other items in a list, each a node that was there or a new value.
 * @param {string} text
 * @param {JsonNode} list
 * @param {(JsonNode | { value: unknown })[]} items
 */
export function withItems(text, list, items) {
  const indent = " ".repeat(columnOf(text, list.start) + 2);
  const written = items.map((item) =>
    "start" in item ? text.slice(item.start, item.end) : indented(item.value, indent.length),
  );
  const by = written.length
    ? `[\n${indent}${written.join(`,\n${indent}`)}\n${indent.slice(2)}]`
    : "[]";
  return replaced(text, list.start, list.end, by);
}

/**
 * The indentation of a line.
 * @param {string} text
 * @param {number} at
 */
function columnOf(text, at) {
  const line = text.slice(text.lastIndexOf("\n", at - 1) + 1, at);
  return line.length - line.replace(/^ +/, "").length;
}

/**
 * @param {unknown} value
 * @param {number} column
 */
const indented = (value, column) =>
  JSON.stringify(value, null, 2).replaceAll("\n", `\n${" ".repeat(column)}`);
