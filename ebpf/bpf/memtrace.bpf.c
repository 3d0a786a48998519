// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/* All programs: one object, of which the tracer loads what a recording needs. */
#include "bpf.h"
#include "kernel.h"
#include "logic.h"
#include "tables.h"
#include "reading.h"
#include "faults.h"
#include "percpu.h"
#include "split.h"
#include "resident.h"
#include "life.h"
#include "pressure.h"
#include "calls.h"

/* The helpers for reading kernel memory are for programs under a GPL-compatible licence. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";
