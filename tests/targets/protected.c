/* Parts of reserved address space that become memory, and stop being memory, each in a span of its own. */
#define _GNU_SOURCE
#include "memtrace.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1UL << 20)

static const int RW = PROT_READ | PROT_WRITE, FLAGS = MAP_PRIVATE | MAP_ANONYMOUS;

static void check(int fine, int line) {
    if (!fine) _exit(line);
}
#define CHECK(fine) check(fine, __LINE__)

static char *reserve(size_t bytes) {
    char *place = mmap(0, bytes, PROT_NONE, FLAGS | MAP_NORESERVE, -1, 0);
    CHECK(place != MAP_FAILED);
    return place;
}

static void commit(char *start, size_t bytes) {
    CHECK(mprotect(start, bytes, RW) == 0);
    memset(start, 1, bytes);
}

static void decommit(char *start, size_t bytes) {
    CHECK(mprotect(start, bytes, PROT_NONE) == 0 && madvise(start, bytes, MADV_DONTNEED) == 0);
}

#define SPAN(name) for (uint64_t span = memtrace_span_begin(name, 0, 0, 0, 0), once = 1; once; once = 0, \
                        memtrace_span_end(span, 0, 0))

int main(void) {
    char *place = reserve(1024 * MIB);
    SPAN("whole") {
        commit(place + 8 * MIB, 100 * MIB);
        decommit(place + 8 * MIB, 100 * MIB);
    }
    /* As large as before: what was given back is in no peak any more. */
    SPAN("again") {
        commit(place + 8 * MIB, 60 * MIB);
        decommit(place + 8 * MIB, 60 * MIB);
        commit(place + 300 * MIB, 40 * MIB);
        decommit(place + 300 * MIB, 40 * MIB);
    }
    SPAN("parts") {
        commit(place, 10 * MIB);
        commit(place + 5 * MIB, 10 * MIB);   /* half of it was memory already */
        decommit(place + 2 * MIB, 4 * MIB);  /* out of the middle of both */
        CHECK(mprotect(place + 4 * MIB + 1, MIB, RW) == -1);
        CHECK(pkey_mprotect(place + 20 * MIB, 3 * MIB, RW, -1) == 0);
    }
    SPAN("replaced") {
        commit(place + 40 * MIB, 20 * MIB);
        CHECK(mmap(place + 40 * MIB, 15 * MIB, PROT_NONE, FLAGS | MAP_FIXED, -1, 0) == place + 40 * MIB);
        commit(place + 40 * MIB, 5 * MIB);
        munmap(place + 40 * MIB, 20 * MIB);
    }
    /* Neither is a reservation: nothing changes. */
    SPAN("guarded") {
        char *own = mmap(0, 4 * MIB, RW, FLAGS, -1, 0);
        CHECK(mprotect(own, 1 * MIB, PROT_NONE) == 0);
        CHECK(mprotect(own, 1 * MIB, RW) == 0);
        CHECK(mprotect(own, 4 * MIB, PROT_READ | PROT_EXEC) == 0);
        CHECK(mprotect(place + 200 * MIB, MIB, PROT_READ) == 0);
    }
    pid_t child = fork();
    if (child == 0) {
        SPAN("child") {
            commit(reserve(64 * MIB), 16 * MIB);
            memset(place, 2, 1 * MIB);
            decommit(place + 10 * MIB, 4 * MIB); /* its own view of what the parent has */
        }
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
