"""What `gapless demo` shows: a stage with brokers as processes, acts played on it, a view, and a verdict."""
