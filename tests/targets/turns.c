/* Blocks that are used in turn, each before a block of its own is allocated.
 *     turns ROUNDS [WRITTEN [PERCENT]]    so many of them are written in each round, to so much of them */
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 16, WORDS = (2 << 20) / sizeof(unsigned) };

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 30, written = argc > 2 ? atoi(argv[2]) : 0;
  int words = argc > 3 ? WORDS / 100 * atoi(argv[3]) : WORDS;
  unsigned *blocks[BLOCKS], sum = 1;
  for (int n = 0; n < BLOCKS; n++) {
    blocks[n] = malloc(sizeof(unsigned) * WORDS);
    for (int at = 0; at < WORDS; at++) blocks[n][at] = sum = sum * 1664525 + 1013904223;
  }
  for (int round = 0; round < rounds; round++)
    for (int n = 0; n < BLOCKS; n++) {
      unsigned *part = malloc(1 << 17);
      for (int at = 0; at < 1 << 15; at++) part[at] = sum + at;
      for (int at = 0; at < WORDS; at++) {
        sum = (sum ^ blocks[n][at]) * 31 + part[at & 0x7fff];
        if (n < written && at < words) blocks[n][at] = sum;
      }
      free(part);
    }
  for (int n = 0; n < BLOCKS; n++) free(blocks[n]);
  printf("%u\n", sum);
  return 0;
}
