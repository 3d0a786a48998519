/* Look-ups in a table with open addressing: the table takes the time, not the keys, which are read
 * in their order.
 *     hash ROUNDS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 1 << 23, KEYS = 1 << 21 };

static uint64_t mixed(uint64_t key) {
  key *= 0x9e3779b97f4a7c15u;
  return key ^ key >> 29;
}

static uint64_t look_up(const uint64_t *table, uint64_t key) {
  uint64_t at = mixed(key) % SLOTS;
  while (table[at] != 0 && table[at] != key) at = (at + 1) % SLOTS;
  return at;
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 10;
  uint64_t *table = calloc(SLOTS, sizeof *table);
  uint64_t *keys = malloc(sizeof *keys * KEYS);
  uint64_t state = 7;
  for (size_t at = 0; at < KEYS; at++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    keys[at] = state | 1;
    table[look_up(table, keys[at])] = keys[at];
  }
  uint64_t sum = 0;
  for (int round = 0; round < rounds; round++)
    for (size_t at = 0; at < KEYS; at++) sum += look_up(table, keys[at]);
  printf("%llu\n", (unsigned long long)sum);
}
