/* Ranks of the pages of a random graph: each page collects from those that lead to it.
 *     ranks ROUNDS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAGES = 1 << 21, LINKS = PAGES * 4 };

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 5;
  uint32_t *from = malloc(sizeof *from * LINKS);
  double *ranks = malloc(sizeof *ranks * PAGES), *next = malloc(sizeof *next * (PAGES + 1));
  float *weights = malloc(sizeof *weights * PAGES);
  uint64_t state = 11;
  for (size_t at = 0; at < LINKS; at++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint64_t one = (state >> 20) % PAGES, other = (state >> 42) % PAGES;
    from[at] = one < other ? one : other; /* few pages lead to many */
  }
  for (size_t at = 0; at < PAGES; at++) ranks[at] = 1, weights[at] = 1.0f / (1 + at % 5);
  for (int round = 0; round < rounds; round++) {
    for (size_t page = 0; page < PAGES; page++) {
      double sum = 0;
      for (int k = 0; k < 4; k++) {
        uint32_t other = from[4 * page + k];
        sum += ranks[other] * weights[other];
      }
      next[page] = 0.15 + 0.85 * sum / 4;
    }
    for (size_t page = 0; page < PAGES; page++) ranks[page] = next[page];
  }
  printf("%g\n", ranks[PAGES / 2]);
}
