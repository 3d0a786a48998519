// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/*
 * What the programs decide: plain functions on plain memory, so that tests can compile them for
 * user space and replay streams of events through them (tests/replay.rs).
 */
#ifndef MEMTRACE_LOGIC_H
#define MEMTRACE_LOGIC_H

#include "event.h"

#define INLINE static inline __attribute__((always_inline))

/* Resident memory of one address space. */
struct resident {
	u64 shown;	/* pages at the last report */
	u64 high;	/* most pages since, */
	u64 high_ns;	/* and when that ended; 0 if it has not */
	u64 peak;	/* most pages ever, */
	u64 peak_ns;	/* when that ended; 0 if it has not, */
	u64 at_peak[COUNTERS]; /* and of what */
	u64 swapped;	/* swap entries at the last report */
	s64 anon;	/* anonymous pages after the last change */
	u64 threads;	/* before Linux 6.2: where the list of its threads begins, */
	s64 central[COUNTERS]; /* and the central sums after the last change */
	u32 cpu;	/* where the last change was, plus one */
	u32 pad;
	u32 owner;	/* pid of the process that it was made for */
	u32 ended;	/* that process is gone and could not be reported: the tracer reads it here */
};

/* A step that is reported: 64 KiB, in pages, and this share (1/128) of what there was. So the
 * number of steps is logarithmic in how far memory grows. */
#define STEP_SHIFT 7

/* The following avoids branches: the verifier follows both ways of each. */

/* All ones if it is negative, else 0. The compiler must not see that, or it makes a branch of
 * it. */
INLINE s64 sign_of(s64 number)
{
	s64 sign = number >> 63;
	asm("" : "+r"(sign));
	return sign;
}

/* A sum that was read while others changed it may be negative for a moment. */
INLINE u64 counted(s64 pages)
{
	return pages & ~sign_of(pages);
}

/* What a thread has not added to the central sums yet, before Linux 6.2, and after how many faults
 * (struct task_rss_stat in linux/mm_types_task.h). */
struct part {
	int events;
	int count[COUNTERS];
};

/* The counter that a thread reported last, when its part was this. A thread adds its part to the
 * central sum, then reports that, then forgets the part: meanwhile it would count twice. */
struct moved {
	struct part part;
	u32 member;
};

/* All ones if a thread's part of a counter is in the central sum already, else 0. A huge page is
 * reported, too, and the part stays: of a thread that waits (`runs` is 0) it always counts. */
INLINE s64 is_in_sum(const struct moved *moved, const struct part *part, u32 member, u32 runs)
{
	u32 differs = (moved->member ^ member) | (moved->part.events ^ part->events) |
		      (moved->part.count[member] ^ part->count[member]);
	return sign_of((s64)differs - 1) & sign_of(-(s64)runs);
}

/* Before Linux 6.2 threads take pages without an event; another one may then free some. What there
 * was before the last change, if that has lessened a counter. `own` is what the thread has not added
 * to the sums: it has nothing when it frees, and adds what may be less than nothing otherwise. */
INLINE void before_fall(struct resident *r, const struct part *own, const s64 *central, const s64 *pages, s64 *before)
{
	for (int i = 0; i < COUNTERS; i++) {
		s64 has_nothing = sign_of((s64)(u32)own->count[i] - 1);
		before[i] = pages[i] + (counted(r->central[i] - central[i]) & has_nothing);
		r->central[i] = central[i];
	}
}

/* What VmRSS and smaps call resident: swap entries are not in memory. */
INLINE u64 resident_pages(const s64 *pages)
{
	return counted(pages[FILE_PAGES]) + counted(pages[ANON_PAGES]) + counted(pages[SHMEM_PAGES]);
}

/* All ones if `now` is less than a step away from what was reported, else 0. */
INLINE s64 is_near(u64 shown, u64 now, u32 step)
{
	s64 away = now - shown, sign = sign_of(away);
	return sign_of((away ^ sign) - sign - (s64)(step + (shown >> STEP_SHIFT)));
}

/* Raises a peak that other processors may be raising too. */
INLINE void raise(u64 *peak, u64 seen, u64 to)
{
	u64 found = __sync_val_compare_and_swap(peak, seen, to);
	if (found != seen && found < to)
		__sync_val_compare_and_swap(peak, found, to);
}

/* Applies new counts. Returns what is left to do with the time, 0 for nothing. Reading the clock
 * costs as much as all of this, so it is read only where memory has turned from growing to
 * falling, and where a step is reported. */
enum { TURNED = 1, REPORT = 2 };

/* Whether other processors may be raising the peak at this moment. Before Linux 5.12 there is no
 * instruction against that; counters then change so seldom that it is taken not to happen. */
enum who { ALONE, AMONG_OTHERS };

INLINE int resident_changed(struct resident *r, const s64 *pages, enum who who, u32 step)
{
	u64 now = resident_pages(pages), swapped = counted(pages[SWAP_ENTRIES]), peak = r->peak;
	int turned = now < r->high && !r->high_ns ? TURNED : 0;
	if (now > peak) {
		if (who == ALONE)
			r->peak = now;
		else
			raise(&r->peak, peak, now);
		r->peak_ns = 0;
		for (int i = 0; i < COUNTERS; i++)
			r->at_peak[i] = counted(pages[i]);
	}
	if (now > r->high) {
		r->high = now;
		r->high_ns = 0;
	}
	/* A maximum is reported when memory has fallen from it by a step, not only when the last
	 * one reported is that far. */
	if (is_near(r->shown, now, step) & is_near(r->high, now, step) & is_near(r->swapped, swapped, step))
		return turned;
	return turned | REPORT;
}

/* Now is the end of what was highest, if that has not ended before. */
INLINE void resident_turned(struct resident *r, u64 ns)
{
	if (!r->high_ns)
		r->high_ns = ns;
	if (!r->peak_ns)
		r->peak_ns = ns;
}

/* These pages are reported now, with the highest since the last time, in `high` and `high_ns`. */
INLINE void resident_reported(struct resident *r, const s64 *pages, u64 ns, u64 *high, u64 *high_ns)
{
	u64 ended = r->high_ns;
	*high = r->high;
	*high_ns = ended ? ended : ns;
	r->shown = r->high = resident_pages(pages);
	r->high_ns = 0;
	r->swapped = counted(pages[SWAP_ENTRIES]);
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

/* A run is reported at this length at the latest, so that what it touched becomes known in time. */
#define RUN_PAGES 64

/* True if a fault goes on with a run. */
INLINE int goes_on(struct run *run, u32 pid, u32 tid, u64 page, u32 by_kernel)
{
	if (run->pid != pid || run->tid != tid || run->by_kernel != by_kernel)
		return 0;
	if (page + 1 == run->next) { /* again: it was read before it was written to */
		run->faults++;
		return 1;
	}
	if (page != run->next || run->next - run->first >= RUN_PAGES)
		return 0;
	run->next++;
	run->faults++;
	return 1;
}

/* The last fault of a run has brought this many pages: a huge page, which lies at a multiple of
 * its size. */
INLINE void widen(struct run *run, u64 pages)
{
	u64 first = (run->next - 1) & ~(pages - 1);
	run->first = run->first < first ? run->first : first;
	run->next = first + pages;
}

/* Anonymous memory has grown by `grown` pages since a processor last counted them, and this
 * processor has changed it: by how many? Others may have changed it too, and count a moment
 * later. `huge` are the pages of the largest page that a fault brings. What a processor has not
 * moved to the central sum, `part`, is nothing just after a huge page, and seldom after a small one
 * (lib/percpu_counter.c). */
INLINE s64 own_growth(s64 grown, s32 part, u32 huge)
{
	if (grown < huge)
		return grown;
	return part ? grown & (huge - 1) : huge;
}

INLINE void begin_run(struct run *run, u32 pid, u32 tid, u64 page, u32 by_kernel, u64 ns)
{
	run->first = page;
	run->next = page + 1;
	run->ns = ns;
	run->faults = 1;
	run->pid = pid;
	run->tid = tid;
	run->by_kernel = by_kernel;
}

/* How many runs may be reported: a program that touches pages all over the place has one for
 * every fault. */
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
