// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/*
 * The few members of kernel structures that the programs read. Where they lie is looked up in
 * the running kernel's BTF when the programs are loaded (CO-RE), so their order and gaps here
 * mean nothing.
 */
#ifndef MEMTRACE_KERNEL_H
#define MEMTRACE_KERNEL_H

#include "event.h"
#include "registers.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct percpu_counter {
	s64 count;
	s32 *counters;
};

struct mm_struct {
	struct percpu_counter rss_stat[COUNTERS]; /* so since Linux 6.2 */
	unsigned long start_brk;
};

/* Before Linux 6.2. */
struct mm_rss_stat {
	struct {
		s64 counter;
	} count[COUNTERS];
};

struct mm_struct___split {
	struct mm_rss_stat rss_stat;
};

struct task_rss_stat { /* `struct part` of logic.h */
	int events;
};

struct list_head {
	struct list_head *next;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
	int group_exit_code;
	struct list_head thread_head;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	int pid;
	int tgid;
	int exit_code;
	struct mm_struct *mm;
	struct signal_struct *signal;
	struct list_head thread_node;
	struct task_rss_stat rss_stat; /* before Linux 6.2 */
	int on_cpu;
};

/* A map of values per processor (linux/bpf.h). */
struct bpf_array {
	void *pptrs[0];
};

#pragma clang attribute pop

#endif
