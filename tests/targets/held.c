// Comes to a peak of resident memory in one of many ways, holds it, says how large it is by /proc/self/smaps_rollup, and
// releases it. Usage: held WAY [MEBIBYTES]
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "resident.h"

static size_t bytes;
static size_t page;

static char *map(size_t length, int flags) {
    char *place = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (place == MAP_FAILED) abort();
    return place;
}

static void touch(char *place, size_t length, size_t stride) {
    for (size_t at = 0; at < length; at += stride) ((volatile char *)place)[at] = 1;
}

static void *touch_quarter(void *place) {
    touch(place, bytes / 4, page);
    return NULL;
}

static void in_threads(char *place) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, touch_quarter, place + i * (bytes / 4));
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

static long hold(void) {
    resident(); // what it needs itself is there from now on
    return resident();
}

static long anonymous(size_t stride, int advice) {
    char *place = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS);
    if (advice) madvise(place, bytes, advice);
    touch(place, bytes, stride);
    long held = hold();
    munmap(place, bytes);
    return held;
}

// Once, in the way asked for. Returns what was held.
static long come_and_go(const char *way) {
    long held = 0;
    if (!strcmp(way, "anonymous")) held = anonymous(page, 0);
    if (!strcmp(way, "sparse")) held = anonymous(3 * page, MADV_NOHUGEPAGE);
    if (!strcmp(way, "huge")) held = anonymous(page, MADV_HUGEPAGE);
    if (!strcmp(way, "populated")) {
        char *place = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE);
        held = hold();
        munmap(place, bytes);
    }
    if (!strcmp(way, "shared")) {
        char *place = map(bytes, MAP_SHARED | MAP_ANONYMOUS);
        touch(place, bytes, page);
        held = hold();
        munmap(place, bytes);
    }
    if (!strcmp(way, "read")) { // the page of zeroes is not counted
        char *place = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS);
        long sum = 0;
        for (size_t at = 0; at < bytes; at += page) sum += ((volatile char *)place)[at];
        touch(place, bytes / 2, page);
        held = hold() + sum;
        munmap(place, bytes);
    }
    if (!strcmp(way, "file") || !strcmp(way, "copied")) {
        char name[] = "/tmp/memtrace-held-XXXXXX";
        int file = mkstemp(name);
        unlink(name);
        if (ftruncate(file, bytes)) abort();
        int flags = strcmp(way, "file") ? MAP_PRIVATE : MAP_SHARED;
        char *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
        touch(place, bytes, page);
        held = hold();
        munmap(place, bytes);
    }
    if (!strcmp(way, "malloc")) {
        char *block = malloc(bytes);
        memset(block, 1, bytes);
        held = hold();
        free(block);
    }
    if (!strcmp(way, "small")) {
        enum { SIZE = 1000 };
        size_t blocks = bytes / SIZE;
        char **all = malloc(blocks * sizeof *all);
        for (size_t i = 0; i < blocks; i++) memset(all[i] = malloc(SIZE), 1, SIZE);
        held = hold();
        for (size_t i = 0; i < blocks; i++) free(all[i]);
        free(all);
    }
    if (!strcmp(way, "break")) {
        char *place = sbrk(bytes);
        touch(place, bytes, page);
        held = hold();
        sbrk(-(intptr_t)bytes);
    }
    if (!strcmp(way, "locked")) {
        char *place = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS);
        if (mlock(place, bytes)) touch(place, bytes, page);
        held = hold();
        munmap(place, bytes);
    }
    if (!strcmp(way, "given-back")) {
        char *place = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS);
        touch(place, bytes, page);
        held = hold();
        madvise(place, bytes, MADV_DONTNEED);
        touch(place, bytes / 2, page);
        munmap(place, bytes);
    }
    if (!strcmp(way, "twice")) { // a lower peak after the highest
        held = anonymous(page, 0);
        touch(map(bytes / 2, MAP_PRIVATE | MAP_ANONYMOUS), bytes / 2, page);
    }
    if (!strcmp(way, "moved")) {
        char *place = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS);
        touch(place, bytes, page);
        place = mremap(place, bytes, 2 * bytes, MREMAP_MAYMOVE);
        touch(place + bytes, bytes, page);
        held = hold();
        munmap(place, 2 * bytes);
    }
    if (!strcmp(way, "pieces")) {
        char *place = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS);
        touch(place, bytes, page);
        held = hold();
        for (size_t at = 0; at < bytes; at += 2 * page) munmap(place + at, page);
        munmap(place, bytes);
    }
    if (!strcmp(way, "threads")) {
        char *place = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS);
        madvise(place, bytes, MADV_NOHUGEPAGE);
        in_threads(place);
        held = hold();
        munmap(place, bytes);
    }
    if (!strcmp(way, "heaps")) { // allocated by one thread, touched by others
        char *block = malloc(bytes);
        in_threads(block);
        held = hold();
        free(block);
    }
    if (!strcmp(way, "kernel")) { // the kernel writes to it, not the program
        char *place = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS);
        int zero = open("/dev/zero", O_RDONLY);
        for (size_t at = 0; at < bytes;) at += read(zero, place + at, bytes - at);
        held = hold();
        munmap(place, bytes);
    }
    if (!strcmp(way, "fork")) { // a child shares its parent's pages, and adds some of its own
        char *place = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS);
        touch(place, bytes, page);
        pid_t child = fork();
        if (child) {
            waitpid(child, NULL, 0);
            exit(0);
        }
        touch(place, bytes / 2, page);
        char *own = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS);
        touch(own, bytes, page);
        held = hold();
        munmap(own, bytes);
        munmap(place, bytes);
    }
    if (!strcmp(way, "brief")) { // too short for anybody who looks now and then
        char *place = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE);
        munmap(place, bytes);
    }
    return held;
}

int main(int count, char **arguments) {
    page = sysconf(_SC_PAGESIZE);
    const char *way = count > 1 ? arguments[1] : "anonymous";
    bytes = (size_t)(count > 2 ? atol(arguments[2]) : 32) << 20;
    // Twice: the second time, the code that releases is in memory before there is anything to release. The array of
    // "small" counts the first time too: malloc(3) maps it by itself, with a page more, until one like it was freed.
    int once = !strcmp(way, "fork") || !strcmp(way, "twice");
    long first = 0;
    if (once) munmap(map(bytes / 8, MAP_PRIVATE | MAP_ANONYMOUS), bytes / 8);
    else first = come_and_go(way);
    long held = come_and_go(way);
    if (!strcmp(way, "small") && first > held) held = first;
    printf("%ld\n", held);
    return 0;
}
