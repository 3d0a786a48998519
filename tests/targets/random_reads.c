/* Reads one array at random by numbers from another, or follows a chain of pointers (`chain`). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 1 << 23, READS = 1 << 22, ROUNDS = 12 };

static uint64_t follow(void **first) {
  void **at = first;
  for (uint64_t step = 0; step < 4 * READS; step++) at = *at;
  return (uint64_t)(at - first);
}

int main(int argc, char **argv) {
  uint64_t *cells = malloc(sizeof *cells * CELLS);
  uint32_t *numbers = malloc(sizeof *numbers * READS);
  uint64_t state = 1, sum = 0;
  if (argc > 1 && strcmp(argv[1], "chain") == 0) {
    /* A step of an odd length visits all cells. */
    for (uint64_t at = 0; at < CELLS; at++) cells[at] = (uint64_t)(cells + (at + 5000001) % CELLS);
    printf("%llu\n", (unsigned long long)follow((void **)cells));
    return 0;
  }
  for (size_t at = 0; at < READS; at++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    numbers[at] = (state >> 33) % CELLS;
  }
  for (size_t at = 0; at < CELLS; at++) cells[at] = at;
  for (int round = 0; round < ROUNDS; round++)
    for (size_t at = 0; at < READS; at++) sum += cells[numbers[at]];
  printf("%llu\n", (unsigned long long)sum);
}
