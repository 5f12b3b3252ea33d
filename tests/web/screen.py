"""A page as a person sees it."""

import re

from tools.site import write_address


class Screen:
    """One page of the site, and what it asked for."""

    def __init__(self, page, site, store):
        self.page, self.site, self.store = page, site, store
        self.asked, self.problems, self.dialogs = [], [], []
        self.expected = []  # problems that the test means
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("console", lambda message: self._heard(message.type, message.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        self.base, _, self.key = write_address(site).partition("#")
        self.base = self.base.rstrip("/")

    def _heard(self, kind, text):
        if kind in ("error", "warning"):
            self.problems.append(text)

    def check_quiet(self):
        left = [
            text for text in self.problems if not any(re.search(one, text) for one in self.expected)
        ]
        assert not left, left
        assert not self.dialogs
        assert all(url.startswith((self.base, "blob:", "data:")) for url in self.asked), self.asked

    def path(self, agent, at=None, rest=""):
        return f"/s/{agent.session}/a/{agent.id}" + ("" if at is None else f"@{at}") + rest

    def open(self, path=None):
        if path is None:
            path = self.path(self.store.agent("main"))
        self.page.goto(f"{self.base}{path}#{self.key}")
        return self

    def ready(self):
        """Every row in view has its text, and so has every message."""
        self.page.locator(".row .text:not(:empty)").first.wait_for()
        self.page.locator(".message .body").first.wait_for()
        return self

    def __call__(self, selector):
        return self.page.locator(selector)

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    @property
    def position(self):
        return self(".position b")

    def at(self, name):
        """Wait until the cursor is at main@7 or the like."""
        self(".position b").filter(has_text=re.compile(f"^{re.escape(name)}$")).wait_for()

    def row(self, seq):
        return self(f"#row-{seq}")

    def texts(self, selector):
        return self(selector).all_inner_texts()

    def api(self):
        return [url.partition("/api")[2] for url in self.asked if "/api/" in url]
