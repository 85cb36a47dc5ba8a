// Answers calls of the playground's functions as the worker of the static page does: Pyodide, the
// packed package and the JavaScript engine for ids. Calls come as JSON on stdin, answers go out so.
//
//   node answers_in_pyodide.mjs BUILT_PLAYGROUND

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";

// Read first: Pyodide sets stdin so that reading does not wait.
const calls = JSON.parse(readFileSync(0, "utf8"));
const folder = `${process.argv[2]}/python`;
const imported = (path) => import(pathToFileURL(path).href);
const { loadPyodide } = await imported(`${folder}/pyodide/pyodide.mjs`);
const { Tokenizer } = await imported(`${folder}/tokenizers.mjs`);

const python = await loadPyodide({ indexURL: `${folder}/pyodide/` });
const packed = new Uint8Array(readFileSync(`${folder}/dsv4.zip`));
python.unpackArchive(packed, "zip", { extractDir: "/home/pyodide" });
const { BrowserPlayground } = python.pyimport("dsv4._playground.page_functions");
const playground = BrowserPlayground();
const vocabulary = gunzipSync(readFileSync(`${folder}/vocabulary.json.gz`)).toString();
const tokenizer = new Tokenizer({ ...JSON.parse(vocabulary), added_tokens: [] }, {});
const encode = (text) => python.toPy(tokenizer.encode(text, { add_special_tokens: false }).ids);
playground.use_tokenizer(vocabulary, encode);

const answers = calls.map(({ name, body }) => {
  const [status, text] = playground.answer(name, JSON.stringify(body)).toJs();
  return { status, answer: JSON.parse(text) };
});
process.stdout.write(JSON.stringify(answers));
