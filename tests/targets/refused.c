/* Calls that are refused memory under a limit on address space; the program goes on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { MB = 1000000 };
#define OWN __attribute__((noinline)) static

static char *held;

OWN void hold(void) { held = memset(malloc(100 * (size_t)MB), 1, 100 * (size_t)MB); }

OWN int by_malloc(void) { return malloc(5000 * (size_t)MB) == 0 && errno == ENOMEM; }

OWN int by_posix_memalign(void) {
    void *block;
    return posix_memalign(&block, 64, 6000 * (size_t)MB) == ENOMEM;
}

OWN int by_mmap(void) {
    return mmap(0, 7000 * (size_t)MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}

OWN int by_realloc(void) { return realloc(held, 8000 * (size_t)MB) == 0; }

int main(void) {
    struct rlimit limit = {4000 * (size_t)MB, 4000 * (size_t)MB};
    setrlimit(RLIMIT_AS, &limit);
    hold();
    int refused = by_malloc() + by_posix_memalign() + by_mmap() + by_realloc();
    for (int i = 0; i < 100; i++) {
        refused += by_malloc();
    }
    held[0] = 2;
    return refused == 104 ? 0 : 1;
}
