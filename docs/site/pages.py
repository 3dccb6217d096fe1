"""Gathers the pages of the site in build/docs/pages: python3 docs/site/pages.py, in the root of the repository.

A page is a copy of a document in which links lead to the places of the site: to another page, a picture, the API page
of a public header, or a page that shows a source file. Names of the API in `code` become links to the pages of
docs/api/build.sh. docs_test checks that every page is in the navigation and every link's target is there.
"""

import collections
import json
import pathlib
import posixpath
import re
import shutil

OUT, TAGS = pathlib.Path("build/docs/pages"), pathlib.Path("build/docs/tags")
MENTIONS = pathlib.Path("build/docs/mentions.json")  # for docs/site/api_guides.py
# Pages that name much and explain little.
OVERVIEWS = {"docs/choosing.md", "docs/faq.md", "docs/gallery.md", "docs/glossary.md"}
# Pages of the repository's root: file, page.
ROOT_PAGES = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md",
              "RELEASING.md": "releasing.md", "SECURITY.md": "security_policy.md", "CHANGELOG.md": "changelog.md"}
LANGUAGES = {".cc": "cpp", ".h": "cpp", ".py": "python", ".sh": "sh", ".json": "json", ".yaml": "yaml",
             ".cmake": "cmake"}
FENCE = re.compile(r"^(?P<marker>`{3,})[^\n]*\n.*?^(?P=marker)`*[ \t]*$", re.M | re.S)
CODE = re.compile(r"(?<!`)(?P<marker>`+)(?!`)(?:.(?!\n\n))+?(?<!`)(?P=marker)(?!`)", re.S)
LINK = re.compile(r"\[[^\[\]]*\]\((?P<target>[^()\s]+(?:\([^()\s]*\))?)\)")
HELD = re.compile(r"\x00(\d+)\x00")


class Page:
    """A Markdown file whose blocks and spans of code are set aside, as \\0NUMBER\\0."""

    def __init__(self, path):
        self.path, self.held = path, []
        text = pathlib.Path(path).read_text(encoding="utf-8")
        text = FENCE.sub(self._hold, text)
        self.text = CODE.sub(self._hold, text)

    def _hold(self, found):
        self.held.append(found[0])
        return f"\x00{len(self.held) - 1}\x00"

    def whole(self, text):
        while HELD.search(text):
            text = HELD.sub(lambda found: self.held[int(found[1])], text)
        return text

    def links(self):
        """The targets in the repository: (text as written, path, "#heading" or "")."""
        targets = [found["target"] for found in LINK.finditer(self.text)]
        targets += [found[2] for found in re.finditer(r'\b(src|srcset|href)="([^"]+)"', self.text)]
        for target in targets:
            if not re.match(r"[a-z]+:", target):
                file, hash_sign, heading = target.partition("#")
                path = posixpath.normpath(posixpath.join(posixpath.dirname(self.path), file)) if file else self.path
                yield target, path, hash_sign + heading


def page_files():
    """The repository's files that are pages of the site: {file: page}."""
    files = {name: page for name, page in ROOT_PAGES.items() if pathlib.Path(name).exists()}
    files.update({str(path): path.name for path in sorted(pathlib.Path("docs").glob("*.md"))})
    return files


def api_names():
    """The places of the API's names: {"Estimator::train": "api/….html#…"}, without names of several places."""
    places = {}
    if not TAGS.exists():
        return places
    text = TAGS.read_text(encoding="utf-8")
    for compound in re.finditer(r'<compound kind="(class|struct|namespace)">(.*?)</compound>', text, re.S):
        body = compound[2]
        name = re.search(r"<name>([^<]+)</name>", body)[1]
        page = re.search(r"<filename>([^<]+)</filename>", body)[1]
        page += "" if page.endswith(".html") else ".html"
        short = name.removeprefix("muster::")
        if compound[1] != "namespace":
            places.setdefault(short, set()).add(f"api/{page}")
        for member in re.finditer(r"<member .*?</member>", body, re.S):
            words = [re.search(f"<{tag}>([^<]+)</{tag}>", member[0])[1] for tag in ("name", "anchorfile", "anchor")]
            if short != "muster":
                words[0] = f"{short}::{words[0]}"
            places.setdefault(words[0], set()).add(f"api/{words[1]}#{words[2]}")
    # Functions of one name are on one page: the first one is meant.
    return {name: sorted(found)[0] for name, found in places.items()
            if len({place.partition("#")[0] for place in found}) == 1}


def public_headers():
    """{header: its page of the API}."""
    found = {}
    if TAGS.exists():
        text = TAGS.read_text(encoding="utf-8")
        for file in re.finditer(r'<compound kind="file">(.*?)</compound>', text, re.S):
            words = {tag: re.search(f"<{tag}>([^<]+)</{tag}>", file[1])[1] for tag in ("name", "path", "filename")}
            found[words["path"] + words["name"]] = f"api/{words['filename'].removesuffix('.html')}.html"
    return found


class Site:
    def __init__(self, files):
        self.files, self.names, self.headers = files, api_names(), public_headers()
        self.sources = set()
        self.mentions = collections.defaultdict(collections.Counter)  # page of the API: how often a document names it

    def place_of(self, path, heading):
        """Where the site has a file of the repository, seen from its top."""
        if path in self.files:
            return self.files[path] + heading
        if path in self.headers:
            return self.headers[path]
        if path.startswith("docs/images/"):
            return path.removeprefix("docs/")
        self.sources.add(path)
        return f"source/{path}.md".replace("/.", "/dot.")

    def linked(self, page):
        """The page's text with the links of the site."""
        text = page.text
        places = {target: self.place_of(path, heading) for target, path, heading in page.links()}
        text = LINK.sub(lambda f: f[0].replace(f"({f['target']})", f"({places.get(f['target'], f['target'])})"), text)
        return re.sub(r'\b(src|srcset|href)="([^"]+)"', lambda f: f'{f[1]}="{html_of(places.get(f[2], f[2]))}"', text)

    def with_api_links(self, page, text):
        """`Estimator::train` leads to its API page, the first time under each heading."""
        inside = [found.span() for found in LINK.finditer(text)]
        seen, out, at = set(), [], 0
        for found in re.finditer(r"^#.*$|\x00(\d+)\x00", text, re.M):
            if found[0].startswith("#"):
                seen.clear()
                continue
            code = page.held[int(found[1])]
            name = re.fullmatch(r"`(?:::)?(?:muster::)?((?:\w+::)*\w+)(?:\([^()]*\))?`", code)
            place = name and self.names.get(name[1])
            bare = name and "::" not in name[1] and not name[1][0].isupper()
            line = text[text.rfind("\n", 0, found.start()) + 1:found.start()]
            if not place or bare:
                continue
            self.mentions[place.removeprefix("api/").partition("#")[0]][page.path] += 1
            if name[1] in seen or line.startswith("#"):
                continue
            if any(begin <= found.start() < end for begin, end in inside):
                continue
            seen.add(name[1])
            out += [text[at:found.start()], f"[{found[0]}]({place})"]
            at = found.end()
        return "".join(out) + text[at:]

    def page(self, page):
        text = self.with_api_links(page, self.linked(page))
        text = lists_apart(text)
        text = page.whole(text)
        # What a block quotes is its title.
        return re.sub(r"<!-- quoted: (\S+) -->\n```cpp\n", r'```cpp title="\1"\n', text)

    def source_page(self, path):
        """A page that shows a file, or names what is in a folder."""
        file = pathlib.Path(path)
        if file.is_dir():
            names = sorted(child.name + ("/" if child.is_dir() else "") for child in file.iterdir())
            return f"# {path}\n\n" + "\n".join(f"- `{name}`" for name in names) + "\n"
        text = file.read_text(encoding="utf-8", errors="replace")
        return f"# {path}\n\n````{LANGUAGES.get(file.suffix, 'text')}\n{text.rstrip()}\n````\n"


    def write_mentions(self):
        """The guides that name a page of the API most often, four of them at most: {page: [[guide, title], ...]}."""
        found = {}
        for page, counts in self.mentions.items():
            guides = [name for name, _ in counts.most_common() if name.startswith("docs/") and name not in OVERVIEWS]
            found[page] = [[html_of(self.files[name]), title_of(name)] for name in guides[:4]]
        named = {page: guides for page, guides in sorted(found.items()) if guides}
        MENTIONS.write_text(json.dumps(named), encoding="utf-8")


def title_of(file):
    with open(file, encoding="utf-8") as lines:
        return next(lines).lstrip("# ").strip()


def html_of(place):
    return re.sub(r"\.md(#|$)", r".html\1", place)


def lists_apart(text):
    """Python-Markdown begins a list after an empty line alone, and wants lists in lists four blanks deeper."""
    lines, in_list = [], False
    for line in text.split("\n"):
        item = re.match(r"( *)(?:[-*]|\d+\.) ", line)
        if item and not item[1]:
            if not in_list and lines and lines[-1].strip():
                lines.append("")
            in_list = True
        elif line and not line.startswith(" ") and lines and not lines[-1].strip():
            in_list = False
        if item and 0 < len(item[1]) < 4 and in_list:
            line = "    " + line.lstrip()
        lines.append(line)
    return "\n".join(lines)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main():
    files = page_files()
    pages = [Page(file) for file in files]
    shutil.rmtree(OUT, ignore_errors=True)
    site = Site(files)
    for page in pages:
        write(OUT / files[page.path], site.page(page))
    site.write_mentions()
    for path in sorted(site.sources):
        if pathlib.Path(path).exists():
            write(OUT / f"source/{path}.md".replace("/.", "/dot."), site.source_page(path))
    for folder, place in (("docs/images", "images"), ("docs/site/assets", "assets")):
        if pathlib.Path(folder).is_dir():
            shutil.copytree(folder, OUT / place)
    print(f"pages: {len(pages)}, and {len(site.sources)} of sources, in {OUT}")


if __name__ == "__main__":
    main()
