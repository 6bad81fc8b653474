"""The process ``nri-numamem export``: keeps a host's NodeResourceTopology in the API server.

``export`` decides when it writes, ``apiserver`` sends the requests; here are the loop that joins
them, and the threads in which requests wait.
"""
