// A worker that sends requests with a long text: writing megabytes as JSON and passing them on
// would delay typing.
//
// From the page: { id, url, headers, body }; { cancel: id } if the answer is not needed any more.
// To the page: { id, status, answer }; { id } where the server did not answer.

import { exchange } from "./exchange.js";

/** @type {Map<number, AbortController>} */
const running = new Map();

self.onmessage = async ({ data }) => {
  if ("cancel" in data) return running.get(data.cancel)?.abort();
  const control = new AbortController();
  running.set(data.id, control);
  const answered = await exchange(data, control.signal).catch(() => ({}));
  running.delete(data.id);
  self.postMessage({ id: data.id, ...answered });
};
