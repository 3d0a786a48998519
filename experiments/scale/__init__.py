"""Many traces: what one picture and one model of them cost."""

PARTS = {
    "traces": "report and fit over a thousand traces of ten thousand spans each",
    "cluster": "fit of the same traces by one worker of a Dask cluster, and by two",
}
