// What the theme builds in the browser, made known to everybody: the landmarks around its copy buttons
// have names of their own, and wide tables can be scrolled from the keyboard.

let blocks = 0;

const mend = () => {
  for (const nav of document.querySelectorAll(".md-code__nav:not([aria-label])"))
    nav.setAttribute("aria-label", `Code ${++blocks}`);
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])"))
    table.tabIndex = 0;
};

new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
mend();
