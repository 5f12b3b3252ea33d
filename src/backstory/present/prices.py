"""What an answer costs at list prices, where they are known.

Prices come from the package `genai-prices`, if it is installed: it has them with it, and asks nobody.
"""

import threading
from decimal import Decimal
from functools import cache
from importlib.util import find_spec


@cache
def _are_known() -> bool:
    return find_spec("genai_prices") is not None


def preload() -> None:
    """Load the prices in the background: it takes a moment, and nobody should wait for it after an answer."""
    threading.Thread(target=price, args=("gpt-5", 1, 1, 0), daemon=True).start()


def price(model: str, read: int, said: int, cached: int, cache_written: int = 0) -> Decimal:
    """What an answer costs in dollars; 0 where nobody knows. What was read includes what came from the cache
    and what was written to it."""
    if not _are_known():
        return Decimal(0)
    from genai_prices import Usage, calc_price

    try:
        usage = Usage(
            input_tokens=read,
            output_tokens=said,
            cache_read_tokens=cached or None,
            cache_write_tokens=cache_written or None,
        )
        return Decimal(calc_price(usage, model_ref=model).total_price)
    except (
        LookupError,
        ValueError,
    ):  # a model that the list does not have, or counts that cannot be
        return Decimal(0)
