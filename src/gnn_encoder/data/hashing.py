"""A hash of a text that is the same on every machine and in every version, and the split that it falls into."""

from hashlib import blake2b

DIGITS = 16  # hexadecimal: 64 bits


def stable_hash(text: str) -> str:
    """64 bits of BLAKE2b as 16 hexadecimal digits."""
    return blake2b(text.encode(), digest_size=DIGITS // 2).hexdigest()


def split_of(key: str, *, dev: float, test: float) -> str:
    """The split that a hash falls into: a query keeps it while others come and go, and whatever the seed is.

    Args:
        key: as `stable_hash` gives it.
        dev: share of the queries outside test that is dev, in 0..1.
        test: share of all queries that is test, in 0..1.
    """
    place = int(key, 16) / 16**DIGITS
    if place < test:
        return "test"
    return "dev" if place < test + (1 - test) * dev else "train"
