"""Placement in fast and slow memory: what sampling costs and tells."""

PARTS = {
    "sampling": "what --accesses clock costs and tells, and the block that takes the time",
    "estimates": "what place estimate says of every placement, against runs of each",
    "regret": "what plans lose against the best placement, at every capacity",
    "policy": "trains the policy of --search policy, and tries it on programs it never saw",
    "search": "how much of the best gain each search finds, by estimates that are off",
    "nodes": "where each page is on two NUMA nodes, in a guest that has them",
    "swapping": "programs with less memory than they need: swap as planned, and the kernel's own",
    "chunks": "chunks of operators where memory ends before swap does",
    "harm": "twelve programs with less memory than they need: a plan slows none of them down",
    "learning": "what place learn takes, against a run of the program by itself",
    "tasks": "tasks that share memory: how many complete, and how fast",
}
