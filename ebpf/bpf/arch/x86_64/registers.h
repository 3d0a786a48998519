// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/* What a system call or a function was called with, on x86-64. */
#ifndef MEMTRACE_REGISTERS_H
#define MEMTRACE_REGISTERS_H

#include "logic.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long r10, r9, r8, ax, dx, si, di, orig_ax, cx;
};

struct thread_info {
	u32 status;
};

#pragma clang attribute pop

/* Of user space (asm/ptrace.h): what programs on perf events get. */
#define REGISTERS 21

INLINE u32 is_kernel_mode(const u64 *registers)
{
	return !(registers[17] & 3); /* cs */
}

/* asm/unistd_64.h */
INLINE int is_mapping_call(u64 number)
{
	return number == 9 /* mmap */ || number == 11 /* munmap */ || number == 12 /* brk */ ||
	       number == 25 /* mremap */ || number == 28 /* madvise */ || number == 30 /* shmat */ ||
	       number == 29 /* shmget */ || number == 67 /* shmdt */;
}

/* The number of the system call that has just returned. */
INLINE u64 number_of_call(struct pt_regs *regs)
{
	return regs->orig_ax;
}

/* The registers still hold its arguments. */
INLINE void arguments_of_call(struct pt_regs *regs, u64 *values)
{
	values[0] = regs->di;
	values[1] = regs->si;
	values[2] = regs->dx;
	values[3] = regs->r10;
	values[4] = regs->r8;
	values[5] = regs->r9;
}

INLINE void arguments_of_function(struct pt_regs *regs, u64 *values)
{
	values[0] = regs->di;
	values[1] = regs->si;
	values[2] = regs->dx;
	values[3] = regs->cx;
	values[4] = regs->r8;
	values[5] = regs->r9;
}

/* TS_COMPAT, set in thread_info.status while a 32-bit system call runs, which has other numbers
 * (asm/thread_info.h). */
#define FLAGS_OF_32_BIT status
#define IS_32_BIT 2

#endif
