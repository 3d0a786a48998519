// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/* Resident pages, exact to the page. */
#ifndef MEMTRACE_RESIDENT_H
#define MEMTRACE_RESIDENT_H

#define CPUS_MAX 512

/* Processors that there can be; the loader says. */
volatile const u32 processors = 1;

/* The verifier lets nobody count on with some addresses; read from the stack, they are numbers. */
INLINE u64 as_number(const void *pointer)
{
	const void *volatile on_stack = pointer;
	u64 number = 0;
	bpf_probe_read_kernel(&number, sizeof number, (const void *)&on_stack);
	return number;
}

/* From where an allocation per processor seems to lie to where a processor's part of it lies: `__per_cpu_offset`, which
 * cannot be named from here. A map with a value per processor shows it: the array knows where its value seems to lie. */
u64 distances[CPUS_MAX];

INLINE u64 distance_to(u32 cpu)
{
	if (distances[cpu])
		return distances[cpu];
	u32 zero = 0;
	u64 seems = 0;
	u32 place = __builtin_preserve_field_info(((struct bpf_array *)0)->pptrs, 0);
	void *value = bpf_map_lookup_percpu_elem(&lost, &zero, cpu);
	if (!value || bpf_probe_read_kernel(&seems, sizeof seems, (char *)as_number(&lost) + place))
		return 0;
	distances[cpu] = as_number(value) - seems;
	return distances[cpu];
}

INLINE void read_central(struct mm_struct *mm, s64 *pages)
{
	pages[0] = mm->rss_stat[0].count;
	pages[1] = mm->rss_stat[1].count;
	pages[2] = mm->rss_stat[2].count;
	pages[3] = mm->rss_stat[3].count;
}

/* The counters are a central sum and what each processor has not added to it yet (lib/percpu_counter.c). Those of one
 * mm_struct were allocated together, so what a processor has of all four lies side by side (mm_init in
 * kernel/fork.c, Linux 6.6); where it does not, each is read by itself. */
INLINE void read_pages(struct mm_struct *mm, s64 *pages)
{
	const char *counters = (const char *)mm->rss_stat[0].counters;
	int together = (const char *)mm->rss_stat[3].counters == counters + 3 * sizeof(s32);
	read_central(mm, pages);
	for (u32 cpu = 0; cpu < CPUS_MAX && cpu < processors; cpu++) {
		u64 distance = distance_to(cpu);
		s32 own[COUNTERS] = {};
		if (!distance)
			break;
		if (together) {
			bpf_probe_read_kernel(own, sizeof own, counters + distance);
		} else {
			bpf_probe_read_kernel(&own[0], sizeof(s32), (char *)mm->rss_stat[0].counters + distance);
			bpf_probe_read_kernel(&own[1], sizeof(s32), (char *)mm->rss_stat[1].counters + distance);
			bpf_probe_read_kernel(&own[2], sizeof(s32), (char *)mm->rss_stat[2].counters + distance);
			bpf_probe_read_kernel(&own[3], sizeof(s32), (char *)mm->rss_stat[3].counters + distance);
		}
		for (int i = 0; i < COUNTERS; i++)
			pages[i] += own[i];
	}
}

INLINE int moved_meanwhile(struct mm_struct *mm, const s64 *before)
{
	s64 after[COUNTERS];
	read_central(mm, after);
	return after[0] != before[0] || after[1] != before[1] || after[3] != before[3];
}

/* The same, read again if another processor has moved what it had to the central sum meanwhile: it would count
 * twice. */
INLINE void count_pages(struct mm_struct *mm, s64 *pages)
{
	for (int attempt = 0; attempt < 3; attempt++) {
		s64 before[COUNTERS];
		read_central(mm, before);
		read_pages(mm, pages);
		if (!moved_meanwhile(mm, before))
			return;
	}
}

INLINE void tell_resident(u32 pid, u64 ns, const s64 *pages, u64 high, u64 high_ns)
{
	struct event *event = tell(RESIDENT, pid, ns);
	if (!event)
		return;
	for (int i = 0; i < COUNTERS; i++)
		event->values[i] = counted(pages[i]);
	event->values[4] = high;
	event->values[5] = high_ns;
	send(event);
}

/* A process has got memory: from now on it is watched. */
INLINE void watch_memory(u32 pid, struct mm_struct *mm)
{
	s64 pages[COUNTERS];
	u64 key = (u64)mm, ns = bpf_ktime_get_ns(), high, high_ns;
	struct resident new = {.owner = pid};
	count_pages(mm, pages);
	resident_changed(&new, pages, ns, &high, &high_ns);
	if (bpf_map_update_elem(&memories, &key, &new, ANY))
		count_lost(LOST_TABLE_FULL);
	tell_resident(pid, ns, pages, resident_pages(pages), ns);
}

/* A process that was running when the recording began. */
INLINE int is_new_here(u64 key)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct task *task = (u64)current->mm == key ? task_of(current->tgid) : 0;
	if (!task || task->mm)
		return 0;
	task->mm = key;
	return 1;
}

/* void rss_stat(struct mm_struct *mm, int member): after every change of a counter. */
FUNCTION_OF("tp_btf/rss_stat") rss_stat(u64 *context)
{
	struct mm_struct *mm = (struct mm_struct *)context[0];
	s64 pages[COUNTERS];
	u64 key = (u64)mm, ns, high, high_ns;
	struct resident *resident = bpf_map_lookup_elem(&memories, &key);
	if (!resident) {
		if (is_new_here(key))
			watch_memory(current_pid(), mm);
		return 0;
	}
	count_pages(mm, pages);
	ns = bpf_ktime_get_ns();
	if (resident_changed(resident, pages, ns, &high, &high_ns))
		tell_resident(resident->owner, ns, pages, high, high_ns);
	return 0;
}

#endif
