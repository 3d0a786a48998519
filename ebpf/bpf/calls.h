// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/* System calls that map memory, and functions that the user names. Only for programs without a
 * probe: a program on system calls costs every process of the machine 40 to 90 ns for each of
 * its calls. */
#ifndef MEMTRACE_CALLS_H
#define MEMTRACE_CALLS_H

/* x86-64's numbers (asm/unistd_64.h). */
INLINE int is_mapping_call(u64 number)
{
	return number == 9 /* mmap */ || number == 11 /* munmap */ || number == 12 /* brk */ ||
	       number == 25 /* mremap */ || number == 28 /* madvise */ || number == 30 /* shmat */ ||
	       number == 29 /* shmget */ || number == 67 /* shmdt */;
}

/* Set in thread_info.status while a 32-bit system call runs, which has other numbers
 * (asm/thread_info.h). */
#define TS_COMPAT 2

/* void sys_exit(struct pt_regs *regs, long result): the registers still hold the arguments. */
FUNCTION_OF("tp_btf/sys_exit") sys_exit(u64 *context)
{
	struct pt_regs *regs = (struct pt_regs *)context[0];
	u64 number = regs->orig_ax;
	if (!is_mapping_call(number))
		return 0;
	struct task_struct *current = bpf_get_current_task();
	u32 pid = current_pid(), status = 0;
	if (!task_of(pid))
		return 0;
	COPY(status, current->thread_info.status);
	if (status & TS_COMPAT)
		return 0;
	/* What was touched before is reported before. */
	end_run(pid);
	struct event *event = new_event(CALL, pid, bpf_ktime_get_ns());
	if (!event)
		return 0;
	event->code = number;
	event->values[0] = regs->di;
	event->values[1] = regs->si;
	event->values[2] = regs->dx;
	event->values[3] = regs->r10;
	event->values[4] = regs->r8;
	event->values[5] = regs->r9;
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
	event->values[0] = regs->di;
	event->values[1] = regs->si;
	event->values[2] = regs->dx;
	event->values[3] = regs->cx;
	event->values[4] = regs->r8;
	event->values[5] = regs->r9;
	send(event);
	return 0;
}

#endif
