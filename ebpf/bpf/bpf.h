// SPDX-License-Identifier: (MIT OR GPL-2.0) OR Apache-2.0
/* Helpers and map definitions (bpf-helpers(7), Documentation/bpf/btf.rst). */
#ifndef MEMTRACE_BPF_H
#define MEMTRACE_BPF_H

#include "event.h"

#define SEC(name) __attribute__((section(name), used))
#define FUNCTION_OF(section) SEC(section) int
#define NUMBER(name, value) int(*name)[value]
#define TYPE(name, type) typeof(type) *name

enum { MAP_HASH = 1, MAP_PERCPU_ARRAY = 6, MAP_LRU_HASH = 9, MAP_RINGBUF = 27, MAP_NO_PREALLOC = 1 };
enum { ANY = 0, NO_WAKEUP = 1 };

static void *(*bpf_map_lookup_elem)(const void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(const void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(const void *map, const void *key) = (void *)3;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*bpf_get_current_comm)(void *to, u32 bytes) = (void *)16;
static long (*bpf_probe_read_kernel)(void *to, u32 bytes, const void *from) = (void *)113;
static void *(*bpf_ringbuf_reserve)(const void *ring, u64 bytes, u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *record, u64 flags) = (void *)132;
static struct task_struct *(*bpf_get_current_task_btf)(void) = (void *)158;
static struct task_struct *(*bpf_get_current_task)(void) = (void *)35; /* of no type that the verifier knows */
static u64 (*bpf_get_attach_cookie)(void *context) = (void *)174;
static void *(*bpf_map_lookup_percpu_elem)(const void *map, const void *key, u32 cpu) = (void *)195;

#endif
