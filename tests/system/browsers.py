"""A real browser, Debian's Chromium, that records what it complains about."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Page, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDTHS = (375, 768, 1280)
"""The last one stays, for what a test clicks next."""
_WIDTHS_OF_AXE = (375, 1280)
# PERF: axe takes half a second for a page. It looks at a page if no other had the same elements.
_KINDS = """[...new Set([...document.querySelectorAll("*")].map(
    (each) => `${each.tagName}.${each.getAttribute("class")}`))].sort().join()"""
# Words of more than 30 characters, such as digests, and paths may be broken. What scrolls, ends
# with an ellipsis, or is there for screen readers only, may be wider than its box.
_FAULTS = r"""() => {
    const found = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    const rects = () => [...range.getClientRects()].filter((each) => each.width);
    const isBroken = () => {
        const tops = rects().map((each) => each.top);
        return Math.max(...tops) - Math.min(...tops) > 4;
    };
    const isFree = (style) => /auto|scroll/.test(style.overflowX)
        || style.textOverflow === "ellipsis";
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
        range.selectNodeContents(node);
        const isSeen = node.parentElement.checkVisibility() && rects().length;
        if (!isSeen || node.parentElement.closest("svg, select")) continue;
        let box = node.parentElement;
        while (getComputedStyle(box).display === "inline") box = box.parentElement;
        const boxes = [];
        for (let each = box; each; each = each.parentElement) boxes.push(each);
        if (boxes.some((each) => getComputedStyle(each).clipPath !== "none")) continue;
        const out = range.getBoundingClientRect().right - box.getBoundingClientRect().right;
        const text = node.data.trim().slice(0, 60);
        if (out > 1 && !boxes.some((each) => isFree(getComputedStyle(each))))
            found.push(`out of its box by ${out}: ${text}`);
        if (!isBroken()) continue;
        for (const word of node.data.matchAll(/[\p{L}\p{N}_]{2,}/gu)) {
            if (word[0].length > 30 || /\/\S*\//.test(node.data)) continue;
            range.setStart(node, word.index);
            range.setEnd(node, word.index + word[0].length);
            if (isBroken()) found.push(`broken: ${word[0]} in ${text}`);
        }
    }
    return found;
}"""
_SCROLLING = """[...document.querySelectorAll(".scroll > table")]
    .filter((each) => each.checkVisibility()
        && each.getBoundingClientRect().width > each.parentElement.clientWidth + 1)
    .map((each) => `scrolls: ${each.innerText.slice(0, 60)}`)"""
_REFUSED = "Failed to load resource: the server responded with a status of 4"
_FOCUSED = "Autofocus processing was blocked because a document already has a focused element."
"""The script was faster than the browser."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser that is installed; skip where there is none."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    # Otherwise the browser itself keeps foreign sites from a service on this machine.
    arguments = ["--disable-features=LocalNetworkAccessChecks"]
    if os.geteuid() == 0:  # Its sandbox does not work for root.
        arguments.append("--no-sandbox")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """A page of the browser on one site, which fails for what a visitor must never see.

    Args:
        url: the address of the site, without a path.
        axe: the script that finds what is not accessible; None without JavaScript.
    """

    def __init__(self, page: Page, url: str, axe: str | None) -> None:
        self.page = page
        self._url = url
        self._axe = axe
        self._seen: set[str] = set()
        self.complaints: list[str] = []
        page.on("console", lambda message: self._complain(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self._require_own(request.url))

    def open(self, path: str, status: int = 200) -> None:
        """Open a page by its path, and check it."""
        answer = self.page.goto(f"{self._url}{path}")
        assert answer is not None
        assert answer.status == status, path
        # The length of a compressed page could tell what is on it.
        assert "content-encoding" not in answer.headers
        self.check()

    def click(self, name: str, role: Any = "link") -> None:
        """Click a link or button by its name, and check the page that it leads to."""
        found = self.page.get_by_role(role, name=name, exact=True)
        with self.page.expect_navigation():
            found.first.click()
        self.check()

    def check(self) -> None:
        """Require that the page is accessible and fits, and that nothing was complained of."""
        if self._axe is not None:  # Without JavaScript nothing can be measured.
            kinds = self._evaluated(_KINDS)
            is_new = kinds not in self._seen
            self._seen.add(kinds)
            for width in WIDTHS:
                self.page.set_viewport_size({"width": width, "height": 800})
                assert self._evaluated("document.documentElement.scrollWidth") <= width
                self.require_whole(width)
                if is_new and width in _WIDTHS_OF_AXE:
                    self._require_accessible(width)
        assert self.complaints == [], self.page.url

    def require_whole(self, width: int) -> None:
        """Require that no word is broken inside, and that no box is narrower than its content.

        On a desktop no table of the console hides columns either.
        """
        found = self._evaluated(_FAULTS)
        if width == WIDTHS[-1]:
            found += self._evaluated(_SCROLLING)
        if found:
            pytest.fail("\n".join([f"{self.page.url} at {width}:", *found]), pytrace=False)

    def _require_accessible(self, width: int) -> None:
        found = self._evaluated(f"{self._axe};axe.run({{resultTypes: ['violations']}})")
        told = [
            f"{each['id']}: {node['html'][:120]} {node['failureSummary']}"
            for each in found["violations"]
            for node in each["nodes"]
        ]
        if told:
            pytest.fail("\n".join([f"{self.page.url} at {width}:", *told]), pytrace=False)

    def _evaluated(self, script: str) -> Any:
        while True:
            try:
                return self.page.evaluate(script)
            except Error as error:
                if "navigation" not in error.message:  # A page loads itself again during a task.
                    raise

    def _complain(self, kind: str, text: str) -> None:
        # The browser mentions pages that were refused, and the walk opens some of them.
        if not text.startswith((_REFUSED, _FOCUSED)):
            self.complaints.append(f"{kind}: {text}")

    def _require_own(self, url: str) -> None:
        if not url.startswith(f"{self._url}/"):
            self.complaints.append(f"asked for {url}")
