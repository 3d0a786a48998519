// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/* Resident pages, exact to the page. */
#ifndef MEMTRACE_RESIDENT_H
#define MEMTRACE_RESIDENT_H

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

/* A process has got memory: from now on it is watched. `is_split` is which counters this kernel
 * has, here and below. */
INLINE void watch_memory(u32 pid, struct task_struct *task, struct mm_struct *mm, u32 is_split)
{
	s64 pages[COUNTERS];
	u64 key = (u64)mm, ns = bpf_ktime_get_ns(), high, high_ns;
	struct resident new = {.owner = pid};
	if (is_split) {
		new.threads = threads_of(task);
		look(mm, new.threads, new.central, pages);
	} else {
		copy_percpu(mm, pages);
	}
	resident_changed(&new, pages, ALONE, step_pages());
	resident_reported(&new, pages, ns, &high, &high_ns);
	if (bpf_map_update_elem(&memories, &key, &new, ANY))
		count_lost(LOST_TABLE_FULL);
	report_resident(pid, ns, pages, high, high_ns);
}

/* The current thread, whose members can be read where the verifier knows its type (Linux 5.11). */
INLINE struct task_struct *current_task(u32 is_split)
{
	return is_split ? bpf_get_current_task() : bpf_get_current_task_btf();
}

INLINE u32 pid_of(struct task_struct *current, u32 is_split)
{
	return is_split ? current_pid() : current->tgid;
}

INLINE u32 flags_of(struct task_struct *current, u32 is_split)
{
	u32 flags = 0;
	if (!is_split)
		return current->flags;
	COPY(flags, current->flags);
	return flags;
}

/* A process that was running when the recording began. */
INLINE int is_new_here(u64 key, u32 is_split)
{
	struct task_struct *current = current_task(is_split);
	struct task *task = (u64)memory_of(current) == key ? task_of(pid_of(current, is_split)) : 0;
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
INLINE int is_still_watched(const struct resident *resident, struct mm_struct *mm, u32 is_split)
{
	struct task_struct *current = current_task(is_split);
	u32 pid = pid_of(current, is_split);
	if (resident->ended)
		return 0;
	if (pid == resident->owner || flags_of(current, is_split) & (PF_MEMALLOC | PF_KTHREAD))
		return 1;
	return memory_of(current) == mm && task_of(pid);
}

/* What is watched of this memory, if anything is. */
INLINE struct resident *watched(struct mm_struct *mm, u32 is_split)
{
	u64 key = (u64)mm;
	struct resident *resident = bpf_map_lookup_elem(&memories, &key);
	if (resident)
		return is_still_watched(resident, mm, is_split) ? resident : 0;
	if (joins_late && is_new_here(key, is_split))
		watch_memory(current_pid(), current_task(is_split), mm, is_split);
	return 0;
}

INLINE int take_in(struct resident *resident, const s64 *pages, enum who who)
{
	u64 ns, high, high_ns;
	int what = resident_changed(resident, pages, who, step_pages());
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

/* void rss_stat(struct mm_struct *mm, int member): after every change of a counter. */
FUNCTION_OF("tp_btf/rss_stat") rss_stat(u64 *context)
{
	struct mm_struct *mm = (struct mm_struct *)context[0];
	struct resident *resident = watched(mm, 0);
	s64 pages[COUNTERS];
	if (!resident)
		return 0;
	s32 part = count_pages(mm, resident, pages);
	u64 grown = own_growth(pages[ANON_PAGES] - resident->anon, part, huge_pages());
	resident->anon += grown;
	if (grown - 2 < huge_pages() - 1)
		widen_run(resident->owner, grown);
	return take_in(resident, pages, AMONG_OTHERS);
}

/* The same before Linux 6.2: after every change of a central sum. */
FUNCTION_OF("tp_btf/rss_stat") rss_stat_split(u64 *context)
{
	struct mm_struct *mm = (struct mm_struct *)context[0];
	struct resident *resident = watched(mm, 1);
	s64 central[COUNTERS], pages[COUNTERS], before[COUNTERS];
	if (!resident)
		return 0;
	struct part own = note_moved((u32)context[1]);
	count_split(mm, resident->threads, central, pages);
	before_fall(resident, &own, central, pages, before);
	resident_changed(resident, before, ALONE, step_pages());
	/* Threads move less than a huge page at once. */
	if (pages[ANON_PAGES] - resident->anon >= huge_pages())
		widen_run(resident->owner, huge_pages());
	resident->anon = pages[ANON_PAGES];
	return take_in(resident, pages, ALONE);
}

#endif
