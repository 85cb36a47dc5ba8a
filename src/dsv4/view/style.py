"""How a view looks in a browser: light and dark, and inside of `.dsv4` alone."""

PAGE_STYLE = """
html { color-scheme: light dark; }
body { margin: 2em auto; max-width: 76em; padding: 0 1em; }
"""
STYLE = """
.dsv4 {
  --back: #fff; --text: #1f2328; --faint: #8b949e; --rule: #d8dee4;
  --system: #8250df; --user: #116329; --tool: #7d4e00; --assistant: #0550ae; --reasoning: #57606a;
  --calls: #953800; --frame: #6e7781;
  background: var(--back); color: var(--text);
  font: 14px/1.6 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  h1 { font-size: 1.1em; margin: 0; } p { margin: .2em 0 1em; color: var(--faint); }
  .row { display: grid; grid-template-columns: 13em 8em 4.5em 1fr; column-gap: 1em; }
  .opens { border-top: 1px solid var(--rule); padding-top: .35em; margin-top: .35em; }
  .role { font-weight: bold; } .field, .count { color: var(--faint); } .count { text-align: right; }
  .text { white-space: pre-wrap; overflow-wrap: anywhere; min-width: 0; }
  .system { color: var(--system); } .user, .developer { color: var(--user); }
  .tool { color: var(--tool); } .assistant, .latest_reminder { color: var(--assistant); }
  .reasoning { color: var(--reasoning); font-style: italic; } .calls { color: var(--calls); }
  .template, .space, summary { color: var(--faint); } .text .space { opacity: .7; }
  .flag { background: #d1242f; color: #fff; font-weight: bold; padding: 0 .15em; }
  .pill { border-radius: .7em; padding: .05em .55em; color: #fff; font-size: .92em; }
  .pill-turn { background: #0969da; } .pill-think { background: #8250df; }
  .pill-frame { background: var(--frame); } .pill-task { background: #bf8700; }
  .ending { font-weight: bold; color: #2da44e; } .silent { color: #d1242f; }
  summary { cursor: pointer; }
}
@media (prefers-color-scheme: dark) {
  .dsv4 { --back: #0d1117; --text: #e6edf3; --faint: #6e7681;
    --rule: #30363d; --system: #d2a8ff; --user: #7ee787; --tool: #e3b341; --assistant: #79c0ff;
    --reasoning: #a5b4c8; --calls: #ffa657; --frame: #484f58; }
}
"""
