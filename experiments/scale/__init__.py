"""Many traces: what one picture and one model of them cost."""

PARTS = {
    "traces": "report and fit over a thousand traces of ten thousand spans each",
    "spans": "ten million spans in one trace: program, recorder, disk, report and fit",
    "cluster": "fit of the same traces by one worker of a Dask cluster, and by two",
    "dask": "a hundred thousand tasks on 64 workers, without and with memtrace.dask.record",
}
