// Calls of the functions behind the page: JSON in, JSON out. The newest call of a name wins. A server
// answers them, or, in a page of static files, Python in a worker (python.js).

import { answered, exchange } from "./exchange.js";
import { isLong, pythonIn } from "./python.js";
import { WorkerCalls } from "./workercalls.js";

/** @typedef {import("./types.js").Problem} Problem */
/** @typedef {(name: string, body: object, signal?: AbortSignal) => Promise<any>} Post */

/** An error of the server: `problem` has message, path, location, start, end, line, column. */
export class CallError extends Error {
  /**
   * @param {number} status
   * @param {Problem} problem
   */
  constructor(status, problem) {
    super(problem.message);
    this.status = status;
    this.problem = problem;
  }
}

// Only in memory: a key is in no link and no storage.
let key = "";

/**
 * The message of an error.
 * @param {unknown} error
 */
export const messageOf = (error) => (error instanceof Error ? error.message : String(error));

/** @param {string} value */
export const useKey = (value) => {
  key = value;
};

/**
 * The header with the key, if there is one.
 * @returns {Record<string, string>}
 */
export const credentials = () => (key ? { authorization: `Bearer ${key}` } : {});

/** Python in this page, where it is static: null where a server answers. */
export const python = globalThis.document ? pythonIn(document.documentElement) : null;

/**
 * Calls a function of the playground. Rejects with a `CallError`, or with an `AbortError` once
 * `signal` ends it.
 * @type {Post}
 */
export const post = (name, body, signal) =>
  python ? postToPython(python, name, body, signal) : postTo(`api/${name}`, body, signal);

/**
 * @param {import("./python.js").Python} python
 * @param {string} name
 * @param {object} body
 * @param {AbortSignal} [signal]
 */
async function postToPython(python, name, body, signal) {
  const { status, answer } = await python.call(name, body, signal).catch((error) => {
    if (isAborted(error)) throw error;
    throw new CallError(0, { message: messageOf(error) });
  });
  if (status === 200) return answer;
  throw new CallError(status, answer.error);
}

/**
 * Whether a call was cancelled.
 * @param {unknown} error
 */
export const isAborted = (error) => error instanceof Error && error.name === "AbortError";

/**
 * @param {number} status
 * @param {{ error?: Problem } | null} answer
 */
const refusal = (status, answer) =>
  new CallError(status, answer?.error ?? { message: `The server answered with status ${status}.` });

/**
 * The error in a response that is a refusal.
 * @param {Response} response
 */
export async function refusalOf(response) {
  const { status, answer } = await answered(response);
  return refusal(status, answer);
}

/** @type {WorkerCalls | null} */
let sender = null;

/**
 * The same for another route of the playground.
 * @type {Post}
 */
export async function postTo(path, body, signal) {
  const headers = { "content-type": "application/json", ...credentials() };
  const asked = { url: new URL(path, document.baseURI).href, headers, body };
  if (isLong(body)) sender ??= new WorkerCalls(new URL("sender.js", import.meta.url));
  const answering = isLong(body) && sender ? sender.ask(asked, signal) : exchange(asked, signal);
  const { status, answer } = await answering.catch((error) => {
    if (isAborted(error)) throw error;
    return { status: 0, answer: null };
  });
  if (!status) throw new CallError(0, { message: "The server does not answer. Is it still running?" });
  if (status < 300 && answer !== null) return answer;
  throw refusal(status, answer);
}

/**
 * A function that calls the server, and of which only the newest call of a name counts: an older one
 * that is still running is ended, and gives `undefined`.
 */
export function latest(ask = post) {
  /** @type {Map<string, AbortController>} */
  const running = new Map();
  /** @param {string} name */
  const cancel = (name) => running.get(name)?.abort();
  /**
   * @param {string} name
   * @param {object} body
   */
  const call = async (name, body) => {
    cancel(name);
    const control = new AbortController();
    running.set(name, control);
    try {
      const answer = await ask(name, body, control.signal);
      return control.signal.aborted ? undefined : answer;
    } catch (error) {
      if (control.signal.aborted) return undefined;
      throw error;
    }
  };
  return Object.assign(call, { cancel });
}

/**
 * A function that runs once it has not been called for some milliseconds; `now` runs it immediately.
 * @template {any[]} Given
 * @param {(...given: Given) => unknown} run
 * @param {number} wait
 */
export function debounced(run, wait) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @param {Given} given */
  const later = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...given), wait);
  };
  /** @param {Given} given */
  later.now = (...given) => {
    clearTimeout(timer);
    return run(...given);
  };
  return later;
}
