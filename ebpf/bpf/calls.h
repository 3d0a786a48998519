// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/* System calls that map memory, and functions that the user names. Only for programs without a
 * probe: a program on system calls costs every process of the machine 40 to 90 ns for each of
 * its calls. */
#ifndef MEMTRACE_CALLS_H
#define MEMTRACE_CALLS_H

/* void sys_exit(struct pt_regs *regs, long result) */
FUNCTION_OF("tp_btf/sys_exit") sys_exit(u64 *context)
{
	struct pt_regs *regs = (struct pt_regs *)context[0];
	u64 number = number_of_call(regs);
	if (!is_mapping_call(number))
		return 0;
	struct task_struct *current = bpf_get_current_task();
	__typeof__(current->thread_info.FLAGS_OF_32_BIT) flags = 0;
	u32 pid = current_pid();
	if (!task_of(pid))
		return 0;
	COPY(flags, current->thread_info.FLAGS_OF_32_BIT);
	if (flags & IS_32_BIT)
		return 0;
	/* What was touched before is reported before. */
	end_run(pid);
	struct event *event = new_event(CALL, pid, bpf_ktime_get_ns());
	if (!event)
		return 0;
	event->code = number;
	arguments_of_call(regs, event->values);
	event->values[6] = context[1];
	COPY(event->values[7], memory_of(current)->start_brk);
	send(event);
	return 0;
}

/* A function that `attach --uprobe` names. */
FUNCTION_OF("uprobe") function(struct pt_regs *regs)
{
	u32 pid = current_pid();
	if (!task_of(pid))
		return 0;
	struct event *event = new_event(FUNCTION, pid, bpf_ktime_get_ns());
	if (!event)
		return 0;
	event->code = (u32)bpf_get_attach_cookie(regs);
	arguments_of_function(regs, event->values);
	send(event);
	return 0;
}

#endif
