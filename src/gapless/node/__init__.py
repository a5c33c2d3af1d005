"""The world, for real: links, failure detector, configuration, health, logs."""
