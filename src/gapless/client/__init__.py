"""The library that applications import; async first, sync beside it."""
