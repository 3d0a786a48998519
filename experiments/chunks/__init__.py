"""Chunks in practice: what recommended ones need and take on real clusters, beside others."""

PARTS = {
    "seed": "GST3D 200×200×200, two workers of 1.5 GB: auto, the authors' rule, ours, every split",
    "grid": "12 shapes × 1, 2, 4 workers sharing 6 GB × four ways to choose × 3 repeats",
    "lean": "operators whose workers hold more than they compute with: Gaussian, semblance",
    "survey": "dimensions of F3 planned, and a survey larger than memory run in waves",
    "hard": "one long axis, large halos, limits just above the baseline, mixed operators",
    "promises": "twelve jobs × three limits, chunks by recommend, map_overlap and plan, and by hand",
    "limited": "workers limited by control groups; streamed tasks against the trace",
    "adaptive": "no model at first: chunks chosen while it runs",
    "resources": "tasks that do not fit together",
    "dasf": "DASF's own package (DASF_CORE names it): its default blocks, and the plugin's",
    "cubed": "laws as Cubed's extra memory, its measured peaks against ours",
    "jobs": "a mix of jobs sized by laws, Witt's and Sizey's rules",
    "steady": "ten sweeps under other load: one chunk shape",
    "pressure": "limits at the upper bound hold, limits under the need fail",
}
