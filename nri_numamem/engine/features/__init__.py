"""The features that the kubelet lacks: a package each, named as in the settings or the code.

A request reaches a feature only if its setting is on, and a large module is imported then. A
package has the feature's rules and its records. Features do not import each other. Two modules
below them, because the accounting and the context need them as well:
``engine.core.cpu_requests`` and ``engine.core.shared_cpus``.
"""
