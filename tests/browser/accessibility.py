"""What axe-core says of a page."""

from __future__ import annotations

from typing import Any

# The rules of WCAG 2.2 A and AA, and what is good practice besides.
RUN = """async () => {
  const { violations } = await axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
  });
  const words = ({ html, failureSummary }) => `${html} ${failureSummary}`;
  return violations.map(({ id, nodes }) => [id, nodes.map(words)]);
}"""


def violations(tab: Any, axe: str) -> list[Any]:
    """The rules that a page breaks, each with the elements that do."""
    tab.evaluate(axe)
    return tab.evaluate(RUN)
