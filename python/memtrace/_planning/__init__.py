"""Planning: pipelines as graphs, bounds from source, and what plans know of names and sizes."""
