"""The features that the kubelet lacks: a package each, named as in the settings or the code.

Most are an object with hooks (``engine.core.feature``), made by ``engine.setup``; a request only
reaches those that are on, and a large module is imported only then. `residency` has no hooks: the
daemon calls its functions. A package also has its records. Features do not import each other.
"""
