// The types of what the server sends and of what modules pass to each other. No code: the other
// modules name these in their comments, and the type checker reads them.

/**
 * A range of a text, in UTF-16 units: its start, and the offset after its end.
 * @typedef {[number, number]} Place
 */

/**
 * The state of the parser: its name, and what it means in words.
 * @typedef {{ name: string, words: string }} ParserState
 */

/**
 * A row of a trace: an event, or consecutive deltas of one kind. Which fields there are depends on
 * `type`, the name of the event.
 * @typedef {{
 *   type: string, step: number, text: string, runs: [number, number, number][], index: number,
 *   id: string, name: string, namespace: string | null, kind: string, start: number, end: number,
 *   sentence: string, reason: string, closing: string, string: string, finish: string,
 * }} TraceRow
 */

/**
 * A frame of a protocol.
 * @typedef {Record<string, any>} Frame
 */

/**
 * The frames of a protocol for each row, and before and after all rows.
 * @typedef {{
 *   start: Frame[],
 *   rows: [Frame[], { frame: Frame, path: (string | number)[] } | null][],
 *   finish: Frame[],
 *   whole: boolean,
 * }} TraceFrames
 */

/**
 * The message at the end of a trace, as Chat Completions has it.
 * @typedef {{
 *   finish: string,
 *   tool_calls?: { id: string, function: { name: string, arguments: string } }[],
 * }} TracedMessage
 */

/**
 * The result of the strict grammar for the whole text.
 * @typedef {{ accepts: boolean, position?: number, problem?: string, message?: object | null }} StrictResult
 */

/**
 * The answer of api/trace. `completion_trace.py` describes its fields.
 * @typedef {{
 *   length: number, steps: number, cuts: number[] | null,
 *   knots: [number, number, number, number, boolean][],
 *   holds: [number | null, string][],
 *   rows: TraceRow[], frames: Record<string, TraceFrames>,
 *   message: TracedMessage, events: number, like_answer: boolean, strict: StrictResult,
 * }} TraceAnswer
 */

/**
 * A part of a row: text, classes, the number of its source, whether it differs, its token.
 * @typedef {[string, string, number, number, number]} Segment
 */

/**
 * An image of a prompt; numbers are null where its size is not known.
 * @typedef {{
 *   name: string, width: number | null, height: number | null, columns: number | null,
 *   rows: number | null, tokens: number | null, caption: string, thumbnail: string,
 * }} PromptImage
 */

/**
 * The cost of a picture in a size, which is given in percent of its own.
 * @typedef {{
 *   scale: number, width: number, height: number, columns: number, rows: number, tokens: number,
 * }} PictureSize
 */

/**
 * A row of a prompt.
 * @typedef {{
 *   message: number | null, role: string, field: string, tokens: number | null,
 *   note: string | null, ghost: boolean, head: Segment[], rest: Segment[], fold: string | null,
 *   images: PromptImage[], ids?: number[][],
 * }} PromptRow
 */

/**
 * A problem with a request, and its place.
 * @typedef {{
 *   message: string, path?: string, location?: (string | number)[],
 *   start?: number | null, end?: number | null, line?: number | null, column?: number | null,
 * }} Problem
 */

/**
 * A prompt of the answer of api/prompt.
 * @typedef {{
 *   title: string, dialect: string, total: string, tokens: number | null, characters: number,
 *   no_tokens: string | null, ending: { words: string, generates: boolean }, rows: PromptRow[],
 *   places: (Place | null)[][], shares: { kind: string, amount: number }[], spelled: number,
 *   unread: string[], problem?: undefined,
 * }} PromptSide
 */

/**
 * The answer of api/prompt: one prompt or two, each of which may be a problem.
 * @typedef {{
 *   protocol: string, sides: (PromptSide | { problem: Problem })[], tools: string[],
 *   same: boolean | null, reasons: { kind: string, message: string, place: Place | null }[],
 * }} PromptAnswer
 */

/**
 * A request in the inspector's list. Times are in seconds.
 * @typedef {{
 *   number: number, owner: string, session: string | null, client: string, said: string,
 *   protocol: string, model: string, status: string, problem: string, time: number,
 *   queued: number | null, first: number | null, total: number | null,
 *   prompt_tokens: number | null, shared_tokens: number | null,
 *   usage: { completion?: number, reasoning?: number }, repairs: number, tail: string,
 * }} RequestSummary
 */

/**
 * A repair in a completion that the inspector shows.
 * @typedef {{ kind: string, start: number, end: number, sentence: string }} InspectedRepair
 */

/**
 * A completion that the inspector shows; `finish` is null while it runs.
 * @typedef {{ text: string, finish: string | null, repairs: InspectedRepair[] }} InspectedCompletion
 */

/**
 * The answer of inspector/request: all that is known of a request. It has no options before it has
 * a prompt, and no text of what is too large to be kept.
 * @typedef {RequestSummary & {
 *   request: string | null, prompt: string | null,
 *   options: { dialect?: string, thinking?: boolean, tools?: string },
 *   completions: InspectedCompletion[],
 * }} RequestDetails
 */

/**
 * The answer of inspector/changes: what has changed since a version, and which requests there are.
 * @typedef {{
 *   name: string, version: number, changed: RequestSummary[], numbers: number[],
 * }} InspectorChanges
 */

/**
 * A remark on a session, or on one of its calls.
 * @typedef {{ call: string | null, kind: string, message: string }} SessionNote
 */

/**
 * The answer of inspector/session. The runs of a turn are shades, each with its text.
 * @typedef {{
 *   id: string, summary: string, notes: SessionNote[],
 *   turns: {
 *     trajectory: number, call: string, facts: string, notes: SessionNote[],
 *     runs: [string, string][],
 *   }[],
 * }} SessionAnswer
 */

/**
 * The answer of api/why: a verdict. `pasted_text.py` describes its fields.
 * @typedef {{
 *   kind: string, status: number, lines: [string, string][], marked: string, turns: number,
 *   source: string | null,
 *   answer: {
 *     text: string, thinking: boolean, dialect: string | null,
 *     message: { reasoning: string, content: string, calls: { name: string, text: string }[] },
 *   } | null,
 * }} WhyAnswer
 */

/**
 * The answer of api/turns. `turn_list.py` describes its fields.
 * @typedef {{
 *   unit: string, no_tokens: string | null, total: number,
 *   turns: {
 *     turn: number, size: number, held: number, reused: number, words: string, repairs: string[],
 *     problem: string,
 *   }[],
 * }} TurnList
 */

/** @typedef {"chat" | "responses" | "messages"} ProtocolName */

/**
 * A call in a message of the Live view.
 * @typedef {{
 *   id: string, type?: string, function: { name: string, arguments: string },
 * }} ChatCall
 */

/**
 * A message of the Live view, as Chat Completions has it.
 * @typedef {{
 *   role: "system" | "user" | "assistant" | "tool", content?: string | null,
 *   reasoning_content?: string | null, tool_calls?: ChatCall[], tool_call_id?: unknown,
 * }} ChatMessage
 */

/**
 * The answer of api/live: what is to be sent, and where.
 * @typedef {{ path: string, body: object }} LiveRequest
 */

/**
 * A completion that the Stream view offers.
 * @typedef {{
 *   name: string, words: string, rule: number, text: string, thinking: boolean,
 * }} CompletionExample
 */

/**
 * The answer of api/stream: what the Stream view needs once.
 * @typedef {{
 *   states: ParserState[], moves: [string, string][], examples: CompletionExample[],
 *   tools: object[],
 * }} StreamSetup
 */

/**
 * The answer of api/settings: what the page can offer.
 * @typedef {{
 *   version: string, tokens: boolean, dialect: string,
 *   serves: boolean, inspects: boolean, model: string,
 *   dialects: { name: string, efforts: string[] }[], profiles: { name: string, server: string }[],
 *   examples: { title: string, source: string }[],
 * }} PageSettings
 */

/**
 * A turn of the answer of api/cache: a prompt, and what of it is in the cache.
 * @typedef {{
 *   size: number, reused: number, held: number, before: number, messages: number, words: string,
 *   place: Place | null,
 * }} CacheTurn
 */

/**
 * A client of the answer of api/cache: what a conversation costs with it.
 * @typedef {{
 *   name: string, title: string, computed: number, prompted: number, lost: number,
 * }} CacheVariant
 */

/**
 * The answer of api/cache.
 * @typedef {{
 *   unit: string, variant: string, variants: CacheVariant[], turns: CacheTurn[],
 *   no_tokens: string | null, left_out: number,
 * }} CacheAnswer
 */

/**
 * The way in which the user points at a part: "own" is in the pane itself.
 * @typedef {"hover" | "focus" | "click" | "own"} Pointing
 */

/** @typedef {import("./state.js").Slice} Slice */

/**
 * The context that a view gets. `main.js` describes it.
 * @typedef {{
 *   state: Slice, request: Slice, slice: (name: string) => Slice, settings: PageSettings,
 *   call: (name: string, body: object) => Promise<any>, cancel: (name: string) => void,
 *   copy: (describe: () => object) => HTMLElement,
 *   say: (words: string) => void, tell: (words: string, stays?: boolean) => void, go: (name: string) => void,
 *   onShown: (run: () => void) => void,
 * }} PageContext
 */

export {};
