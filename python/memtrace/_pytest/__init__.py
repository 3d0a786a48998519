"""What `memtrace.pytest_plugin` does inside its hooks."""
