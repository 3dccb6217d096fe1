"""An SVG file of boxes, arrows and words, readable on a light and on a dark page.

Colours are classes. The file has both sets of them, and takes the one of the page it is shown on. It brings its ground
along, so it is readable also where a page is dark and the reader's machine is not.
"""

from xml.sax.saxutils import escape

# Kind of a box: ground and edge, light and dark.
KINDS = {"chief": ("#ddf4ff", "#0969da", "#12233d", "#4493f8"), "worker": ("#dafbe1", "#1a7f37", "#12291c", "#3fb950"),
         "server": ("#f5ecff", "#8250df", "#251c3d", "#ab7df8"), "store": ("#fff8c5", "#9a6700", "#2e2613", "#d29922"),
         "plain": ("#f6f8fa", "#818b98", "#1c232c", "#7d8792"), "lost": ("#ffebe9", "#cf222e", "#3a1a1c", "#f85149")}
PAGE = {"ground": ("#ffffff", "#0f141b"), "frame": ("#d0d7de", "#30363d"), "words": ("#1f2328", "#e6edf3"),
        "quiet": ("#57606a", "#a3adb8"), "line": ("#57606a", "#9aa4af")}


def styles(dark):
    """The rules of one set of colours."""
    rules = [f".{kind}{{fill:{colours[2 * dark]};stroke:{colours[2 * dark + 1]}}}" for kind, colours in KINDS.items()]
    page = {name: colours[dark] for name, colours in PAGE.items()}
    rules += [f".ground{{fill:{page['ground']};stroke:{page['frame']}}}",
              f"text{{fill:{page['words']}}}", f".quiet{{fill:{page['quiet']};font-size:12.5px}}",
              f".line{{stroke:{page['line']};fill:none}}", f".head{{fill:{page['line']}}}"]
    return "".join(rules)


class Canvas:
    def __init__(self, width, height, title):
        self.width, self.height, self.title = width, height, title
        self.parts = []

    def box(self, x, y, width, height, words, kind="plain", dashed=False):
        """A box whose first line is bold; lines that begin with "·" are quiet."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" class="{kind}" '
                          f'stroke-width="1.5"{dash}/>')
        lines = words.split("\n")
        top = y + height / 2 - (len(lines) - 1) * 9 + 4.5
        for i, line in enumerate(lines):
            self.words(x + width / 2, top + i * 18, line.lstrip("·"), bold=i == 0, quiet=line.startswith("·"))

    def words(self, x, y, text, bold=False, quiet=False, anchor="middle"):
        weight = ' font-weight="600"' if bold else ""
        name = ' class="quiet"' if quiet else ""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{weight}{name}>{escape(text)}</text>')

    def arrow(self, *points, both=False, dashed=False):
        """A line through the points, (x, y), with a head at its end, and one at its begin if both."""
        path = "M" + " L".join(f"{x:g},{y:g}" for x, y in points)
        ends = ' marker-end="url(#head)"' + (' marker-start="url(#head)"' if both else "")
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<path d="{path}" class="line" stroke-width="1.6"{ends}{dash}/>')

    def line(self, *points, dashed=False):
        path = "M" + " L".join(f"{x:g},{y:g}" for x, y in points)
        dash = ' stroke-dasharray="3 4"' if dashed else ""
        self.parts.append(f'<path d="{path}" class="line" stroke-width="1.2"{dash}/>')

    def write(self, path):
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-size="14" '
                'font-family="system-ui, \'DejaVu Sans\', Helvetica, Arial, sans-serif">')
        style = f"<style>{styles(0)}@media (prefers-color-scheme: dark){{{styles(1)}}}</style>"
        marker = ('<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
                  'orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z" class="head"/></marker></defs>')
        ground = (f'<rect x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="9" class="ground"/>')
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join([head, f"<title>{escape(self.title)}</title>", style, marker, ground, *self.parts,
                                  "</svg>", ""]))
