/* Seven points of a volume: it is read three planes at a time, and takes more time than the result,
 * which is written once.
 *     stencil ROUNDS */
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 240, PLANE = SIDE * SIDE, CELLS = SIDE * SIDE * SIDE };

static void step(const double *in, double *out) {
  for (int i = 1; i < SIDE - 1; i++)
    for (int j = 1; j < SIDE - 1; j++)
      for (int k = 1; k < SIDE - 1; k++) {
        size_t at = (size_t)i * PLANE + j * SIDE + k;
        out[at] = in[at] + 0.1 * (in[at - 1] + in[at + 1] + in[at - SIDE] + in[at + SIDE] +
                                  in[at - PLANE] + in[at + PLANE] - 6 * in[at]);
      }
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 10;
  double *in = malloc(sizeof *in * CELLS);
  double *out = malloc(sizeof *out * (CELLS + 4096)); /* a size of its own */
  for (size_t at = 0; at < CELLS; at++) in[at] = (double)(at % 97);
  for (int round = 0; round < rounds; round++) {
    step(in, out);
    in[CELLS / 2] = out[CELLS / 2];
  }
  printf("%g\n", out[CELLS / 2]);
}
