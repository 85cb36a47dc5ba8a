// A request, and the prompt that it becomes.

import { Editor } from "../editor.js";

export function mount(root, context) {
  const editor = new Editor({
    label: "Request, as JSON",
    oninput: (source) => context.request.set({ source }),
    oncaret: () => {},
  });
  root.append(editor.root);
  editor.text = context.request.get().source ?? "[]";
}
