// One request to the server, JSON in and JSON out: in the page, and in the worker that sends what is
// long.

/** @typedef {{ url: string, headers: Record<string, string>, body: object }} Asked */

/**
 * The status and the JSON of an answer, null where it is none: a proxy may have sent it.
 * @param {Response} response
 */
export const answered = async (response) => ({
  status: response.status,
  answer: await response.json().catch(() => null),
});

/**
 * Sends a request, and returns the server's answer.
 * @param {Asked} asked
 * @param {AbortSignal} [signal]
 */
export async function exchange({ url, headers, body }, signal) {
  // A blob stays out of the browser's own process, which draws the page.
  const sent = new Blob([JSON.stringify(body)]);
  return answered(await fetch(url, { method: "POST", headers, body: sent, signal }));
}
