"""Laws: how exactly shape gives bytes, and where it does not."""

PARTS = {
    "operators": "40 operators: laws from small runs against large ones",
    "resident": "which live bytes become resident",
    "authors": "published peaks, leave one volume out, beside other model families",
    "flags": "operators whose bytes depend on their data",
    "pipeline": "six operators in a row, planned and measured under two executors",
    "online": "learning while running: bandits, baselines, warnings",
    "generic": "operators never profiled: bounds from their source",
    "promises": "library functions drawn by a rule, and small programs: first set",
    "promises_second": "the second set of the same",
    "promises_third": "the third set of the same, for when what the others showed is mended",
    "promises_bounds": "bounds from source on a fifth set",
    "speed": "time of predict, fit, recommend",
}
