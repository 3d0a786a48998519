// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/*
 * Counters of resident pages since Linux 6.2: each is a central sum, and what each processor has
 * not added to it yet (lib/percpu_counter.c).
 */
#ifndef MEMTRACE_PERCPU_H
#define MEMTRACE_PERCPU_H

/* From where an allocation per processor seems to lie to where a processor's part of it lies:
 * `__per_cpu_offset`, which cannot be named from here. */
u64 distances[CPUS_MAX];

/* A map with a value per processor shows it: the array knows where its value seems to lie. Run
 * once, when the programs are loaded. */
FUNCTION_OF("raw_tp/measure") measure(u64 *context)
{
	u32 zero = 0;
	u64 seems = 0;
	u32 place = __builtin_preserve_field_info(((struct bpf_array *)0)->pptrs, 0);
	if (bpf_probe_read_kernel(&seems, sizeof seems, (char *)as_number(&lost) + place))
		return 0;
	for (u32 cpu = 0; cpu < CPUS_MAX && cpu < processors; cpu++) {
		void *value = bpf_map_lookup_percpu_elem(&lost, &zero, cpu);
		if (value)
			distances[cpu] = as_number(value) - seems;
	}
	return 0;
}

/* Those of one mm_struct are allocated together since Linux 6.6 (mm_init in kernel/fork.c), so that
 * what a processor has of all four lies side by side. */
struct counters {
	const s32 *parts[COUNTERS];
};

/* Returns the anonymous pages of that part. */
INLINE s32 add_part(s64 *pages, const struct counters *counters, u32 cpu)
{
	u64 distance = distances[cpu & (CPUS_MAX - 1)];
	s32 own[COUNTERS] = {};
	if (together) {
		bpf_probe_read_kernel(own, sizeof own, (char *)counters->parts[0] + distance);
	} else {
		for (int i = 0; i < COUNTERS; i++)
			bpf_probe_read_kernel(&own[i], sizeof own[i], (char *)counters->parts[i] + distance);
	}
	for (int i = 0; i < COUNTERS; i++)
		pages[i] += own[i];
	return own[ANON_PAGES];
}

INLINE void add_parts(s64 *pages, const struct counters *counters)
{
	for (u32 cpu = 0; cpu < CPUS_MAX && cpu < processors; cpu++)
		add_part(pages, counters, cpu);
}

/* For an mm_struct that comes from a tracepoint: its members are there to be read. */
INLINE void read_central(struct mm_struct *mm, s64 *pages)
{
	pages[0] = mm->rss_stat[0].count;
	pages[1] = mm->rss_stat[1].count;
	pages[2] = mm->rss_stat[2].count;
	pages[3] = mm->rss_stat[3].count;
}

/* Changes when a processor moves its part to the central sums. */
INLINE u64 mixed(const s64 *central)
{
	return central[0] + ((u64)central[1] << 2) + ((u64)central[2] << 4) + ((u64)central[3] << 6);
}

/* Whatever changes a counter does so on its own processor and comes here from there. So what
 * other processors have of them is what it was, unless the last one to come was another, or one
 * has just moved what it had. Each processor notes itself before it reads: another that comes
 * meanwhile does so later, and makes the first one read all again. Returns this processor's part
 * of the anonymous pages. */
INLINE s32 count_pages(struct mm_struct *mm, struct resident *resident, s64 *pages)
{
	struct counters counters = {{mm->rss_stat[0].counters, mm->rss_stat[1].counters,
				     mm->rss_stat[2].counters, mm->rss_stat[3].counters}};
	u32 zero = 0, cpu = bpf_get_smp_processor_id();
	u32 last = resident->cpu;
	struct cursor *cursor = bpf_map_lookup_elem(&cursors, &zero);
	s64 central[COUNTERS], own[COUNTERS] = {};
	*(volatile u32 *)&resident->cpu = cpu + 1;
	read_central(mm, pages);
	u64 seen = mixed(pages);
	if (!cursor)
		return 0;
	struct view *view = &cursor->view;
	if (last == cpu + 1 && view->mm == (u64)mm && view->central == seen) {
		s32 part = add_part(pages, &counters, cpu);
		for (int i = 0; i < COUNTERS; i++)
			pages[i] += view->elsewhere[i];
		return part;
	}
	for (int i = 0; i < COUNTERS; i++)
		central[i] = pages[i];
	add_parts(pages, &counters);
	s32 part = add_part(own, &counters, cpu);
	for (int i = 0; i < COUNTERS; i++)
		view->elsewhere[i] = pages[i] - central[i] - own[i];
	view->mm = (u64)mm;
	view->central = seen;
	read_central(mm, central);
	if (mixed(central) == seen)
		return part;
	/* Another processor has moved its part meanwhile: it would count twice. */
	view->mm = 0;
	for (int i = 0; i < COUNTERS; i++)
		pages[i] = central[i];
	add_parts(pages, &counters);
	return part;
}

/* The same for an mm_struct of which only the address is known. */
INLINE void copy_percpu(struct mm_struct *mm, s64 *pages)
{
	struct counters counters = {};
	COPY(pages[0], mm->rss_stat[0].count);
	COPY(pages[1], mm->rss_stat[1].count);
	COPY(pages[2], mm->rss_stat[2].count);
	COPY(pages[3], mm->rss_stat[3].count);
	COPY(counters.parts[0], mm->rss_stat[0].counters);
	COPY(counters.parts[1], mm->rss_stat[1].counters);
	COPY(counters.parts[2], mm->rss_stat[2].counters);
	COPY(counters.parts[3], mm->rss_stat[3].counters);
	add_parts(pages, &counters);
}

#endif
