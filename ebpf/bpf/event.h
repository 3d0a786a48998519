// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/* What the programs report to the tracer; `src/event.rs` reads it. */
#ifndef MEMTRACE_EVENT_H
#define MEMTRACE_EVENT_H

typedef unsigned long long u64;
typedef long long s64;
typedef unsigned int u32;
typedef int s32;

/* Places of the kernel's counters of resident pages (enum in linux/mm_types_task.h, the same
 * since Linux 4.5). */
enum { FILE_PAGES, ANON_PAGES, SWAP_ENTRIES, SHMEM_PAGES, COUNTERS };

enum kind {
	RESIDENT = 1, /* values: the four counters; most pages since the last one; when */
	FAULTS,	      /* values: first page; pages; faults; code: 1 if by the kernel */
	FORK,	      /* values: parent's pid; 1 if the child has memory of its own */
	EXEC,	      /* values: the program's short name, 16 bytes */
	/* Of an image; values: counters at its peak; peak in pages; when; code: 1 by exit, 0 by exec. */
	END,
	/* Of a process, when one of its images ends; values: faults by user code, by the kernel,
	 * thinned out. */
	COUNTS,
	EXIT,	  /* code: wait status */
	VICTIM,	  /* of the OOM killer; values: the four counters */
	SIGNAL,	  /* code: its number; values: sender's pid */
	RECLAIM,  /* values: nanoseconds it took; pages it freed */
	CALL,	  /* code: number of the system call; values: arguments; result; start of the break */
	FUNCTION, /* an uprobe was hit; code: which; values: six arguments */
};

struct event {
	u64 ns; /* bpf_ktime_get_ns: CLOCK_MONOTONIC */
	u32 kind;
	u32 pid;
	u32 tid;
	u32 code;
	u64 values[8];
};

/* Events that could not be reported, by reason. */
enum { LOST_RING_FULL, LOST_TABLE_FULL, LOSSES };

#endif
