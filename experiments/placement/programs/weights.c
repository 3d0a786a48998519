/* Layers that are used in turn, again and again: a network that is too large for the memory.
 *
 *     weights ROUNDS [LAYERS]
 *
 * 32 matrices of 4 MiB, or fewer; each layer has an output of its own.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_LAYERS = 32, SIDE = 1024, BATCH = 64 };

int main(int count, char **arguments) {
    int rounds = count > 1 ? atoi(arguments[1]) : 10;
    int layers = count > 2 ? atoi(arguments[2]) : MOST_LAYERS;
    float *weights[MOST_LAYERS];
    if (layers < 1 || layers > MOST_LAYERS) return 2;
    unsigned state = 1;
    for (int layer = 0; layer < layers; layer++) {
        weights[layer] = malloc(sizeof(float) * SIDE * SIDE);
        for (int n = 0; n < SIDE * SIDE; n++) {
            state = state * 1664525 + 1013904223;
            weights[layer][n] = (float)(state >> 8) / (1 << 24) - 0.5f;
        }
    }
    float *input = calloc(BATCH * SIDE, sizeof(float));
    for (int n = 0; n < SIDE; n++) input[n] = 1;
    for (int round = 0; round < rounds; round++)
        for (int layer = 0; layer < layers; layer++) {
            float *output = calloc(BATCH * SIDE, sizeof(float));
            for (int row = 0; row < SIDE; row++) {
                const float *line = weights[layer] + row * SIDE;
                float sum[8] = {0};
                for (int n = 0; n < SIDE; n += 8)
                    for (int k = 0; k < 8; k++) sum[k] += line[n + k] * input[n + k];
                float all = 0;
                for (int k = 0; k < 8; k++) all += sum[k];
                output[row] = all / (1 + fabsf(all));
            }
            free(input);
            input = output;
        }
    double sum = 0;
    for (int n = 0; n < SIDE; n++) sum += input[n];
    printf("%.9g\n", sum);
    free(input);
    for (int layer = 0; layer < layers; layer++) free(weights[layer]);
    return 0;
}
