"""Counter-based seeds: a pure function of the sampled item, independent of the sampling process."""

from __future__ import annotations

from hashlib import blake2b


def derive_seed(*key: int | str) -> int:
    """A seed below 2**63 for a key, such as (run seed, iteration, group, rollout, turn).

    Any change of the key gives an unrelated seed. Streams never overlap, and do not depend on the
    number of runners or on their order.
    """
    digest = blake2b("\x1f".join(map(repr, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
