// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/*
 * Counters of resident pages before Linux 6.2: each is a central sum, and what each thread has not
 * added to it yet, up to 64 page faults of it (SPLIT_RSS_COUNTING in mm/memory.c). Only a change
 * of a central sum is reported; what there was before it fell is known from what it fell by.
 */
#ifndef MEMTRACE_SPLIT_H
#define MEMTRACE_SPLIT_H

/* Of a process with more threads, the parts of those that began first are counted. */
#define THREADS_MAX 64

/* By thread. */
struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 4096);
	TYPE(key, u32);
	TYPE(value, struct moved);
} moving SEC(".maps");

/* Notes what the current thread is about to forget, and returns it. */
INLINE struct part note_moved(u32 member)
{
	struct task_struct *current = bpf_get_current_task();
	u32 thread = (u32)bpf_get_current_pid_tgid();
	struct moved now = {.member = member};
	bpf_probe_read_kernel(&now.part, sizeof now.part, &current->rss_stat);
	bpf_map_update_elem(&moving, &thread, &now, ANY);
	return now.part;
}

/* The verifier follows every branch of a loop in every turn: there are none but its ends. What
 * cannot be read, a note that is not there too, reads as zeroes, which change nothing. */
INLINE void add_part_of(struct task_struct *thread, s64 *pages)
{
	struct part part = {};
	struct moved moved = {};
	u32 id = 0, runs = 0;
	bpf_probe_read_kernel(&part, sizeof part, &thread->rss_stat);
	COPY(id, thread->pid);
	COPY(runs, thread->on_cpu);
	bpf_probe_read_kernel(&moved, sizeof moved, bpf_map_lookup_elem(&moving, &id));
	for (u32 i = 0; i < COUNTERS; i++)
		pages[i] += part.count[i] & ~is_in_sum(&moved, &part, i, runs);
}

/* `threads` is the head of the list of the process's threads. */
INLINE void look(struct mm_struct *mm, u64 threads, s64 *central, s64 *pages)
{
	u32 place = __builtin_preserve_field_info(((struct task_struct *)0)->thread_node, 0);
	u64 next = 0;
	bpf_probe_read_kernel(central, COUNTERS * sizeof *central, ((struct mm_struct___split *)mm)->rss_stat.count);
	for (int i = 0; i < COUNTERS; i++)
		pages[i] = central[i];
	bpf_probe_read_kernel(&next, sizeof next, (const void *)threads);
	for (u32 count = 0; count < THREADS_MAX && next && next != threads; count++) {
		add_part_of((struct task_struct *)(next - place), pages);
		bpf_probe_read_kernel(&next, sizeof next, (const void *)next);
	}
}

/* A thread that has added its part and is not at its note yet has made it by the second look: the
 * lower count is right. */
INLINE void count_split(struct mm_struct *mm, u64 threads, s64 *central, s64 *pages)
{
	s64 again[COUNTERS];
	look(mm, threads, central, pages);
	look(mm, threads, central, again);
	for (int i = 0; i < COUNTERS; i++)
		pages[i] += (again[i] - pages[i]) & sign_of(again[i] - pages[i]);
}

/* Where the list of the threads of a task's process begins. */
INLINE u64 threads_of(struct task_struct *task)
{
	struct signal_struct *signal = 0;
	COPY(signal, task->signal);
	return (u64)&signal->thread_head;
}

#endif
