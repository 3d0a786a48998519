// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/* The traced tree: which processes are forked, execute another program, and end. */
#ifndef MEMTRACE_LIFE_H
#define MEMTRACE_LIFE_H

/* void sched_process_fork(struct task_struct *parent, struct task_struct *child) */
FUNCTION_OF("tp_btf/sched_process_fork") sched_process_fork(u64 *context)
{
	struct task_struct *parent = (struct task_struct *)context[0], *child = (struct task_struct *)context[1];
	u32 pid = child->tgid, of = parent->tgid;
	struct mm_struct *mm = memory_of(child);
	int known = bpf_map_lookup_elem(&tasks, &of) != 0;
	int what = born(known, of, pid, (u64)memory_of(parent), (u64)mm);
	if (what == NOT_OURS || what == A_THREAD)
		return 0;
	struct task new = {.mm = (u64)mm};
	if (bpf_map_update_elem(&tasks, &pid, &new, ANY)) {
		count_lost(LOST_TABLE_FULL);
		return 0;
	}
	struct event *event = new_event(FORK, pid, bpf_ktime_get_ns());
	if (event) {
		event->values[0] = of;
		event->values[1] = what == A_PROCESS;
		send(event);
	}
	/* Its pages were counted before it could be known. */
	if (what == A_PROCESS && mm)
		watch_memory(pid, child, mm, split);
	return 0;
}

/* Reports the peak of the image that ends, and its faults. */
INLINE void end_image(u32 pid, struct task *task, u32 by_exit)
{
	u64 key = task->mm, ns = bpf_ktime_get_ns();
	struct resident *resident = bpf_map_lookup_elem(&memories, &key);
	end_run(pid);
	struct event *counts = new_event(COUNTS, pid, ns);
	if (counts) {
		counts->values[0] = task->faults;
		counts->values[1] = task->by_kernel;
		counts->values[2] = task->thinned;
		send(counts);
	}
	task->faults = task->by_kernel = task->thinned = 0;
	/* Between vfork and exec, memory is the parent's. */
	if (!resident || resident->owner != pid)
		return;
	struct event *event = new_event(END, pid, ns);
	if (!event) {
		resident->ended = 1 + by_exit;
		return;
	}
	event->code = by_exit;
	for (int i = 0; i < COUNTERS; i++)
		event->values[i] = resident->at_peak[i];
	event->values[4] = resident->peak;
	event->values[5] = resident->peak_ns ? resident->peak_ns : ns;
	send(event);
	bpf_map_delete_elem(&memories, &key);
}

/* void sched_process_exec(struct task_struct *task, pid_t old_pid, struct linux_binprm *program) */
FUNCTION_OF("tp_btf/sched_process_exec") sched_process_exec(u64 *context)
{
	struct task_struct *current = (struct task_struct *)context[0];
	u32 pid = current->tgid;
	struct mm_struct *mm = memory_of(current);
	struct task *task = task_of(pid);
	if (!task || !mm)
		return 0;
	end_image(pid, task, 0);
	task->mm = (u64)mm;
	struct event *event = new_event(EXEC, pid, bpf_ktime_get_ns());
	if (event) {
		bpf_get_current_comm(event->values, 16);
		send(event);
	}
	watch_memory(pid, current, mm, split);
	return 0;
}

/* void sched_process_exit(struct task_struct *task, bool group_dead): the second argument came with Linux 6.16. */
FUNCTION_OF("tp_btf/sched_process_exit") sched_process_exit(u64 *context)
{
	struct task_struct *current = (struct task_struct *)context[0];
	u32 pid = current->tgid;
	struct task *task = task_of(pid);
	struct signal_struct *signal = 0;
	int live = 0, of_group = 0;
	if (!task)
		return 0;
	COPY(signal, current->signal);
	COPY(live, signal->live.counter);
	COPY(of_group, signal->group_exit_code);
	if (live > 0)
		return 0;
	end_image(pid, task, 1);
	struct event *event = new_event(EXIT, pid, bpf_ktime_get_ns());
	if (event) {
		event->code = of_group ? of_group : current->exit_code;
		send(event);
	}
	bpf_map_delete_elem(&tasks, &pid);
	return 0;
}

#endif
