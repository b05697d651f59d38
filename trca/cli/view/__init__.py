"""The page of ``trca view``: recorded rollouts in a browser, and as one HTML file.

`details` describes a group, `runs` lists rollouts and answers the requests of the page, `server`
serves the page, and `bundle` writes one iteration to a file without server.
"""
