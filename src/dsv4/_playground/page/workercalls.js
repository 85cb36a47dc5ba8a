// Calls that a worker answers: { id, … } to it, { cancel: id } if the answer is not needed any
// more, and { id, … } back.

/** @typedef {{ resolve: (said: any) => void, reject: (error: Error) => void }} Waiting */

export class WorkerCalls {
  /** @type {Worker} */
  worker;
  /** @type {Map<number, Waiting>} */
  #waiting = new Map();
  #calls = 0;
  #failure = "";

  /** @param {URL | string} address */
  constructor(address) {
    this.worker = new Worker(address, { type: "module" });
    this.worker.onmessage = ({ data }) => this.answered(data);
    this.worker.onerror = ({ message }) => this.fail(message || "its worker did not start");
  }

  /**
   * @param {object} asked
   * @param {AbortSignal} [signal]
   * @returns {Promise<any>}
   */
  ask(asked, signal) {
    const id = ++this.#calls;
    return new Promise((resolve, reject) => {
      if (this.#failure) return reject(new Error(this.#failure));
      this.#waiting.set(id, { resolve, reject });
      this.worker.postMessage({ ...asked, id });
      signal?.addEventListener("abort", () => {
        if (!this.#waiting.delete(id)) return;
        this.worker.postMessage({ cancel: id });
        reject(new DOMException("a newer call took its place", "AbortError"));
      });
    });
  }

  /** @param {{ id: number, [name: string]: any }} said */
  answered(said) {
    this.#waiting.get(said.id)?.resolve(said);
    this.#waiting.delete(said.id);
  }

  /** @param {string} why */
  fail(why) {
    this.#failure = why;
    for (const { reject } of this.#waiting.values()) reject(new Error(why));
    this.#waiting.clear();
  }
}
