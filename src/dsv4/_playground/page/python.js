// Python in a worker, for a page of static files: the same functions as a server's, and answers that
// were prepared when the page was built, for the time until Python has loaded.

import { WorkerCalls } from "./workercalls.js";

/** @typedef {{ status: number, answer: any }} Answered */
/** @typedef {(share: number | null, words: string) => void} ProgressListener */

// A longer call has no prepared answer.
const LONG = 200_000;

export class Python {
  /** @type {WorkerCalls | null} */
  #calls = null;
  #directory;
  /** @type {Promise<Record<string, any>> | null} */
  #prepared = null;
  #isReady = false;
  /** @type {Promise<void> | null} */
  #starting = null;
  /** @type {ProgressListener[]} */
  #listeners = [];

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
    if (!this.#isReady) {
      const prepared = await this.#preparedAnswers();
      this.#starting ??= this.#start();
      const answer = isLong(body) ? undefined : prepared[`${name} ${JSON.stringify(body)}`];
      if (answer !== undefined) return { status: 200, answer };
      await this.#starting;
    }
    return this.#calls?.ask({ name, body }, signal);
  }

  #preparedAnswers() {
    this.#prepared ??= fetch(`${this.#directory}prepared.json`)
      .then((response) => (response.ok ? response.json() : {}))
      .catch(() => ({}));
    return this.#prepared;
  }

  async #start() {
    await filesAreKept();
    this.#calls = new WorkerCalls(`${this.#directory}worker.js`);
    this.#calls.worker.onmessage = ({ data }) => this.#heard(data);
    this.#calls.worker.onerror = ({ message }) => this.#failed(message || "its worker did not start");
  }

  /** @param {Record<string, any>} said */
  #heard(said) {
    if (said.failed) return this.#failed(said.failed);
    if (said.words) return this.#tell(said.progress, said.words);
    if (said.ready) {
      this.#isReady = true;
      return this.#tell(null, "Python is ready.");
    }
    const { id, status, body } = said;
    this.#calls?.answered({ id, status, answer: JSON.parse(body) });
  }

  /** @param {string} why */
  #failed(why) {
    const failure = `Python could not be loaded: ${why}`;
    this.#calls?.fail(failure);
    this.#tell(null, failure);
  }

  /**
   * @param {number | null} share
   * @param {string} words
   */
  #tell(share, words) {
    for (const listener of this.#listeners) listener(share, words);
  }
}

/**
 * Whether a text in a body is so long that it takes a while to write it as JSON.
 * @param {object} body
 */
export const isLong = (body) =>
  Object.values(body).some((value) => typeof value === "string" && value.length > LONG);

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
