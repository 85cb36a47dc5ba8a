// Pictures: kept beside the JSON of a request, which has only their names; read from files; and
// drawn in a prompt, with their cells and their costs in other sizes.

import { button, element } from "./dom.js";
import { messageOf, post } from "./server.js";
import { isObject } from "./state.js";

/** @typedef {import("./types.js").PromptImage} PromptImage */
/** @typedef {import("./types.js").PictureSize} PictureSize */

export const PICTURE = "picture:";
// As the gateway takes them.
const LARGEST = 20 * 1024 * 1024;
// A text that is shorter can be edited as it is.
const LONG = /"(data:image\/[\w.+-]+;base64,)?([A-Za-z0-9+/]{4000,}={0,2})"/g;

/**
 * A text of JSON with names for its long pictures, and all pictures by name: those that were known,
 * and the new ones.
 * @param {string} source
 * @param {Record<string, string>} known
 */
export function liftedPictures(source, known) {
  const pictures = { ...known };
  const text = source.replace(LONG, (_, head, data) => {
    const url = (head ?? `data:${typeOf(data)};base64,`) + data;
    const name = Object.keys(pictures).find((other) => pictures[other] === url) ?? freeName("", pictures);
    pictures[name] = url;
    return JSON.stringify(PICTURE + name);
  });
  return { text, pictures };
}

/**
 * The pictures beside a request. A link may hold anything.
 * @param {import("./types.js").Slice} request
 * @returns {Record<string, string>}
 */
export function picturesOf(request) {
  const { pictures } = request.get();
  return isObject(pictures) ? pictures : {};
}

/** The beginnings of files in base64. */
const BEGINNINGS = [
  ["/9j/", "image/jpeg"],
  ["R0lGOD", "image/gif"],
  ["UklGR", "image/webp"],
];

/** @param {string} data */
const typeOf = (data) => BEGINNINGS.find(([start]) => data.startsWith(start))?.[1] ?? "image/png";

/**
 * The name of a picture: that of its file, or a number; another one if it is taken.
 * @param {string} wanted
 * @param {Record<string, string>} pictures
 */
export function freeName(wanted, pictures) {
  if (wanted && !(wanted in pictures)) return wanted;
  for (let n = wanted ? 2 : 1; ; n++) {
    const name = wanted ? wanted.replace(/(\.\w+)?$/, `-${n}$1`) : String(n);
    if (!(name in pictures)) return name;
  }
}

/**
 * The pictures among what was dropped or pasted.
 * @param {DataTransfer | null} given
 */
export const picturesIn = (given) =>
  [...(given?.files ?? [])].filter((file) => file.type.startsWith("image/"));

/**
 * A file as an address. Rejects where it is too large.
 * @param {File} file
 * @returns {Promise<string>}
 */
export function addressOf(file) {
  if (file.size > LARGEST) return Promise.reject(new Error(`${file.name} is larger than 20 MiB.`));
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}

/**
 * An image of a prompt: small, under its cells, with its cost, and a slider for other sizes.
 * @param {PromptImage} image
 * @param {string} dialect
 */
export function drawnImage(image, dialect) {
  const caption = element("figcaption", {}, image.caption);
  const figure = element("figure", { className: "image" });
  if (image.thumbnail) {
    const grid = element("span", { className: "cells", "aria-hidden": "true" });
    grid.style.setProperty("--columns", String(image.columns));
    grid.style.setProperty("--rows", String(image.rows));
    const picture = element("img", { src: image.thumbnail, alt: image.caption });
    figure.append(element("span", { className: "thumbnail" }, picture, grid));
  }
  figure.append(caption);
  if (image.width !== null) caption.append(" ", sizesButton(image, dialect, figure));
  return figure;
}

/**
 * Opens the slider, with the sizes that the server tells once.
 * @param {PromptImage} image
 * @param {string} dialect
 * @param {HTMLElement} figure
 */
function sizesButton({ width, height, tokens }, dialect, figure) {
  const control = button(
    "Other sizes",
    async () => {
      const opened = figure.querySelector(".sizes");
      control.setAttribute("aria-expanded", String(!opened));
      if (opened) return opened.remove();
      const shown = element("div", { className: "sizes" }, "…");
      figure.append(shown);
      try {
        const { sizes } = await post("sizes", { width, height, tokens, dialect });
        shown.replaceChildren(...slider(sizes));
      } catch (error) {
        shown.textContent = messageOf(error);
      }
    },
    { className: "small", "aria-expanded": "false" },
  );
  return control;
}

/** @param {PictureSize[]} sizes */
function slider(sizes) {
  const words = element("output", {});
  const whole = sizes.findIndex(({ scale }) => scale === 100);
  /** @type {HTMLInputElement} */
  const range = element("input", {
    type: "range", min: 0, max: sizes.length - 1, step: 1, value: whole, "aria-label": "Size of the picture",
    oninput: () => show(),
  });
  const show = () => {
    words.textContent = sizeWords(sizes[Number(range.value)], sizes[whole]);
    range.setAttribute("aria-valuetext", words.textContent);
  };
  show();
  return [range, words];
}

/**
 * The cost of a size, compared with the cost of the picture in its own size.
 * @param {PictureSize} size
 * @param {PictureSize} whole
 */
export function sizeWords({ scale, width, height, columns, rows, tokens }, whole) {
  const more = tokens - whole.tokens;
  const change = more ? ` (${more > 0 ? "+" : "−"}${Math.abs(more)})` : "";
  return `${scale} %: ${width} × ${height}, ${columns} × ${rows} cells, ${tokens} tokens${change}`;
}
