/* Chains of pointers through one block, and sums of another: each load of a chain waits for the last.
 *     chase ROUNDS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { NODES = 1 << 22, STEPS = 1 << 21 };

typedef struct Node {
  struct Node *next;
  uint64_t value;
} Node;

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 4;
  Node *nodes = malloc(sizeof *nodes * NODES);
  double *numbers = malloc(sizeof *numbers * NODES);
  uint32_t *order = malloc(sizeof *order * NODES);
  for (uint32_t at = 0; at < NODES; at++) order[at] = at, numbers[at] = at;
  uint64_t state = 5;
  for (uint32_t at = NODES - 1; at > 0; at--) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint32_t other = (state >> 33) % (at + 1), kept = order[at];
    order[at] = order[other];
    order[other] = kept;
  }
  for (uint32_t at = 0; at < NODES; at++)
    nodes[order[at]] = (Node){&nodes[order[(at + 1) % NODES]], at};
  free(order);
  double sum = 0;
  Node *node = nodes;
  for (int round = 0; round < rounds; round++) {
    for (int step = 0; step < STEPS; step++) node = node->next;
    for (uint32_t at = 0; at < NODES; at++) sum += numbers[at];
  }
  printf("%g %d\n", sum, (int)node->value & 1);
}
