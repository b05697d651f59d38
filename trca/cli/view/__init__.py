"""The page of ``trca view``: recorded rollouts in a browser, and as one HTML file.

`index` finds the rollouts of a file, `details` says all of a group, `runs` answers what the page
asks, `server` serves it, and `export` writes one iteration to a file that needs no server.
"""
