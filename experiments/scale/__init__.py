"""Many traces: what one picture and one model of them cost."""

PARTS = {"traces": "report and fit over a thousand traces of ten thousand spans each"}
