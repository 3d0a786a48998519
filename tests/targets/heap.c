/* Every heap function once, with sizes of its own, so that a trace can be checked call by call. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    void *live[16];
    int count = 0;
    live[count++] = malloc(100001);
    live[count++] = calloc(3, 100003);
    live[count++] = memalign(64, 100019);
    live[count++] = aligned_alloc(64, 100032);
    if (posix_memalign(&live[count++], 4096, 100043)) return 1;
    live[count++] = valloc(100049);
    live[count++] = pvalloc(100057);
    live[count++] = realloc(NULL, 100069);
    live[count++] = reallocarray(NULL, 7, 100103);
    live[count++] = strdup("a string through malloc, of seventy bytes or so, which nobody asked for");
    /* A realloc that moves, one that shrinks, one that frees, and one that fails and must change nothing. */
    live[0] = realloc(live[0], 5000011);
    live[1] = realloc(live[1], 200003);
    void *freed = malloc(100109);
    if (realloc(freed, 0) != NULL) return 2;
    volatile size_t absurd = SIZE_MAX / 2;
    if (realloc(live[2], absurd) != NULL) return 3;
    if (reallocarray(live[2], absurd, 8) != NULL) return 4;
    for (int i = 0; i < count; i++) free(live[i]);
    free(NULL);
    puts("done");
    return 7;
}
