// Asking the server: JSON in, JSON out. The newest question of a kind wins.

/** What the server says is wrong: `problem` has message, path, location, start, end, line, column. */
export class CallError extends Error {
  constructor(status, problem) {
    super(problem.message);
    this.status = status;
    this.problem = problem;
  }
}

// In memory alone: a key is in no link and no storage.
let key = "";
export const useKey = (value) => void (key = value);

/** Headers that show the key, where there is one. */
export const credentials = () => (key ? { authorization: `Bearer ${key}` } : {});

/** One question. Rejects with a `CallError`, or with an `AbortError` once `signal` ends it. */
export const post = (name, body, signal) => postTo(`api/${name}`, body, signal);

/** The same, of another route of the playground's. */
export async function postTo(path, body, signal) {
  const headers = { "content-type": "application/json", ...credentials() };
  const sent = { method: "POST", headers, body: JSON.stringify(body), signal };
  const response = await fetch(path, sent).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new CallError(0, { message: "The server does not answer. Is it still running?" });
  });
  const answer = await response.json().catch(() => null);
  if (response.ok && answer !== null) return answer;
  const message = `The server answered with status ${response.status}.`;
  throw new CallError(response.status, answer?.error ?? { message });
}

/**
 * A function that asks, and of which only the newest call counts: an older one that is still on its
 * way is ended, and gives `undefined`.
 */
export function latest(ask = post) {
  const running = new Map();
  return async (name, body) => {
    running.get(name)?.abort();
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
}

/** A function that runs once, when it has not been called again for some milliseconds. */
export function debounced(run, wait) {
  let timer;
  const later = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...given), wait);
  };
  later.now = (...given) => {
    clearTimeout(timer);
    return run(...given);
  };
  return later;
}
