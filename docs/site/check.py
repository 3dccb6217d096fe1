"""Looks at the site in a browser, from disk and without a network.

    /usr/bin/python3 docs/site/check.py [SITE] [SCREENSHOTS]

Every link of every page must lead to a file and a heading. In Chromium the pages must request only files, the search
must find known pages, no page may be wider than a phone, and the text must have contrast in both colour schemes.
Screenshots go to build/docs/screenshots. Ends with 1 if a check fails.
"""

import functools
import html.parser
import json
import pathlib
import shutil
import sys
import time
import urllib.parse

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

PHONE, DESK = (390, 844), (1360, 900)  # pixels
WAIT = 20  # seconds, for an answer of the search
# What a reader looks for: words typed, a page among the first five found.
SEARCHES = {"TF_CONFIG": "estimators.html", "parameter server": "parameter_servers.html",
            "checkpoint": "checkpoints.html", "muster::Estimator": "api/classmuster_1_1Estimator.html"}
SHOTS = ["index.html", "choosing.html", "gallery.html", "strategies.html", "data.html", "performance.html",
         "source/examples/tour/line.cc.html", "api/index.html", "api/classmuster_1_1Estimator.html"]
CONTRAST = """
    const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = (text) => {
      const part = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
      const [r, g, b] = numbers(text).map(part);
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (node) => {
      for (; node; node = node.parentElement) {
        const colour = getComputedStyle(node).backgroundColor;
        if ((numbers(colour)[3] ?? 1) === 1) return colour;
      }
      return 'rgb(255, 255, 255)';
    };
    const blended = (over, under) => {
      const [a, b] = [numbers(over), numbers(under)], alpha = a[3] ?? 1;
      return 'rgb(' + [0, 1, 2].map((i) => a[i] * alpha + b[i] * (1 - alpha)).join(',') + ')';
    };
    const nodes = [...document.querySelectorAll('p, li, td, h1, h2, p a, li a')];
    return nodes.filter((node) => node.closest('article, .contents')).slice(0, 400).map((node) => {
      const under = ground(node);
      const [a, b] = [light(blended(getComputedStyle(node).color, under)), light(under)];
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    }).reduce((least, one) => Math.min(least, one), 99);"""


class Checks:
    def __init__(self):
        self.failed = 0

    def that(self, truth, what):
        self.failed += not truth
        print(("ok      " if truth else "MISSING ") + what, flush=True)


class References(html.parser.HTMLParser):
    """What a page refers to, and the names of its places."""

    def __init__(self):
        super().__init__()
        self.targets, self.names = [], set()

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id" or (name == "name" and tag == "a"):
                self.names.add(value)
            elif name in ("href", "src") and value:
                self.targets.append(value)


@functools.lru_cache(maxsize=None)
def references_of(path):
    parser = References()
    parser.feed(path.read_text(encoding="utf-8", errors="replace"))
    return parser


def broken_links(site, pages):
    for page in pages:
        for target in references_of(page).targets:
            parts = urllib.parse.urlsplit(target)
            if parts.scheme or parts.netloc or target.startswith("javascript"):
                continue
            place = (page.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else page
            if not place.is_file():
                yield f"{page.relative_to(site)} -> {target}: no such file"
            # Doxygen writes some names by script.
            elif parts.fragment and place.suffix == ".html" and "api" not in place.relative_to(site).parts[:1]:
                heading = urllib.parse.unquote(parts.fragment)
                if heading not in references_of(place).names | {"__skip"}:
                    yield f"{page.relative_to(site)} -> {target}: no such heading"


class Browser:
    def __init__(self, site, shots):
        self.site, self.shots = site, shots
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for argument in ("headless=new", "no-sandbox", "hide-scrollbars", "disable-gpu", "disable-dev-shm-usage"):
            options.add_argument("--" + argument)
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.asked, self.scheme = set(), "light"

    def start_in(self, scheme):
        """As a reader whose machine is set so, and who has not been here before."""
        self.scheme = scheme
        self.open("index.html", DESK)
        self.driver.execute_script("localStorage.clear()")

    def open(self, page, size):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                    {"features": [{"name": "prefers-color-scheme", "value": self.scheme}]})
        self.driver.get((self.site / page).as_uri())
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.asked.add(message["params"]["request"]["url"])

    def picture(self, name):
        self.driver.save_screenshot(str(self.shots / f"{name}.png"))

    def found(self, words):
        """The pages of the first five answers."""
        field = self.driver.find_element(By.CSS_SELECTOR, "input.md-search__input")
        self.driver.execute_script("document.querySelector('label[for=__search]').click()")
        time.sleep(0.5)
        field.clear()
        field.send_keys(words)
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            time.sleep(0.3)
            links = self.driver.find_elements(By.CSS_SELECTOR, "a.md-search-result__link")
            if links:
                paths = [urllib.parse.urlsplit(link.get_attribute("href")).path for link in links]
                return list(dict.fromkeys(paths))[:5]
        return []


def main():
    site = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/docs/site").resolve()
    shots = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build/docs/screenshots").resolve()
    shutil.rmtree(shots, ignore_errors=True)
    shots.mkdir(parents=True)
    check = Checks()
    pages = sorted(site.rglob("*.html"))
    pages = [page for page in pages if page.name != "404.html"]  # the page of a server
    check.that(len(pages) > 100, f"{len(pages)} pages")
    broken = sorted(set(broken_links(site, pages)))
    check.that(not broken, "links: all lead somewhere" + "".join(f"\n        {line}" for line in broken))

    browser = Browser(site, shots)
    guides = sorted(page.name for page in site.glob("*.html") if page.name != "404.html")
    guides += ["api/index.html", "api/classmuster_1_1Estimator.html"]
    for scheme in ("light", "dark"):
        browser.start_in(scheme)
        wide, least = [], {}
        for page in guides:
            browser.open(page, PHONE)
            width = browser.driver.execute_script("return document.scrollingElement.scrollWidth")
            if width > PHONE[0]:
                wide.append(f"{page} ({width} pixels)")
            least[page] = browser.driver.execute_script(CONTRAST)
        check.that(not wide, f"{scheme}: no page is wider than a phone's {PHONE[0]} pixels {' '.join(wide)}")
        faint = [f"{page} ({ratio:.1f})" for page, ratio in least.items() if ratio < 4.5]
        check.that(not faint, f"{scheme}: text has a contrast of 4.5 and more {' '.join(faint)}")
        for page in SHOTS:
            for size, name in ((DESK, "desk"), (PHONE, "phone")):
                if (site / page).exists():
                    browser.open(page, size)
                    browser.picture(f"{page.removesuffix('.html').replace('/', '_')}_{scheme}_{name}")
    browser.start_in("light")
    browser.open("index.html", DESK)
    grounds = []
    for _ in range(2):
        grounds.append(browser.driver.execute_script("return getComputedStyle(document.body).backgroundColor"))
        browser.driver.find_element(By.CSS_SELECTOR, "form[data-md-component=palette] label:not([hidden])").click()
        time.sleep(0.5)
    check.that(len(set(grounds)) == 2, f"a button changes between light and dark: {' '.join(grounds)}")
    for words, page in SEARCHES.items():
        browser.open("tour.html", DESK)
        found = browser.found(words)
        check.that(any(path.endswith("/" + page) for path in found), f"search: \"{words}\" finds {page}")
        browser.picture("search_" + "".join(letter if letter.isalnum() else "_" for letter in words))
    outside = sorted(url for url in browser.asked if not url.startswith(("file:", "data:", "about:", "blob:")))
    check.that(not outside, f"{len(browser.asked)} requests, all to files {' '.join(outside)}")
    severe = [entry["message"] for entry in browser.driver.get_log("browser") if entry["level"] == "SEVERE"]
    lines = "".join(f"\n        {line}" for line in sorted(set(severe)))
    check.that(not severe, f"no errors in the browser's log{lines}")
    browser.driver.quit()
    print(f"screenshots: {shots}")
    sys.exit(1 if check.failed else 0)


if __name__ == "__main__":
    main()
