// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/*
 * What the programs decide: plain functions on plain memory, so that tests can compile them for user space and
 * replay streams of events through them (tests/replay.rs).
 */
#ifndef MEMTRACE_LOGIC_H
#define MEMTRACE_LOGIC_H

#include "event.h"

#define INLINE static inline __attribute__((always_inline))

/* Resident memory of one address space. */
struct resident {
	u64 shown;	/* pages when it was last told */
	u64 high;	/* most pages since, */
	u64 high_ns;	/* and when */
	u64 peak;	/* most pages ever, */
	u64 peak_ns;	/* when, */
	u64 at_peak[COUNTERS]; /* and of what */
	u64 swapped;	/* swap entries when it was last told */
	u32 owner;	/* pid of the process that it was made for */
	u32 ended;	/* that process is gone and could not be told: the tracer finds it here */
};

/* A step that is worth telling: this many pages, and this share of what there is. So the number of steps is
 * logarithmic in how far memory grows. */
#define STEP_PAGES 16
#define STEP_SHIFT 7

INLINE u64 counted(s64 pages)
{
	return pages > 0 ? pages : 0;
}

/* What VmRSS and smaps call resident: swap entries are not in memory. */
INLINE u64 resident_pages(const s64 *pages)
{
	return counted(pages[FILE_PAGES]) + counted(pages[ANON_PAGES]) + counted(pages[SHMEM_PAGES]);
}

INLINE u64 distance(u64 a, u64 b)
{
	return a > b ? a - b : b - a;
}

INLINE int is_step(u64 shown, u64 now)
{
	u64 step = shown >> STEP_SHIFT;
	return distance(shown, now) >= (step > STEP_PAGES ? step : STEP_PAGES);
}

/* Raises a peak that other processors raise too. True if this is the highest. */
INLINE int raise(u64 *peak, u64 to)
{
	u64 seen = *(volatile u64 *)peak;
	for (int attempt = 0; attempt < 8; attempt++) {
		if (to <= seen)
			return 0;
		u64 found = __sync_val_compare_and_swap(peak, seen, to);
		if (found == seen)
			return 1;
		seen = found;
	}
	return 0;
}

/* Takes in new counts. True if they are to be told: then `high` and `high_ns` are what to tell with them. */
INLINE int resident_changed(struct resident *r, const s64 *pages, u64 ns, u64 *high, u64 *high_ns)
{
	u64 now = resident_pages(pages), swapped = counted(pages[SWAP_ENTRIES]);
	if (raise(&r->peak, now)) {
		r->peak_ns = ns;
		for (int i = 0; i < COUNTERS; i++)
			r->at_peak[i] = counted(pages[i]);
	}
	if (now > r->high) {
		r->high = now;
		r->high_ns = ns;
	}
	/* A maximum is told when memory has fallen from it by a step, not only when the last one told is that far. */
	if (!is_step(r->shown, now) && !is_step(r->high, now) && !is_step(r->swapped, swapped))
		return 0;
	*high = r->high;
	*high_ns = r->high_ns;
	r->shown = r->high = now;
	r->high_ns = ns;
	r->swapped = swapped;
	return 1;
}

/* Faults on pages that follow each other, by one thread on one processor. */
struct run {
	u64 first;
	u64 next; /* one past the last page */
	u64 ns;	  /* of the first */
	u32 faults;
	u32 pid; /* 0: there is none */
	u32 tid;
	u32 by_kernel;
};

/* A run is told at this length at the latest, so that what it touched becomes known in time. */
#define RUN_PAGES 512

/* A fault. True if the run before it has come to its end: then it is in `done`. */
INLINE int faulted(struct run *run, u32 pid, u32 tid, u64 page, u32 by_kernel, u64 ns, struct run *done)
{
	int same = run->pid == pid && run->tid == tid && run->by_kernel == by_kernel;
	if (same && page + 1 == run->next) { /* again: read before it was written to */
		run->faults++;
		return 0;
	}
	if (same && page == run->next && run->next - run->first < RUN_PAGES) {
		run->next++;
		run->faults++;
		return 0;
	}
	int ends = run->pid != 0;
	if (ends)
		*done = *run;
	run->first = page;
	run->next = page + 1;
	run->ns = ns;
	run->faults = 1;
	run->pid = pid;
	run->tid = tid;
	run->by_kernel = by_kernel;
	return ends;
}

/* How many runs may be told: a program that touches pages all over the place has one for every fault. */
struct allowance {
	u64 ns; /* until when it was filled */
	u64 left;
};

#define RUNS_PER_MS 16
#define RUNS_AT_ONCE 4096

INLINE int allowed(struct allowance *a, u64 ns)
{
	u64 ms = ns > a->ns ? (ns - a->ns) / 1000000 : 0;
	if (ms > 0) {
		u64 more = ms > RUNS_AT_ONCE ? RUNS_AT_ONCE : ms * RUNS_PER_MS;
		a->left = a->left + more > RUNS_AT_ONCE ? RUNS_AT_ONCE : a->left + more;
		a->ns = ns;
	}
	if (a->left == 0)
		return 0;
	a->left--;
	return 1;
}

/* A process of the traced tree. */
struct task {
	u64 mm;	     /* its address space: the key of its `resident` */
	u64 faults;  /* by user code */
	u64 by_kernel; /* by the kernel on its behalf */
	u64 thinned; /* of both: without an address */
	u64 reclaim_ns; /* when the reclaim began that it is in; 0 if it is in none */
	u64 seed;    /* not traced itself, its children are */
};

/* What becomes of a new task. */
enum { NOT_OURS, A_THREAD, A_PROCESS, SHARES_MEMORY };

INLINE int born(int parent_is_known, u32 parent, u32 child, u64 parent_mm, u64 child_mm)
{
	if (!parent_is_known)
		return NOT_OURS;
	if (parent == child)
		return A_THREAD;
	return parent_mm == child_mm || child_mm == 0 ? SHARES_MEMORY : A_PROCESS;
}

#endif
