"""The page: every branch of a history in a browser, and what the model saw at any position.

`app(store)` is an ASGI application, for `backstory web` and for servers of your own. Needs the extra `web`.
"""

from backstory.web.app import app
from backstory.web.guard import Proxy

__all__ = ["Proxy", "app"]
