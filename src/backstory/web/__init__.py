"""The page: every branch of a history in a browser, and what the model saw at any position.

`app(store)` is an ASGI application, for `backstory web` and for servers of your own. Needs the
extra `web`.
"""

from contextlib import suppress

from backstory.web.guard import Proxy

# Only a server needs Starlette: the page as one file (`export --to html`) is made without it.
with suppress(ModuleNotFoundError):
    from backstory.web.app import app

__all__ = ["Proxy", "app"]
