//! Chunk plans: from laws, a budget and a task graph to chunk sizes.
