"""Work done in several threads at once, and its errors brought back."""

from concurrent.futures import ThreadPoolExecutor


def in_threads(work, count):
    """What work(nth) returns in each of so many threads; the first error of any of them is raised."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))
