// Where something is in a JSON text, in words: `line 54 · messages[6].reasoning_content`.

import { scan } from "./jsontext.js";

/** @typedef {import("./jsontext.js").JsonNode} JsonNode */

/** @type {{ text: string, tree: JsonNode | null }} */
let last = { text: "", tree: null };

/** @param {string} text */
function treeOf(text) {
  if (last.text !== text) last = { text, tree: scan(text) };
  return last.tree;
}

/**
 * The line and the path of a character. The path is that of the innermost value around it.
 * @param {string} text
 * @param {number} offset
 */
export function placeName(text, offset) {
  const line = text.slice(0, offset).split("\n").length;
  const path = pathOf(treeOf(text), offset);
  return path ? `line ${line} · ${path}` : `line ${line}`;
}

/**
 * @param {JsonNode | null} root
 * @param {number} offset
 */
function pathOf(root, offset) {
  let path = "";
  for (let node = root; node; ) {
    const inner = childAt(node, offset);
    if (!inner) return path;
    path += typeof inner.name === "number" ? `[${inner.name}]` : `${path && "."}${inner.name}`;
    node = inner.node;
  }
  return path;
}

/**
 * @param {JsonNode} node
 * @param {number} offset
 * @returns {{ name: string | number, node: JsonNode } | null}
 */
function childAt(node, offset) {
  for (const [name, child] of node.members ?? [])
    if (child.start <= offset && offset < child.end) return { name, node: child };
  for (const [n, child] of (node.items ?? []).entries())
    if (child.start <= offset && offset < child.end) return { name: n, node: child };
  return null;
}
