"""What moves through the house: publications, batches, sources, events, errors."""
