// The types of the bundle. scripts/bundle_codemirror.py has the list of what is in it.
export * from "@codemirror/state";
export * from "@codemirror/view";
export * from "@codemirror/language";
export * from "@codemirror/commands";
export * from "@codemirror/search";
export * from "@codemirror/lang-json";
export * from "@lezer/highlight";
