// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/* Page faults: which addresses were touched, joined to runs and thinned out. */
#ifndef MEMTRACE_FAULTS_H
#define MEMTRACE_FAULTS_H

/* What other processors have of the counters of an mm_struct, as this one has seen it last. */
struct view {
	u64 mm;
	u64 central; /* the central sums then, in one number */
	s64 elsewhere[COUNTERS];
};

/* What a processor is at; the tracer reads it too, for runs that have not come to their end. */
struct cursor {
	struct run run;
	struct allowance allowance;
	struct view view;
};

struct {
	NUMBER(type, MAP_PERCPU_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct cursor);
} cursors SEC(".maps");

INLINE void send_run(const struct run *run)
{
	struct event *event = new_event(FAULTS, run->pid, run->ns);
	if (!event)
		return;
	event->tid = run->tid;
	event->code = run->by_kernel;
	event->values[0] = run->first;
	event->values[1] = run->next - run->first;
	event->values[2] = run->faults;
	send(event);
}

INLINE void report_run(struct cursor *cursor, const struct run *run, u64 ns)
{
	struct task *task = task_of(run->pid);
	if (!task)
		return;
	__sync_fetch_and_add(run->by_kernel ? &task->by_kernel : &task->faults, run->faults);
	if (!allowed(&cursor->allowance, ns)) {
		__sync_fetch_and_add(&task->thinned, run->faults);
		return;
	}
	send_run(run);
}

/* Pages that threads touched last before another thread ran on their processor: clearing a huge
 * page takes long, and that it was one is known only afterwards. */
struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 1024);
	TYPE(key, u32);
	TYPE(value, u64);
} left_behind SEC(".maps");

INLINE int on_fault(u64 address, u32 by_kernel)
{
	u32 zero = 0;
	u64 ids = bpf_get_current_pid_tgid(), page = address >> page_shift, ns;
	u32 pid = ids >> 32, tid = (u32)ids;
	struct cursor *cursor = bpf_map_lookup_elem(&cursors, &zero);
	if (!cursor || goes_on(&cursor->run, pid, tid, page, by_kernel))
		return 0;
	/* What has a run is traced: no need to look it up. */
	if (cursor->run.pid != pid && !task_of(pid))
		return 0;
	ns = bpf_ktime_get_ns();
	if (cursor->run.pid) {
		u32 other = cursor->run.tid;
		u64 last = cursor->run.next - 1;
		if (other != tid)
			bpf_map_update_elem(&left_behind, &other, &last, ANY);
		report_run(cursor, &cursor->run, ns);
	}
	begin_run(&cursor->run, pid, tid, page, by_kernel, ns);
	return 0;
}

/* The run of faults that the current thread is in. It may have been moved to this processor
 * since. */
INLINE struct run *own_run(u32 pid)
{
	u32 zero = 0, tid = (u32)bpf_get_current_pid_tgid();
	struct cursor *cursor = bpf_map_lookup_elem(&cursors, &zero);
	if (cursor && cursor->run.pid == pid && cursor->run.tid == tid)
		return &cursor->run;
	for (u32 cpu = 0; cpu < CPUS_MAX && cpu < processors; cpu++) {
		cursor = bpf_map_lookup_percpu_elem(&cursors, &zero, cpu);
		if (cursor && cursor->run.pid == pid && cursor->run.tid == tid)
			return &cursor->run;
	}
	return 0;
}

/* Anonymous memory has grown by several pages at once. By a fault, those are a power of two. */
INLINE void widen_run(u32 pid, u64 pages)
{
	if (pages & (pages - 1) || current_pid() != pid)
		return;
	struct run *run = own_run(pid);
	if (run) {
		widen(run, pages);
		return;
	}
	u32 zero = 0, tid = (u32)bpf_get_current_pid_tgid();
	u64 *last = bpf_map_lookup_elem(&left_behind, &tid);
	struct cursor *cursor = bpf_map_lookup_elem(&cursors, &zero);
	if (!last || !cursor)
		return;
	struct run last_run = {
		.first = *last, .next = *last + 1, .ns = bpf_ktime_get_ns(), .pid = pid, .tid = tid};
	widen(&last_run, pages);
	/* Its faults are counted. */
	if (allowed(&cursor->allowance, last_run.ns))
		send_run(&last_run);
}

/* A process is about to end: what it touched last on this processor. */
INLINE void end_run(u32 pid)
{
	u32 zero = 0;
	struct cursor *cursor = bpf_map_lookup_elem(&cursors, &zero);
	if (!cursor || cursor->run.pid != pid)
		return;
	report_run(cursor, &cursor->run, bpf_ktime_get_ns());
	cursor->run.pid = 0;
}

/* void page_fault_user(unsigned long address, struct pt_regs *regs, unsigned long error_code) */
FUNCTION_OF("tp_btf/page_fault_user") page_fault_user(u64 *context)
{
	return on_fault(context[0], 0);
}

/* The same for what the kernel touches, also on a program's behalf: read(2) into a new buffer. */
FUNCTION_OF("tp_btf/page_fault_kernel") page_fault_kernel(u64 *context)
{
	return (s64)context[0] < 0 ? 0 : on_fault(context[0], 1);
}

/* What a program on a perf event gets (struct bpf_perf_event_data). */
struct sample {
	u64 registers[REGISTERS];
	u64 period;
	u64 address;
};

/* Both, where the kernel lacks these tracepoints. Addresses of the kernel are left out here, too. */
FUNCTION_OF("perf_event") page_fault(struct sample *sample)
{
	s64 address = sample->address;
	return address < 0 ? 0 : on_fault(address, is_kernel_mode(sample->registers));
}

#endif
