"""`direct`: at most once along the tree. The baseline, and the tutorial: `messages`, then `broker`, then `leaf`."""
