// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/* What the loader sets, maps that programs and tracer share, and how an event is sent. */
#ifndef MEMTRACE_TABLES_H
#define MEMTRACE_TABLES_H

#define CPUS_MAX 512

/* The loader sets: processors that there can be, none if a program cannot read what another
 * processor has (before Linux 5.19); whether counters are those of Linux before 6.2; whether those
 * of one mm_struct lie side by side; whether processes are watched that were running before; and
 * what a page has, as a power of two. */
volatile const u32 processors = 1;
volatile const u32 split = 0;
volatile const u32 together = 1;
volatile const u32 joins_late = 0;
volatile const u32 page_shift = 12;

/* Pages of the largest page that a fault brings: as many as one page has entries for. Those of
 * 1 GiB are not anonymous memory. */
INLINE u32 huge_pages(void)
{
	return 1 << (page_shift - 3);
}

/* Pages of a step of 64 KiB, which is the largest page. */
INLINE u32 step_pages(void)
{
	return 1 << (16 - page_shift);
}

/* The traced tree, by pid (of the first pid namespace). */
struct {
	NUMBER(type, MAP_HASH);
	NUMBER(map_flags, MAP_NO_PREALLOC);
	NUMBER(max_entries, 16384);
	TYPE(key, u32);
	TYPE(value, struct task);
} tasks SEC(".maps");

/* Its memory, by address of the mm_struct: reclaim and fork change it from outside of the
 * process. */
struct {
	NUMBER(type, MAP_HASH);
	NUMBER(map_flags, MAP_NO_PREALLOC);
	NUMBER(max_entries, 16384);
	TYPE(key, u64);
	TYPE(value, struct resident);
} memories SEC(".maps");

struct {
	NUMBER(type, MAP_RINGBUF);
	NUMBER(max_entries, 1 << 20);
} events SEC(".maps");

struct {
	NUMBER(type, MAP_PERCPU_ARRAY);
	NUMBER(max_entries, LOSSES);
	TYPE(key, u32);
	TYPE(value, u64);
} lost SEC(".maps");

INLINE void count_lost(u32 why)
{
	u64 *count = bpf_map_lookup_elem(&lost, &why);
	if (count)
		++*count;
}

/* An event to be filled in and submitted; none if the ring is full, which is counted. */
INLINE struct event *new_event(u32 kind, u32 pid, u64 ns)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof *event, 0);
	if (!event) {
		count_lost(LOST_RING_FULL);
		return 0;
	}
	__builtin_memset(event, 0, sizeof *event);
	event->ns = ns;
	event->kind = kind;
	event->pid = pid;
	event->tid = (u32)bpf_get_current_pid_tgid();
	return event;
}

/* The tracer reads the ring when it reads those of the probe: no wake-up is needed. */
INLINE void send(struct event *event)
{
	bpf_ringbuf_submit(event, NO_WAKEUP);
}

INLINE struct task *task_of(u32 pid)
{
	struct task *task = bpf_map_lookup_elem(&tasks, &pid);
	return task && !task->seed ? task : 0;
}

INLINE u32 current_pid(void)
{
	return bpf_get_current_pid_tgid() >> 32;
}

#endif
