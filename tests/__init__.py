"""The tests: a package, because some libraries install a `tests` of their own, which would be found first."""
