// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/* Lack of memory: who had to reclaim some, and who was killed. */
#ifndef MEMTRACE_PRESSURE_H
#define MEMTRACE_PRESSURE_H

/* When the reclaim began that a thread is in. */
struct {
	NUMBER(type, MAP_HASH);
	NUMBER(map_flags, MAP_NO_PREALLOC);
	NUMBER(max_entries, 4096);
	TYPE(key, u32);
	TYPE(value, u64);
} reclaims SEC(".maps");

INLINE int reclaim_begins(void)
{
	u32 thread = (u32)bpf_get_current_pid_tgid();
	u64 ns = bpf_ktime_get_ns();
	if (task_of(current_pid()) && bpf_map_update_elem(&reclaims, &thread, &ns, ANY))
		count_lost(LOST_RING_FULL);
	return 0;
}

INLINE int reclaim_ends(u64 pages)
{
	u32 thread = (u32)bpf_get_current_pid_tgid();
	u64 *begun = bpf_map_lookup_elem(&reclaims, &thread);
	if (!begun)
		return 0;
	struct event *event = new_event(RECLAIM, current_pid(), *begun);
	if (event) {
		event->values[0] = bpf_ktime_get_ns() - *begun;
		event->values[1] = pages;
		send(event);
	}
	bpf_map_delete_elem(&reclaims, &thread);
	return 0;
}

FUNCTION_OF("tp_btf/mm_vmscan_direct_reclaim_begin") mm_vmscan_direct_reclaim_begin(u64 *context)
{
	return reclaim_begins();
}

/* void mm_vmscan_direct_reclaim_end(unsigned long nr_reclaimed) */
FUNCTION_OF("tp_btf/mm_vmscan_direct_reclaim_end") mm_vmscan_direct_reclaim_end(u64 *context)
{
	return reclaim_ends(context[0]);
}

/* The same where a control group is at its limit. */
FUNCTION_OF("tp_btf/mm_vmscan_memcg_reclaim_begin") mm_vmscan_memcg_reclaim_begin(u64 *context)
{
	return reclaim_begins();
}

FUNCTION_OF("tp_btf/mm_vmscan_memcg_reclaim_end") mm_vmscan_memcg_reclaim_end(u64 *context)
{
	return reclaim_ends(context[0]);
}

/* void mark_victim(struct task_struct *task, uid_t uid); an int, the pid, before Linux 6.8. */
FUNCTION_OF("tp_btf/mark_victim") mark_victim(u64 *context)
{
	u64 victim = as_number((const void *)context[0]);
	u32 pid = (u32)victim;
	if (victim >> 32)
		bpf_probe_read_kernel(&pid, sizeof pid, &((struct task_struct *)victim)->tgid);
	struct task *task = task_of(pid);
	if (!task)
		return 0;
	struct event *event = new_event(VICTIM, pid, bpf_ktime_get_ns());
	if (event)
		send(event);
	return 0;
}

/* Those whose default action ends the process, without those that programs commonly end by
 * (SIGHUP, SIGINT, SIGPIPE): SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGKILL,
 * SIGSEGV, SIGTERM, SIGXCPU, SIGSYS. */
#define FATAL (1u << 4 | 1u << 6 | 1u << 7 | 1u << 8 | 1u << 9 | 1u << 11 | 1u << 15 | 1u << 24 | 1u << 31)

/* void signal_generate(int sig, struct kernel_siginfo *info, struct task_struct *task, int group, int result) */
FUNCTION_OF("tp_btf/signal_generate") signal_generate(u64 *context)
{
	u32 number = (u32)context[0];
	struct task_struct *target = (struct task_struct *)context[2];
	if (number > 31 || !(FATAL >> number & 1))
		return 0;
	u32 pid = target->tgid;
	if (!task_of(pid))
		return 0;
	struct event *event = new_event(SIGNAL, pid, bpf_ktime_get_ns());
	if (event) {
		event->code = number;
		event->values[0] = current_pid();
		send(event);
	}
	return 0;
}

#endif
