/* The third set: kernels in C. The table is here, with those in C++ and Fortran. */
#include "kernels.h"

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The numbers above 0.8 as a sparse matrix, and its product with a vector. */
static double compressed_rows(const double *numbers, size_t rows, size_t columns) {
    size_t *starts = malloc((rows + 1) * sizeof *starts), count = 0;
    for (size_t i = 0; i < rows; i++) {
        starts[i] = count;
        for (size_t j = 0; j < columns; j++)
            count += numbers[i * columns + j] > 0.8;
    }
    starts[rows] = count;
    uint32_t *places = malloc(count * sizeof *places);
    double *values = malloc(count * sizeof *values), sum = 0;
    for (size_t i = 0, at = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            if (numbers[i * columns + j] > 0.8) {
                places[at] = (uint32_t)j;
                values[at++] = numbers[i * columns + j];
            }
    double *weights = malloc(columns * sizeof *weights);
    for (size_t j = 0; j < columns; j++)
        weights[j] = 1.0 / (double)(j + 1);
    for (size_t i = 0; i < count; i++)
        sum += values[i] * weights[places[i]];
    free(starts);
    free(places);
    free(values);
    free(weights);
    return sum;
}

/* Every fourth number as text, in a buffer that doubles. */
static double table_of_text(const double *numbers, size_t rows, size_t columns) {
    size_t room = 256, used = 0;
    char *text = malloc(room);
    for (size_t i = 0; i < rows * columns; i += 4) {
        if (room - used < 32)
            text = realloc(text, room *= 2);
        used += (size_t)snprintf(text + used, 32, "%.6f%c", numbers[i], i % columns ? ' ' : '\n');
    }
    double sum = 0;
    for (size_t i = 0; i < used; i++)
        sum += text[i];
    free(text);
    return sum;
}

/* One thread makes lines, another uses them: eight at most are on their way. */
struct belt {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    double *lines[8];
    size_t made, used, rows, columns;
    const double *numbers;
};

static void *make_lines(void *argument) {
    struct belt *belt = argument;
    for (size_t i = 0; i < belt->rows; i++) {
        double *line = malloc(belt->columns * sizeof *line);
        for (size_t j = 0; j < belt->columns; j++)
            line[j] = sqrt(belt->numbers[i * belt->columns + j]);
        pthread_mutex_lock(&belt->lock);
        while (belt->made - belt->used == 8)
            pthread_cond_wait(&belt->moved, &belt->lock);
        belt->lines[belt->made++ % 8] = line;
        pthread_cond_broadcast(&belt->moved);
        pthread_mutex_unlock(&belt->lock);
    }
    return NULL;
}

static double pipeline(const double *numbers, size_t rows, size_t columns) {
    struct belt belt = {.rows = rows, .columns = columns, .numbers = numbers};
    pthread_mutex_init(&belt.lock, NULL);
    pthread_cond_init(&belt.moved, NULL);
    double *image = calloc(rows * columns, sizeof *image), sum = 0;
    pthread_t maker;
    pthread_create(&maker, NULL, make_lines, &belt);
    for (size_t i = 0; i < rows; i++) {
        pthread_mutex_lock(&belt.lock);
        while (belt.made == belt.used)
            pthread_cond_wait(&belt.moved, &belt.lock);
        double *line = belt.lines[belt.used++ % 8];
        pthread_cond_broadcast(&belt.moved);
        pthread_mutex_unlock(&belt.lock);
        memcpy(image + i * columns, line, columns * sizeof *line);
        free(line);
    }
    pthread_join(maker, NULL);
    for (size_t i = 0; i < rows * columns; i++)
        sum += image[i];
    free(image);
    return sum;
}

/* Tiles with a border of four: large ones where both sides are at least 900, else small ones. */
static double tiles(const double *numbers, size_t rows, size_t columns) {
    size_t side = rows >= 900 && columns >= 900 ? 448 : 96;
    float *result = malloc(rows * columns * sizeof *result);
    for (size_t top = 0; top < rows; top += side)
        for (size_t left = 0; left < columns; left += side) {
            size_t high = rows - top < side ? rows - top : side;
            size_t wide = columns - left < side ? columns - left : side;
            double *tile = calloc((high + 8) * (wide + 8), sizeof *tile);
            for (size_t i = 0; i < high; i++)
                memcpy(tile + (i + 4) * (wide + 8) + 4, numbers + (top + i) * columns + left,
                       wide * sizeof *tile);
            for (size_t i = 0; i < high; i++)
                for (size_t j = 0; j < wide; j++) {
                    double *at = tile + (i + 4) * (wide + 8) + j + 4;
                    result[(top + i) * columns + left + j] = (float)(at[-4] + at[4] - 2 * at[0]);
                }
            free(tile);
        }
    double last = result[rows * columns / 2];
    free(result);
    return last;
}

/* The largest singular value of the centred numbers, by iteration. */
static double power_method(const double *numbers, size_t rows, size_t columns) {
    double *centred = malloc(rows * columns * sizeof *centred), before = 0, value = 1;
    for (size_t i = 0; i < rows * columns; i++)
        centred[i] = numbers[i] - 0.5;
    double *x = malloc(columns * sizeof *x);
    for (size_t j = 0; j < columns; j++)
        x[j] = 1;
    for (int step = 0; fabs(value - before) > 1e-4 * value && step < 60; step++) {
        double *y = calloc(rows, sizeof *y), *next = calloc(columns, sizeof *next), norm = 0;
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < columns; j++)
                y[i] += centred[i * columns + j] * x[j];
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < columns; j++)
                next[j] += centred[i * columns + j] * y[i];
        for (size_t j = 0; j < columns; j++)
            norm += next[j] * next[j];
        before = value;
        value = sqrt(norm);
        for (size_t j = 0; j < columns; j++)
            next[j] /= value;
        free(x);
        free(y);
        x = next;
    }
    free(x);
    free(centred);
    return value;
}

double by_level(const double *, size_t, size_t);
double running_maximum(const double *, size_t, size_t);
double distances(const double *, size_t, size_t);
double quadtree(const double *, size_t, size_t);
double decayed_sum(const double *, const size_t *, const size_t *);

static double decayed(const double *numbers, size_t rows, size_t columns) {
    return decayed_sum(numbers, &rows, &columns);
}

const struct kernel kernels[] = {
    {"compressed_rows", compressed_rows},
    {"table_of_text", table_of_text},
    {"pipeline", pipeline},
    {"tiles", tiles},
    {"power_method", power_method},
    {"by_level", by_level},
    {"running_maximum", running_maximum},
    {"distances", distances},
    {"quadtree", quadtree},
    {"decayed", decayed},
    {NULL, NULL},
};
