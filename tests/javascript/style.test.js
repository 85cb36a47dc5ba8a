import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

const STYLE = new URL("../../src/dsv4/_playground/page/style.css", import.meta.url);
const LEAST = 4.5; // WCAG AA

const css = await readFile(STYLE, "utf8");
const [light, dark] = css
  .split("@media (prefers-color-scheme: dark)")
  .slice(0, 2)
  .map((part) => Object.fromEntries([...part.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map(([, name, value]) => [name, value])));

function luminance(colour) {
  const parts = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255);
  const [red, green, blue] = parts.map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

for (const [scheme, colours] of Object.entries({ light, dark }))
  test(`the colours of JSON can be read, ${scheme}`, () => {
    for (const text of ["text", "json-name", "json-string", "json-number", "json-literal"])
      for (const back of ["card", "lit", "hit", "bad-back"]) {
        const found = contrast(colours[text], colours[back]);
        assert.ok(found >= LEAST, `${text} on ${back}: ${found.toFixed(2)}`);
      }
    assert.ok(contrast(colours["on-accent"], colours.accent) >= LEAST);
  });
