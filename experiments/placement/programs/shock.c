/* Hydrodynamics on hexahedra as LULESH has it: forces are gathered from and scattered to the corners
 * of elements, nodes move, and elements get a new state. The nodes of the mesh have no order.
 *     shock ROUNDS */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 76, ELEMENTS = SIDE * SIDE * SIDE, EDGE = SIDE + 1, NODES = EDGE * EDGE * EDGE };

typedef struct {
  double x, y, z;
} Vector;
typedef struct {
  double energy, pressure, volume, first_volume;
} State;

static double volume(const Vector *corner) {
  double sum = 0;
  for (int a = 0; a < 8; a += 2) {
    const Vector *p = &corner[a], *q = &corner[(a + 3) % 8], *r = &corner[(a + 5) % 8];
    sum += p->x * (q->y * r->z - q->z * r->y) - p->y * (q->x * r->z - q->z * r->x) +
           p->z * (q->x * r->y - q->y * r->x);
  }
  return 1 + fabs(sum);
}

static void forces(const int32_t *corners, const Vector *places, const State *states, Vector *forces) {
  for (int at = 0; at < ELEMENTS; at++) {
    const int32_t *corner = &corners[8 * (size_t)at];
    Vector center = {0, 0, 0};
    for (int a = 0; a < 8; a++) {
      center.x += places[corner[a]].x / 8;
      center.y += places[corner[a]].y / 8;
      center.z += places[corner[a]].z / 8;
    }
    double pressure = states[at].pressure;
    for (int a = 0; a < 8; a++) {
      forces[corner[a]].x += pressure * (places[corner[a]].x - center.x);
      forces[corner[a]].y += pressure * (places[corner[a]].y - center.y);
      forces[corner[a]].z += pressure * (places[corner[a]].z - center.z);
    }
  }
}

static void moves(Vector *places, Vector *speeds, Vector *forces) {
  const double step = 1e-6;
  for (int at = 0; at < NODES; at++) {
    speeds[at].x += step * forces[at].x;
    speeds[at].y += step * forces[at].y;
    speeds[at].z += step * forces[at].z;
    places[at].x += step * speeds[at].x;
    places[at].y += step * speeds[at].y;
    places[at].z += step * speeds[at].z;
    forces[at] = (Vector){0, 0, 0};
  }
}

static void new_states(const int32_t *corners, const Vector *places, State *states) {
  for (int at = 0; at < ELEMENTS; at++) {
    Vector corner[8];
    for (int a = 0; a < 8; a++) corner[a] = places[corners[8 * (size_t)at + a]];
    State *state = &states[at];
    double now = volume(corner);
    state->energy -= state->pressure * (now - state->volume) * 1e-3;
    state->volume = now;
    state->pressure = state->energy * state->first_volume / (state->first_volume + now);
  }
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 5;
  int32_t *corners = malloc(sizeof *corners * 8 * ELEMENTS);
  Vector *places = malloc(sizeof *places * NODES), *speeds = calloc(NODES + 1, sizeof *speeds);
  Vector *force = calloc(NODES + 2, sizeof *force);
  State *states = malloc(sizeof *states * ELEMENTS);
  int32_t *order = malloc(sizeof *order * NODES);
  for (int at = 0; at < NODES; at++) order[at] = at;
  uint64_t state = 3;
  for (int at = NODES - 1; at > 0; at--) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    int other = (state >> 33) % (at + 1), kept = order[at];
    order[at] = order[other];
    order[other] = kept;
  }
  for (int i = 0; i < EDGE; i++)
    for (int j = 0; j < EDGE; j++)
      for (int k = 0; k < EDGE; k++)
        places[order[(i * EDGE + j) * EDGE + k]] = (Vector){i, j, k};
  for (int at = 0; at < ELEMENTS; at++) {
    int i = at / (SIDE * SIDE), j = at / SIDE % SIDE, k = at % SIDE;
    for (int a = 0; a < 8; a++)
      corners[8 * (size_t)at + a] = order[((i + a / 4) * EDGE + j + a / 2 % 2) * EDGE + k + a % 2];
    states[at] = (State){1, 1, 1, 1};
  }
  free(order);
  for (int round = 0; round < rounds; round++) {
    forces(corners, places, states, force);
    moves(places, speeds, force);
    new_states(corners, places, states);
  }
  printf("%g\n", states[ELEMENTS / 2].energy);
}
