/* Replays events from standard input through the decisions of the programs, and prints what they report. One a line:
 *   r FILE ANON SWAP SHMEM NS   counters of pages   → "t SHOWN HIGH HIGH_NS" if reported
 *   f PID TID PAGE KERNEL NS    a fault             → "run PID FIRST PAGES FAULTS" or "thinned FAULTS" for a run that ended
 *   g GROWN PART 0 0 0          anonymous pages  → "own PAGES"; the run is widened by more than one
 *   m MEMBER*10+RUNS EVENTS PART EVENTS_THEN PART_THEN  → "in sum 0" or "in sum -1": a thread's part
 *   s CENTRAL PAGES OWN 0 0     a sum, all pages, a thread's part → "before PAGES" (before Linux 6.2)
 *   b KNOWN PARENT CHILD PARENT_MM CHILD_MM         → "born WHAT"
 *   e                           the end             → "peak PAGES", and the last run */
#include <stdio.h>

#include "../bpf/logic.h"

static struct resident resident;
static struct run run;
static struct allowance allowance;

static void report_run(u64 ns)
{
	if (!run.pid)
		return;
	if (allowed(&allowance, ns))
		printf("run %u %llu %llu %u\n", run.pid, run.first, run.next - run.first, run.faults);
	else
		printf("thinned %u\n", run.faults);
}

int main(void)
{
	char kind;
	while (scanf(" %c", &kind) == 1) {
		long long a, b, c, d, e;
		if (kind == 'e') {
			printf("peak %llu\n", resident.peak);
			report_run(run.ns);
			return 0;
		}
		if (scanf("%lld %lld %lld %lld %lld", &a, &b, &c, &d, &e) != 5)
			return 1;
		if (kind == 'r') {
			s64 pages[COUNTERS] = {a, b, c, d};
			u64 high, high_ns;
			int what = resident_changed(&resident, pages, AMONG_OTHERS, 16);
			if (what & TURNED)
				resident_turned(&resident, e);
			if (what & REPORT) {
				resident_reported(&resident, pages, e, &high, &high_ns);
				printf("t %llu %llu %llu\n", resident.shown, high, high_ns);
			} else {
				printf("-\n");
			}
		} else if (kind == 'f' && !goes_on(&run, a, b, c, d)) {
			report_run(e);
			begin_run(&run, a, b, c, d, e);
		} else if (kind == 'g') {
			s64 own = own_growth(a, b, 512);
			printf("own %lld\n", own);
			if (own > 1)
				widen(&run, own);
		} else if (kind == 'm') {
			struct part part = {.events = b, .count = {c, c, c, c}};
			struct moved moved = {.part = {.events = d, .count = {e, e, e, e}}, .member = ANON_PAGES};
			printf("in sum %lld\n", is_in_sum(&moved, &part, a / 10, a % 10));
		} else if (kind == 's') {
			s64 central[COUNTERS] = {0, a}, pages[COUNTERS] = {0, b}, before[COUNTERS];
			struct part own = {.count = {0, c}};
			before_fall(&resident, &own, central, pages, before);
			printf("before %lld\n", before[ANON_PAGES]);
		} else if (kind == 'b') {
			printf("born %d\n", born(a, b, c, d, e));
		}
	}
	return 1;
}
