// Python in a worker, for a page of static files: the same functions as a server's, and answers that
// were prepared when the page was built, for the time until Python has loaded.

/** @typedef {{ status: number, answer: any }} Answered */
/** @typedef {{ resolve: (answered: Answered) => void, reject: (error: Error) => void }} Waiting */
/** @typedef {(share: number | null, words: string) => void} ProgressListener */

export class Python {
  /** @type {Worker | null} */
  #worker = null;
  #directory;
  /** @type {Map<number, Waiting>} */
  #waiting = new Map();
  #calls = 0;
  /** @type {Promise<Record<string, any>> | null} */
  #prepared = null;
  #isReady = false;
  /** @type {Promise<void> | null} */
  #starting = null;
  /** @type {ProgressListener[]} */
  #listeners = [];
  #failure = "";

  /** @param {string} directory where the worker and the prepared answers are */
  constructor(directory) {
    this.#directory = directory;
  }

  /**
   * `listener(share, words)` is told how far loading is; a share of null is the end of it.
   * @param {ProgressListener} listener
   */
  onProgress(listener) {
    this.#listeners.push(listener);
  }

  /**
   * @param {string} name
   * @param {object} body
   * @param {AbortSignal} [signal]
   * @returns {Promise<Answered>}
   */
  async call(name, body, signal) {
    const text = JSON.stringify(body);
    if (!this.#isReady) {
      const prepared = await this.#preparedAnswers();
      this.#starting ??= this.#start();
      const answer = prepared[`${name} ${text}`];
      if (answer !== undefined) return { status: 200, answer };
      await this.#starting;
    }
    return this.#ask(name, text, signal);
  }

  /**
   * @param {string} name
   * @param {string} body
   * @param {AbortSignal} [signal]
   * @returns {Promise<Answered>}
   */
  #ask(name, body, signal) {
    const id = ++this.#calls;
    return new Promise((resolve, reject) => {
      if (this.#failure) return reject(new Error(this.#failure));
      this.#waiting.set(id, { resolve, reject });
      this.#worker?.postMessage({ id, name, body });
      signal?.addEventListener("abort", () => {
        if (!this.#waiting.delete(id)) return;
        this.#worker?.postMessage({ cancel: id });
        reject(new DOMException("a newer call took its place", "AbortError"));
      });
    });
  }

  #preparedAnswers() {
    this.#prepared ??= fetch(`${this.#directory}prepared.json`)
      .then((response) => (response.ok ? response.json() : {}))
      .catch(() => ({}));
    return this.#prepared;
  }

  async #start() {
    await filesAreKept();
    this.#worker = new Worker(`${this.#directory}worker.js`, { type: "module" });
    this.#worker.onmessage = ({ data }) => this.#heard(data);
    this.#worker.onerror = ({ message }) => this.#failed(message || "its worker did not start");
  }

  /** @param {Record<string, any>} said */
  #heard(said) {
    if (said.failed) return this.#failed(said.failed);
    if (said.words) return this.#tell(said.progress, said.words);
    if (said.ready) {
      this.#isReady = true;
      return this.#tell(null, "Python is ready.");
    }
    const waiting = this.#waiting.get(said.id);
    if (!waiting) return;
    this.#waiting.delete(said.id);
    waiting.resolve({ status: said.status, answer: JSON.parse(said.body) });
  }

  /** @param {string} why */
  #failed(why) {
    this.#failure = `Python could not be loaded: ${why}`;
    for (const { reject } of this.#waiting.values()) reject(new Error(this.#failure));
    this.#waiting.clear();
    this.#tell(null, this.#failure);
  }

  /**
   * @param {number | null} share
   * @param {string} words
   */
  #tell(share, words) {
    for (const listener of this.#listeners) listener(share, words);
  }
}

// Milliseconds until Python is loaded in any case.
const PATIENCE = 5000;

/**
 * Waits until what is loaded is kept, so that the next visit needs no network. Nothing else depends
 * on it: where it is not possible, everything is loaded again.
 */
async function filesAreKept() {
  const workers = navigator.serviceWorker;
  const registered = await workers?.register("service-worker.js").catch(() => undefined);
  if (!registered || workers.controller) return;
  await new Promise((resolve) => {
    workers.addEventListener("controllerchange", resolve, { once: true });
    setTimeout(resolve, PATIENCE);
    if (workers.controller) resolve(undefined);
  });
}

/**
 * The Python of a page that says where it is, in `data-python`; null where a server answers.
 * @param {HTMLElement} root
 */
export const pythonIn = (root) => (root.dataset.python ? new Python(root.dataset.python) : null);
