"""Writes into the pages of the API in build/docs/site/api which guides name them, as docs/site/pages.py has found."""

import html
import json
import pathlib


def main():
    mentions = json.loads(pathlib.Path("build/docs/mentions.json").read_text(encoding="utf-8"))
    for name, guides in mentions.items():
        path = pathlib.Path("build/docs/site/api") / name
        page = path.read_text(encoding="utf-8")
        links = ", ".join(f'<a href="../{place}">{html.escape(title)}</a>' for place, title in guides)
        begin = '<div class="contents">'
        if begin not in page:
            raise SystemExit(f"error: {path} has no {begin}")
        path.write_text(page.replace(begin, f"{begin}\n<p>Guides: {links}</p>", 1), encoding="utf-8")
    print(f"api: {len(mentions)} pages name their guides")


if __name__ == "__main__":
    main()
