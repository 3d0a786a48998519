// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/* Resident pages, exact to the page. */
#ifndef MEMTRACE_RESIDENT_H
#define MEMTRACE_RESIDENT_H

/* The verifier forbids arithmetic on some addresses; read from the stack, they are numbers. */
INLINE u64 as_number(const void *pointer)
{
	const void *volatile on_stack = pointer;
	u64 number = 0;
	bpf_probe_read_kernel(&number, sizeof number, (const void *)&on_stack);
	return number;
}

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

/* The counters are a central sum and what each processor has not added to it yet
 * (lib/percpu_counter.c). Those of one mm_struct are allocated together since Linux 6.6 (mm_init
 * in kernel/fork.c), so that what a processor has of all four lies side by side. */
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

/* For any other: the verifier looks for the types behind a pointer by name, half a millisecond
 * for each. */
#define COPY(to, from) bpf_probe_read_kernel(&(to), sizeof(to), &(from))

INLINE void copy_pages(struct mm_struct *mm, s64 *pages)
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

INLINE struct mm_struct *memory_of(struct task_struct *task)
{
	struct mm_struct *mm = 0;
	COPY(mm, task->mm);
	return mm;
}

INLINE void report_resident(u32 pid, u64 ns, const s64 *pages, u64 high, u64 high_ns)
{
	struct event *event = new_event(RESIDENT, pid, ns);
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
	copy_pages(mm, pages);
	resident_changed(&new, pages);
	resident_reported(&new, pages, ns, &high, &high_ns);
	if (bpf_map_update_elem(&memories, &key, &new, ANY))
		count_lost(LOST_TABLE_FULL);
	report_resident(pid, ns, pages, high, high_ns);
}

/* A process that was running when the recording began. */
INLINE int is_new_here(u64 key)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct task *task = (u64)memory_of(current) == key ? task_of(current->tgid) : 0;
	if (!task || task->mm)
		return 0;
	task->mm = key;
	return 1;
}

/* In task_struct.flags (linux/sched.h): a thread of the kernel; one that frees memory for
 * others. */
#define PF_MEMALLOC 0x00000800
#define PF_KTHREAD 0x00200000

/* False for another process's memory. An mm_struct is free for others a moment before its
 * process is seen to end or to execute a program, and for good if that found no room in the
 * ring. What others do to a process's own memory is mostly to free it. */
INLINE int is_still_watched(const struct resident *resident, struct mm_struct *mm)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u32 pid = current->tgid;
	if (resident->ended)
		return 0;
	if (pid == resident->owner || current->flags & (PF_MEMALLOC | PF_KTHREAD))
		return 1;
	return memory_of(current) == mm && task_of(pid);
}

/* void rss_stat(struct mm_struct *mm, int member): after every change of a counter. */
FUNCTION_OF("tp_btf/rss_stat") rss_stat(u64 *context)
{
	struct mm_struct *mm = (struct mm_struct *)context[0];
	s64 pages[COUNTERS];
	u64 key = (u64)mm, ns, high, high_ns;
	struct resident *resident = bpf_map_lookup_elem(&memories, &key);
	if (!resident) {
		if (joins_late && is_new_here(key))
			watch_memory(current_pid(), mm);
		return 0;
	}
	if (!is_still_watched(resident, mm))
		return 0;
	s32 part = count_pages(mm, resident, pages);
	u64 grown = own_growth(pages[ANON_PAGES] - resident->anon, part);
	resident->anon += grown;
	if (grown - 2 < HUGE_PAGES - 1)
		widen_run(resident->owner, grown);
	int what = resident_changed(resident, pages);
	if (!what)
		return 0;
	ns = bpf_ktime_get_ns();
	if (what & TURNED)
		resident_turned(resident, ns);
	if (what & REPORT) {
		resident_reported(resident, pages, ns, &high, &high_ns);
		report_resident(resident->owner, ns, pages, high, high_ns);
	}
	return 0;
}

#endif
