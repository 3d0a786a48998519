"""The studies behind docs/results/: `scripts/experiments STUDY` runs them."""
