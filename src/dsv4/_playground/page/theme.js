// Light or dark: as the system has it, or as the user chose here. The style sheets define the dark
// colours in media queries; a choice makes these apply always, or never.

const NAME = "dsv4-theme";
const DARK = "(prefers-color-scheme: dark)";
const NEXT = { system: "light", light: "dark", dark: "system" };
const WORDS = { system: "Theme: system", light: "Theme: light", dark: "Theme: dark" };

/** @typedef {keyof typeof NEXT} Theme */

/** @returns {Theme} */
export function savedTheme() {
  try {
    const saved = localStorage.getItem(NAME);
    return saved === "light" || saved === "dark" ? saved : "system";
  } catch {
    return "system"; // storage may be forbidden
  }
}

/** @param {Theme} theme */
export function useTheme(theme) {
  try {
    localStorage.setItem(NAME, theme);
  } catch {
    // It holds for this visit.
  }
  document.documentElement.style.colorScheme = theme === "system" ? "" : theme;
  for (const rule of darkRules())
    rule.media.mediaText = { system: DARK, light: "not all", dark: "all" }[theme];
}

/** @type {CSSMediaRule[] | null} */
let known = null;

function darkRules() {
  known ??= [...document.styleSheets]
    .flatMap((sheet) => [...sheet.cssRules])
    .filter((rule) => rule instanceof CSSMediaRule && rule.media.mediaText === DARK)
    .map((rule) => /** @type {CSSMediaRule} */ (rule));
  return known;
}

/**
 * Shows a theme on the button that changes it.
 * @param {HTMLButtonElement} control
 * @param {Theme} theme
 */
export function labelled(control, theme) {
  control.textContent = WORDS[theme];
  return control;
}

/** @param {Theme} theme */
export const themeAfter = (theme) => /** @type {Theme} */ (NEXT[theme]);
