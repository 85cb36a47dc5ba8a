// Everything that a link restores: the open view, and a slice of plain JSON for each view. It is kept
// in the URL's fragment, which browsers do not send to servers.
//
//   #prompt                       a view with nothing in it
//   #prompt/1.PACKED              the same with its slices: JSON, deflated, as base64url

/** @typedef {Record<string, any>} Values */
/** @typedef {(values: Values, names: string[]) => void} SliceListener */

const FORM = "1.";
// Chromium takes 2 MB of URL; what is longer has no link.
const LONGEST = 1_500_000;
// A longer text is packed when the link is requested, and not while it is typed.
const LARGE = 500_000;
// A link comes from anywhere, and few bytes may inflate to many.
const LARGEST = 32_000_000;

/** A part of the state. `onChange` listeners get the slice, and the names of what has changed. */
export class Slice {
  #values;
  /** @type {SliceListener[]} */
  #listeners = [];

  /** @param {Values} values */
  constructor(values = {}) {
    this.#values = values;
  }

  get() {
    return this.#values;
  }

  /**
   * Sets some of the values. Where nothing changes, no listener is called.
   * @param {Values} values
   */
  set(values) {
    const names = Object.keys(values).filter((name) => !same(values[name], this.#values[name]));
    if (!names.length) return;
    this.#values = { ...this.#values, ...values };
    for (const listener of this.#listeners) listener(this.#values, names);
  }

  /** @param {SliceListener} listener */
  onChange(listener) {
    this.#listeners.push(listener);
  }
}

/**
 * @param {unknown} a
 * @param {unknown} b
 */
const same = (a, b) =>
  a === b || (typeof a === "object" && JSON.stringify(a) === JSON.stringify(b));

/** The store: the name of the open view, and slices by name. */
export class Store {
  /** @type {string} */
  view;
  /** @type {Map<string, Slice>} */
  #slices = new Map();
  /** @type {(() => void)[]} */
  #listeners = [];

  /** Whether there is so much in it that its fragment takes long to make. */
  get isLarge() {
    const texts = [...this.#slices.values()].flatMap((slice) => Object.values(slice.get()));
    return texts.some((text) => typeof text === "string" && text.length > LARGE);
  }

  /** @param {{ view: string, slices: Record<string, Values> }} restored */
  constructor({ view, slices }) {
    this.view = view;
    for (const [name, values] of Object.entries(slices)) this.slice(name).set(values);
  }

  /**
   * The slice of a name.
   * @param {string} name
   */
  slice(name) {
    const known = this.#slices.get(name);
    if (known) return known;
    const created = new Slice();
    created.onChange(() => this.#changed());
    this.#slices.set(name, created);
    return created;
  }

  /** @param {string} view */
  open(view) {
    if (view === this.view) return;
    this.view = view;
    this.#changed();
  }

  /** @param {() => void} listener */
  onChange(listener) {
    this.#listeners.push(listener);
  }

  #changed() {
    for (const listener of this.#listeners) listener();
  }

  /** The fragment that restores all this, or null where it would be too long for a URL. */
  async toFragment() {
    const filled = [...this.#slices].filter(([, slice]) => Object.keys(slice.get()).length);
    if (!filled.length) return `#${this.view}`;
    const slices = Object.fromEntries(filled.map(([name, slice]) => [name, slice.get()]));
    const packed = await pack(JSON.stringify(slices, (_, value) => (typeof value === "string" ? withoutKeys(value) : value)));
    return packed.length > LONGEST ? null : `#${this.view}/${FORM}${packed}`;
  }
}

// As `without_keys` in _why/verdict.py: keys in headers, in options of curl, in JSON and in addresses,
// and those that show themselves by their beginning.
const KEYS = new RegExp(
  [
    /((?:authorization|(?:x-)?(?:goog-)?api[-_]?key|proxy-authorization|cookie|access[-_]token)\\?["']?\s*[:=]\s*\\?["']?(?:(?:bearer|basic|digest|token|apikey)\s+)?)(?!(?:bearer|basic|digest|token|apikey)\s)[^\s"'&,;\\}]{4,}/,
    /(\bbearer\s+)[\w.~+/=-]{8,}/,
    /(\b(?:sk|pk|gsk|hf|key|xai)[-_])[\w-]{8,}/,
  ].map(({ source }) => source).join("|"),
  "giu",
);

/**
 * A text with keys struck out: links are shared.
 * @param {string} text
 */
export const withoutKeys = (text) =>
  text.replace(KEYS, (_, name, scheme, own) => `${name ?? scheme ?? own}***`);

/**
 * The view and the slices in a fragment; no slices where they cannot be read.
 * @param {string} fragment
 */
export async function fromFragment(fragment) {
  const [view, packed] = fragment.replace(/^#/, "").split("/");
  if (packed === undefined) return { view, slices: {}, isBroken: false };
  /** @type {Record<string, Values>} */
  const slices = {};
  try {
    if (!packed.startsWith(FORM)) throw new Error("another form, or its beginning alone");
    const read = JSON.parse(await unpack(packed.slice(FORM.length)));
    for (const [name, values] of Object.entries(read))
      if (isObject(values)) slices[name] = values;
  } catch {
    return { view, slices: {}, isBroken: true };
  }
  return { view, slices, isBroken: false };
}

/**
 * Whether a value is an object of JSON.
 * @param {unknown} value
 * @returns {value is Values}
 */
export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** @param {string} text */
async function pack(text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let binary = "";
  for (let at = 0; at < bytes.length; at += 8192)
    binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** @param {string} packed */
async function unpack(packed) {
  const binary = atob(packed.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return boundedText(stream);
}

/** @param {ReadableStream<Uint8Array>} stream */
async function boundedText(stream) {
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    text += decoder.decode(value, { stream: true });
    if (text.length > LARGEST) throw new Error(`more than ${LARGEST} characters`);
  }
}
