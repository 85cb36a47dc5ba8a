"""How a view looks in a browser: light and dark, wide and narrow, and inside of `.dsv4` alone.

Every text has a contrast of 4.5 or more to what is behind it (WCAG AA); tests/browser measures it.
"""

PAGE_STYLE = """
html { color-scheme: light dark; scroll-behavior: smooth; }
body { margin: 0 auto; max-width: 84em; padding: 1.5em 1em; }
@media (prefers-color-scheme: dark) { html { background: #0d1117; } }
"""
STYLE = """
.dsv4 {
  --back: #ffffff; --text: #1f2328; --faint: #59636e; --rule: #d1d9e0; --mark: #f0f3f6;
  --system: #6f42c1; --user: #116329; --tool: #7d4e00; --assistant: #0550ae;
  --reasoning: #4d5761; --calls: #953800; --note: #8a4600; --go: #116329; --stop: #b31d28;
  --learned: #dafbe1;
  background: var(--back); color: var(--text);
  font: 14px/1.6 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;

  header, nav, .total, .ending { user-select: none; }
  h1 { font-size: 1.15em; margin: 0; overflow-wrap: anywhere; }
  .total { margin: .2em 0 1em; color: var(--faint); }
  nav ol { display: flex; flex-wrap: wrap; gap: .1em 1em; margin: 0 0 1em; padding: 0;
    list-style: none; }
  nav a { text-decoration: none; } nav a:hover { text-decoration: underline; }

  .prompt { position: relative; margin: 0; padding-left: 41ch; font: inherit; color: inherit;
    background: none; border: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
  .row::before { content: "\\A"; } .row:first-child::before { content: ""; }
  .label { display: inline-block; width: 39ch; margin: 0 2ch 0 -41ch; font-style: normal;
    user-select: none; white-space: nowrap; color: var(--faint); }
  .label > * { display: inline-block; width: 15ch; text-align: right; }
  .label > b { width: 18ch; text-align: left; } .label > .count { width: 6ch; }
  .label i { font-style: normal; } .label b { color: var(--text); }
  .opens > .label::before { content: ""; position: absolute; left: 0; right: 0;
    border-top: 1px solid var(--rule); }
  .note { color: var(--note); user-select: none; }
  .note::before { content: "\\A\\2195  "; white-space: pre; }
  .ghost { user-select: none; } .ghost .note::before { content: "\\A\\2717  "; }
  .ghost > span { color: var(--faint); text-decoration: line-through; }

  .system { color: var(--system); } .user, .developer { color: var(--user); }
  .tool { color: var(--tool); } .assistant, .latest_reminder { color: var(--assistant); }
  .reasoning { color: var(--reasoning); font-style: italic; } .calls { color: var(--calls); }
  .template, .space, .newline { color: var(--faint); }
  .newline::before { content: "\\23CE"; }
  .spaces { background: radial-gradient(circle, var(--faint) 0 1px, transparent 1.5px)
    0 50% / 1ch 100% repeat-x; }
  .tab::before { content: "\\2409"; color: var(--faint); }
  .flag { background: #b31d28; color: #ffffff; font-weight: bold; padding: 0 .2em; }
  .pill { border-radius: .7em; padding: .05em .55em; margin: 0 .1em; color: #ffffff;
    white-space: nowrap; box-decoration-break: clone; -webkit-box-decoration-break: clone; }
  .pill-turn { background: #0a5bc4; } .pill-think { background: #6f42c1; }
  .pill-frame { background: #57606a; } .pill-task { background: #7d4e00; }

  input.fold { position: absolute; opacity: 0; pointer-events: none; }
  label.fold { cursor: pointer; user-select: none; color: var(--faint); background: var(--mark);
    border-radius: .3em; padding: 0 .5em; }
  label.fold::before { content: "\\25B8  "; }
  input.fold:checked + label.fold::before { content: "\\25BE  "; }
  input.fold:focus-visible + label.fold { outline: 2px solid var(--assistant); }
  input.fold:not(:checked) ~ .folded { display: none; }
  input.fold:checked + label.fold::after { content: "\\A"; white-space: pre; }

  .learned > span:not(.pill, .flag, .folded) { background-color: var(--learned); }
  .learned > .label i:first-of-type::after { content: " \\25CF"; color: var(--go); }
  .unlearned > span:not(.pill, .flag) { color: var(--faint); }
  .ending { margin: 1em 0 0; font-weight: bold; color: var(--go); }
  .silent { color: var(--stop); }
}
@media (prefers-color-scheme: dark) {
  .dsv4 {
    --back: #0d1117; --text: #e6edf3; --faint: #9198a1; --rule: #30363d; --mark: #1c2128;
    --system: #d2a8ff; --user: #7ee787; --tool: #e3b341; --assistant: #79c0ff;
    --reasoning: #b1bac4; --calls: #ffa657; --note: #e3b341; --go: #56d364; --stop: #ff7b72;
    --learned: #12361f;
  }
}
@media (max-width: 56em) {
  .dsv4 {
    .prompt { padding-left: 0; }
    .label, .label > * { display: inline; margin: 0; white-space: normal; }
    .opens > .label::before { display: none; }
    .label::after { content: "\\A"; white-space: pre; }
    .label b:not(:empty)::after, .label i:not(:last-child)::after { content: "  "; }
    .opens::before { content: "\\A\\A"; }
  }
}
"""
