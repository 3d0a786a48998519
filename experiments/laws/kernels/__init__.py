"""Small programs of our own: threads, caches, buffers that grow, branches on size, convergence."""
