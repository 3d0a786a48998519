// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/* Kernel memory that the verifier does not follow. */
#ifndef MEMTRACE_READING_H
#define MEMTRACE_READING_H

/* The verifier forbids arithmetic on some addresses; read from the stack, they are numbers. */
INLINE u64 as_number(const void *pointer)
{
	const void *volatile on_stack = pointer;
	u64 number = 0;
	bpf_probe_read_kernel(&number, sizeof number, (const void *)&on_stack);
	return number;
}

/* The verifier looks for the types behind a pointer by name, half a millisecond for each. */
#define COPY(to, from) bpf_probe_read_kernel(&(to), sizeof(to), &(from))

INLINE struct mm_struct *memory_of(struct task_struct *task)
{
	struct mm_struct *mm = 0;
	COPY(mm, task->mm);
	return mm;
}

#endif
