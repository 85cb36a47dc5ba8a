// Rows of prompts that belong together: those that two prompts have in common, those that stay from
// one answer to the next, and the place in the source that an offset is in.

/** @typedef {import("./types.js").Place} Place */

/**
 * The numbers of items that two lists have in common at their start, and at their end.
 * @param {readonly unknown[]} a
 * @param {readonly unknown[]} b
 * @returns {[number, number]}
 */
export function commonEnds(a, b) {
  const shorter = Math.min(a.length, b.length);
  let start = 0;
  while (start < shorter && a[start] === b[start]) start++;
  let end = 0;
  while (end < shorter - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  return [start, end];
}

/**
 * The numbers of the rows that go beside each other, null where a side has none.
 * @param {{ rows: { message: number | null, field: string }[] }[]} sides
 * @returns {(number | null)[][]}
 */
export function pairedRows(sides) {
  if (sides.length < 2) return (sides[0]?.rows ?? []).map((_, n) => [n]);
  const [left, right] = sides.map((side) => side.rows.map((row) => `${row.message} ${row.field}`));
  /** @type {Map<string, number[]>} */
  const later = new Map();
  right.forEach((key, n) => {
    later.set(key, [...(later.get(key) ?? []), n]);
  });
  /** @type {(number | null)[][]} */
  const pairs = [];
  let r = 0;
  left.forEach((key, l) => {
    const fitting = later.get(key)?.find((n) => n >= r);
    if (fitting === undefined) {
      pairs.push([l, null]);
      return;
    }
    while (r < fitting) pairs.push([null, r++]);
    pairs.push([l, r++]);
  });
  while (r < right.length) pairs.push([null, r++]);
  return pairs;
}

/**
 * The row of a prompt that shows what a row of another one showed: each by the places that its rows
 * came from. Where both have as many rows they are the same, in another manner.
 * @param {(Place | null)[][]} before
 * @param {(Place | null)[][]} after
 * @param {number} row
 */
export function sameRow(before, after, row) {
  if (before.length === after.length) return row;
  const starts = before.map(startOf);
  let known = row;
  while (known > 0 && starts[known] === null) known--;
  const start = starts[known] ?? 0;
  const others = after.map(startOf);
  const same = others.flatMap((other, n) => (other === start ? [n] : []));
  const which = starts.slice(0, known).filter((other) => other === start).length;
  if (same.length) return same[Math.min(which, same.length - 1)];
  return Math.max(0, others.findLastIndex((other) => other !== null && other <= start));
}

/** @param {(Place | null)[]} places */
const startOf = (places) => places.find((place) => place !== null)?.[0] ?? null;

/**
 * The innermost place that holds an offset of the source, or null.
 * @param {{ places: (Place | null)[][] }[]} sides
 * @param {number} offset
 * @returns {Place | null}
 */
export function innermostPlace(sides, offset) {
  /** @type {Place | null} */
  let found = null;
  for (const { places } of sides)
    for (const row of places)
      for (const place of row) {
        if (!place || place[0] > offset || place[1] < offset) continue;
        if (!found || place[1] - place[0] < found[1] - found[0]) found = place;
      }
  return found;
}
