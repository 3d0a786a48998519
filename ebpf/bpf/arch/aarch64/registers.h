// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/* What a system call or a function was called with, on 64-bit Arm. */
#ifndef MEMTRACE_REGISTERS_H
#define MEMTRACE_REGISTERS_H

#include "logic.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	u64 regs[31];
	u64 orig_x0;
	s32 syscallno;
};

struct thread_info {
	unsigned long flags;
};

#pragma clang attribute pop

/* Of user space (asm/ptrace.h): what programs on perf events get. */
#define REGISTERS 34

INLINE u32 is_kernel_mode(const u64 *registers)
{
	return !!(registers[33] & 15); /* pstate */
}

/* asm-generic/unistd.h */
INLINE int is_mapping_call(u64 number)
{
	return number == 222 /* mmap */ || number == 215 /* munmap */ || number == 214 /* brk */ ||
	       number == 216 /* mremap */ || number == 233 /* madvise */ ||
	       number == 196 /* shmat */ || number == 194 /* shmget */ || number == 197 /* shmdt */;
}

/* The number of the system call that has just returned. */
INLINE u64 number_of_call(struct pt_regs *regs)
{
	return regs->syscallno;
}

/* The registers still hold its arguments, but for the first, whose register has the result. */
INLINE void arguments_of_call(struct pt_regs *regs, u64 *values)
{
	values[0] = regs->orig_x0;
	values[1] = regs->regs[1];
	values[2] = regs->regs[2];
	values[3] = regs->regs[3];
	values[4] = regs->regs[4];
	values[5] = regs->regs[5];
}

INLINE void arguments_of_function(struct pt_regs *regs, u64 *values)
{
	values[0] = regs->regs[0];
	values[1] = regs->regs[1];
	values[2] = regs->regs[2];
	values[3] = regs->regs[3];
	values[4] = regs->regs[4];
	values[5] = regs->regs[5];
}

/* _TIF_32BIT, set in thread_info.flags of a 32-bit program, whose system calls have other numbers
 * (asm/thread_info.h). */
#define FLAGS_OF_32_BIT flags
#define IS_32_BIT (1 << 22)

#endif
