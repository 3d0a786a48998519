/* A finite-element problem as MiniFE has it: a matrix of 27 entries a row for nodes of a box, and
 * conjugate gradients.
 *     elements ROUNDS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 70, NODES = SIDE * SIDE * SIDE, MOST = 27 };

static void assemble(double *values, int32_t *columns, int32_t *rows) {
  int32_t used = 0;
  for (int i = 0; i < SIDE; i++)
    for (int j = 0; j < SIDE; j++)
      for (int k = 0; k < SIDE; k++) {
        int32_t row = (i * SIDE + j) * SIDE + k;
        rows[row] = used;
        for (int a = i - 1; a <= i + 1; a++)
          for (int b = j - 1; b <= j + 1; b++)
            for (int c = k - 1; c <= k + 1; c++) {
              if (a < 0 || b < 0 || c < 0 || a >= SIDE || b >= SIDE || c >= SIDE) continue;
              int32_t column = (a * SIDE + b) * SIDE + c;
              columns[used] = column;
              values[used++] = column == row ? 27 : -1;
            }
      }
  rows[NODES] = used;
}

static double product(const double *values, const int32_t *columns, const int32_t *rows, const double *p,
                      double *q) {
  double dot = 0;
  for (int row = 0; row < NODES; row++) {
    double sum = 0;
    for (int32_t at = rows[row]; at < rows[row + 1]; at++) sum += values[at] * p[columns[at]];
    q[row] = sum;
    dot += sum * p[row];
  }
  return dot;
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 10;
  double *values = malloc(sizeof *values * NODES * MOST);
  int32_t *columns = malloc(sizeof *columns * NODES * MOST);
  int32_t *rows = malloc(sizeof *rows * (NODES + 1));
  double *p = malloc(sizeof *p * NODES), *x = calloc(3 * NODES, sizeof *x);
  double *r = x + NODES, *q = r + NODES;
  assemble(values, columns, rows);
  double rr = 0;
  for (int at = 0; at < NODES; at++) {
    r[at] = p[at] = 1 + at % 7;
    rr += r[at] * r[at];
  }
  for (int round = 0; round < rounds; round++) {
    double alpha = rr / product(values, columns, rows, p, q), next = 0;
    for (int at = 0; at < NODES; at++) {
      x[at] += alpha * p[at];
      r[at] -= alpha * q[at];
      next += r[at] * r[at];
    }
    for (int at = 0; at < NODES; at++) p[at] = r[at] + next / rr * p[at];
    rr = next;
  }
  printf("%g\n", x[NODES / 2]);
}
