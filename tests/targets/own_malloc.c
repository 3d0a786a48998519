/* A program with an allocator of its own, as some executables carry jemalloc: the linker finds its functions before
 * those of any library. It maps memory under a lock at the first request. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ARENA = 64 << 20 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *arena;
static size_t used;

void *malloc(size_t bytes) {
    pthread_mutex_lock(&lock);
    if (!arena) {
        arena = mmap(0, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    char *block = arena + used + 16;
    used += (bytes + 31) & ~15UL;
    ((size_t *)block)[-1] = bytes;
    pthread_mutex_unlock(&lock);
    return block;
}

void free(void *block) { (void)block; }

void *calloc(size_t count, size_t bytes) { return memset(malloc(count * bytes), 0, count * bytes); }

void *realloc(void *block, size_t bytes) {
    char *moved = malloc(bytes);
    size_t old = block ? ((size_t *)block)[-1] : 0;
    return block ? memcpy(moved, block, old < bytes ? old : bytes) : moved;
}

int main(void) {
    char *text = malloc(1000000);
    memset(text, 'x', 1000000);
    printf("%c\n", text[999999]);
    return 0;
}
