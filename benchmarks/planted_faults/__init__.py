"""Plants faults one at a time in a copy of the tree. The tests must find each fault.

::

    make faults                       # all
    make faults WORDS="entropy KL"    # faults with one of these words in the name
    make lint                         # checks that every fault still applies; runs no test

The tests must first pass without a fault. The table then names, for each fault, the seconds, the
first test that failed and its exception. The exit status is 1 if a fault survives.

To add a fault, write a paragraph into one of the lists ``*.txt`` of this folder::

    [tests/envs/webshop/test_reward.py]

    # WebShop accepts a title score equal to its lower bound
    trca.envs.webshop.reward:score_purchase
    - $title_score > 0.2
    + $title_score >= 0.2

A line in brackets names the test file that must find the faults below it. A fault has

* ``# name``: the wrong behaviour in words.
* ``module:function``: the place, dotted names such as ``trca.envs.teams.env:TeamEnv.step``. A class
  or a name that the module assigns may stand for the function. ``package/path`` names a file that
  is not Python.
* ``-`` lines: the old code. The code must be in the function exactly once.
* ``+`` lines: the new code. Without a ``+`` line the old statements are deleted.

Old code is a full expression, full statements, or a keyword argument ``name=value``. Syntax trees
are compared, so layout and comments have no effect. ``$name`` matches any expression or name and
is carried over; the same name matches equal code. ``*$name`` matches any number of arguments
or statements, ``**$name`` for any number of keyword arguments. Local variables in old code must be
written as ``$name``, so that a fault survives renaming. To use a variable of another line in the
new code, include the line in the old code::

    # TRCA example: the advantage of the last step counts twice
    trca.algorithms.example.credit:example
    - $last = $ends - 1
    - *$between
    - return $advantages
    + $last = $ends - 1
    + *$between
    + $advantages[$last] *= 2
    + return $advantages

In a file that is not Python, ``$name`` matches a word, and white space has no effect.
"""
