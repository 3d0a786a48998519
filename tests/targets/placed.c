/* Large blocks by every function, in threads and in a forked child. Prints what must not depend on
 * where they are; on standard error how much of the first block is in huge pages, kB.
 *     placed [ROUNDS [TURNS]]
 * A thread has TURNS blocks, one after the other. */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20 };
static int turns = 100;

static long sum(const unsigned char *block, size_t bytes) {
  long all = 0;
  for (size_t at = 0; at < bytes; at += 64) all += block[at];
  return all;
}

static void *filled(void *block, size_t bytes) {
  memset(block, 3, bytes);
  return block;
}

/* kB of a field of the mapping that has an address. */
static long of_mapping(const void *address, const char *field) {
  FILE *maps = fopen("/proc/self/smaps", "r");
  char line[512];
  unsigned long start, end;
  long found = -1;
  int inside = 0;
  while (fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%lx-%lx ", &start, &end) == 2 && strchr(line, '-') < strchr(line, ' '))
      inside = start <= (uintptr_t)address && (uintptr_t)address < end;
    if (inside && !strncmp(line, field, strlen(field))) found = atol(line + strlen(field) + 1);
  }
  fclose(maps);
  return found;
}

static void *work(void *seed) {
  long all = 0;
  for (int round = 0; round < turns; round++) {
    size_t bytes = (size_t)MIB + 4096 * (size_t)((uintptr_t)seed % 3);
    unsigned char *block = round % 2 ? malloc(bytes) : calloc(1, bytes);
    all += round % 2 ? 0 : sum(block, bytes);
    memset(block, 1, bytes);
    all += sum(block, bytes);
    free(block);
  }
  return (void *)all;
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 1;
  if (argc > 2) turns = atoi(argv[2]);
  unsigned char *first = filled(malloc(8 * MIB), 8 * MIB);
  fprintf(stderr, "huge %ld\n", of_mapping(first + 4 * MIB, "AnonHugePages:"));
  madvise(first, 8 * MIB, MADV_NOHUGEPAGE);
  madvise(first, 8 * MIB, MADV_HUGEPAGE);
  for (int round = 0; round < rounds; round++) {
    unsigned char *zeroes = calloc(4, MIB), *aligned = aligned_alloc(4096, 3 * MIB);
    void *by_pointer = NULL;
    int failed = posix_memalign(&by_pointer, 64, 2 * MIB) | posix_memalign(&by_pointer, 64, 2 * MIB);
    printf("%ld %d %d\n", sum(zeroes, 4 * MIB), failed, posix_memalign(&by_pointer, 24, MIB));
    filled(zeroes, 4 * MIB);
    filled(aligned, 3 * MIB);
    int is_usable = malloc_usable_size(aligned) >= 3 * MIB && malloc_usable_size(zeroes) >= 4 * MIB;
    unsigned char *grown = realloc(filled(malloc(5 * MIB), 5 * MIB), 9 * MIB);
    unsigned char *shrunk = realloc(filled(malloc(5 * MIB), 5 * MIB), 2 * MIB);
    printf("%ld %ld %d\n", sum(grown, 5 * MIB), sum(shrunk, 2 * MIB), is_usable);
    printf("%d\n", realloc(malloc(5 * MIB), 0) == NULL);
    free(zeroes), free(aligned), free(by_pointer), free(grown), free(shrunk);
    zeroes = calloc(4, MIB);
    printf("%ld\n", sum(zeroes, 4 * MIB));
    free(zeroes);
  }
  pthread_t threads[4];
  long all = 0;
  for (uintptr_t at = 0; at < 4; at++) pthread_create(&threads[at], NULL, work, (void *)at);
  for (int at = 0; at < 4; at++) {
    void *result;
    pthread_join(threads[at], &result);
    all += (long)result;
  }
  printf("%ld\n", all);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    long inherited = sum(first, 8 * MIB);
    free(first);
    unsigned char *own = filled(malloc(8 * MIB), 8 * MIB);
    inherited += sum(own, 8 * MIB);
    free(own);
    printf("%ld\n", inherited);
    return 0;
  }
  int status;
  waitpid(child, &status, 0);
  printf("%d %ld\n", status, sum(first, 8 * MIB));
  free(first);
}
