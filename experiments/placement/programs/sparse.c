/* Products of a sparse matrix with a vector that is read at random: the vector takes the time.
 *     sparse ROUNDS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 1 << 19, PER_ROW = 8, COLUMNS = 1 << 23 };

static double product(const double *values, const uint32_t *columns, const double *vector, double *out) {
  double sum = 0;
  for (int row = 0; row < ROWS; row++) {
    double all = 0;
    for (int k = 0; k < PER_ROW; k++) {
      size_t at = (size_t)row * PER_ROW + k;
      all += values[at] * vector[columns[at]];
    }
    out[row] = all;
    sum += all;
  }
  return sum;
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 10;
  double *values = malloc(sizeof *values * ROWS * PER_ROW);
  uint32_t *columns = malloc(sizeof *columns * ROWS * PER_ROW);
  double *vector = malloc(sizeof *vector * COLUMNS);
  double *out = malloc(sizeof *out * ROWS);
  uint64_t state = 1;
  for (size_t at = 0; at < (size_t)ROWS * PER_ROW; at++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    values[at] = 1.0 / (1 + (state >> 60));
    columns[at] = (state >> 33) % COLUMNS;
  }
  for (size_t at = 0; at < COLUMNS; at++) vector[at] = (double)at;
  double sum = 0;
  for (int round = 0; round < rounds; round++) sum += product(values, columns, vector, out);
  printf("%g\n", sum);
}
