"""The systems that are measured, each in a module of its own that says how it is run, published to, subscribed to."""
