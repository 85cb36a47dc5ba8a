// The requests that the inspector lists: how a row names its client, and which rows are wanted.

/** @typedef {import("./types.js").RequestSummary} RequestSummary */

/**
 * The rows to show: those with a text in them, of a protocol, with repairs.
 * @typedef {{ text: string, protocol: string, hasRepairs: boolean }} RequestFilter
 */

/** @type {Record<string, string>} */
export const PROTOCOL_NAMES = {
  chat: "Chat Completions",
  responses: "Responses",
  messages: "Messages",
};

/** @type {RequestFilter} */
export const EVERYTHING = { text: "", protocol: "", hasRepairs: false };

/**
 * The client in a few words: its user agent without remarks. Those of browsers say nothing.
 * @param {Pick<RequestSummary, "client">} summary
 */
export function clientName({ client }) {
  if (client.startsWith("Mozilla/")) return "Browser";
  return client.replace(/\s*\(.*/s, "") || "unnamed client";
}

/**
 * Whether a request is among those that are wanted.
 * @param {RequestSummary} summary
 * @param {RequestFilter} filter
 */
export function isWanted(summary, { text, protocol, hasRepairs }) {
  if (protocol && summary.protocol !== protocol) return false;
  if (hasRepairs && !summary.repairs) return false;
  const { number, client, said, tail, problem, model, owner } = summary;
  const shown = [number, client, clientName(summary), said, tail, problem, model, owner];
  return shown.join("\n").toLowerCase().includes(text.trim().toLowerCase());
}
