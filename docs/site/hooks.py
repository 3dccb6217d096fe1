"""What mkdocs does for the site beside its own work: headings have GitHub's names, and the search reads its index as a
script, which works where a page comes from disk.
"""

import json
import os
import pathlib
import re


def heading_name(text, separator):
    """GitHub's name of a heading, as tests/docs/docs_test.cc has it: "## How it runs" -> "how-it-runs"."""
    kept = [letter for letter in text if letter in "-_ " or (letter.isascii() and letter.isalnum())]
    return "".join(kept).lower().replace(" ", separator)


def on_config(config):
    config["mdx_configs"].setdefault("toc", {})["slugify"] = heading_name
    config["nav"] = entries_there(config["nav"], pathlib.Path(config["docs_dir"]))
    return config


def entries_there(entries, folder):
    """The navigation without pages that are not there; docs_test names these."""
    kept = []
    for entry in entries:
        value = entry if isinstance(entry, str) else next(iter(entry.values()))
        if isinstance(value, list):
            kept.append({next(iter(entry)): entries_there(value, folder)})
        elif not value.endswith(".md") or (folder / value).exists():
            kept.append(entry)
    return kept


def api_entries():
    """A page of the search's index for each class of the API."""
    tags = pathlib.Path("build/docs/tags")
    if not tags.exists():
        return
    for compound in re.finditer(r'<compound kind="(?:class|struct)">(.*?)</compound>', tags.read_text("utf-8"), re.S):
        words = {tag: re.search(f"<{tag}>([^<]+)</{tag}>", compound[1]) for tag in ("name", "filename")}
        members = sorted(set(re.findall(r"<member .*?<name>(\w+)</name>", compound[1], re.S)))
        page = words["filename"][1].removesuffix(".html")
        yield {"location": f"api/{page}.html", "title": words["name"][1], "text": " ".join(members)}


def on_post_build(config):
    folder = pathlib.Path(config["site_dir"]) / "search"
    index = json.loads((folder / "search_index.json").read_text(encoding="utf-8"))
    index["docs"] = [page for page in index["docs"] if not page["location"].startswith("source/")]
    index["docs"] += sorted(api_entries(), key=lambda page: page["location"])
    (folder / "search_index.js").write_text(f"__search.found({json.dumps(index)});\n", encoding="utf-8")
    os.remove(folder / "search_index.json")
