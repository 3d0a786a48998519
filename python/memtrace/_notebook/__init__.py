"""What people see of traces, models and answers in notebooks and plots."""
