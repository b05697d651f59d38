"""The page of ``trca view``: recorded rollouts in a browser, and as one HTML file.

`index` finds the rollouts of a file, `details` describes a group, `runs` answers the requests of
the page, `server` serves the page, and `bundle` writes one iteration to a file without server.
"""
