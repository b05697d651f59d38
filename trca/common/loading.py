"""When `trca.algorithms` imports Ray and PyTorch."""

postponed: bool = False
"""Whether the first use of an algorithm imports them. By default, `import trca.algorithms` does.

The commands set it to True: a refusal takes less than two seconds, and the imports take ten.
"""
