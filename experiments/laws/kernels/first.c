/* The first set: kernels in C. The table is here, with those in C++ and Fortran. */
#include "kernels.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Two tables of sums over rectangles: of the numbers and of their squares. */
static double box_variance(const double *numbers, size_t rows, size_t columns) {
    size_t wide = columns + 1;
    double *sums = calloc((rows + 1) * wide, sizeof *sums);
    double *squares = calloc((rows + 1) * wide, sizeof *squares);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            double x = numbers[i * columns + j];
            size_t at = (i + 1) * wide + j + 1;
            sums[at] = x + sums[at - 1] + sums[at - wide] - sums[at - wide - 1];
            squares[at] = x * x + squares[at - 1] + squares[at - wide] - squares[at - wide - 1];
        }
    float *result = malloc(rows * columns * sizeof *result);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            size_t low = i * wide + j, high = (i + 1) * wide + j + 1;
            double mean = sums[high] - sums[low];
            result[i * columns + j] = (float)(squares[high] - squares[low] - mean * mean);
        }
    free(sums);
    free(squares);
    double last = result[rows * columns - 1];
    free(result);
    return last;
}

/* Runs of rising numbers as (start, length), in a buffer that grows by half. */
static double rising_runs(const double *numbers, size_t rows, size_t columns) {
    size_t count = 0, room = 16;
    size_t(*runs)[2] = malloc(room * sizeof *runs);
    for (size_t i = 0; i < rows; i++) {
        size_t start = 0;
        for (size_t j = 1; j <= columns; j++) {
            const double *line = numbers + i * columns;
            if (j < columns && line[j] > line[j - 1])
                continue;
            if (count == room) {
                room += room / 2;
                runs = realloc(runs, room * sizeof *runs);
            }
            runs[count][0] = i * columns + start;
            runs[count++][1] = j - start;
            start = j;
        }
    }
    double longest = 0;
    for (size_t i = 0; i < count; i++)
        longest = runs[i][1] > longest ? (double)runs[i][1] : longest;
    free(runs);
    return longest + (double)count;
}

/* Few numbers are sorted in a copy; of more than 700,000 the median is found by counting. */
static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *numbers, size_t rows, size_t columns) {
    size_t count = rows * columns;
    if (count <= 700000) {
        double *sorted = malloc(count * sizeof *sorted);
        memcpy(sorted, numbers, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, ascending);
        double middle = sorted[count / 2];
        free(sorted);
        return middle;
    }
    size_t bins = 1 << 18, before = 0, bin = 0;
    unsigned *counts = calloc(bins, sizeof *counts);
    for (size_t i = 0; i < count; i++)
        counts[(size_t)(numbers[i] * (double)bins)]++;
    while (before + counts[bin] <= count / 2)
        before += counts[bin++];
    free(counts);
    return (double)bin / (double)bins;
}

/* Four threads, each with a padded copy of its band and a result of its own. */
struct band {
    const double *numbers;
    size_t rows, columns;
    double sum;
};

static void *smooth_band(void *argument) {
    struct band *band = argument;
    size_t wide = band->columns + 8;
    double *padded = malloc(band->rows * wide * sizeof *padded);
    double *smooth = malloc(band->rows * band->columns * sizeof *smooth);
    for (size_t i = 0; i < band->rows; i++) {
        memset(padded + i * wide, 0, wide * sizeof *padded);
        memcpy(padded + i * wide + 4, band->numbers + i * band->columns,
               band->columns * sizeof *padded);
        for (size_t j = 0; j < band->columns; j++) {
            double sum = 0;
            for (size_t k = 0; k < 9; k++)
                sum += padded[i * wide + j + k];
            smooth[i * band->columns + j] = sum / 9;
        }
    }
    for (size_t i = 0; i < band->rows * band->columns; i++)
        band->sum += smooth[i];
    free(padded);
    free(smooth);
    return NULL;
}

static double smooth_in_threads(const double *numbers, size_t rows, size_t columns) {
    pthread_t threads[4];
    struct band bands[4];
    double sum = 0;
    for (size_t i = 0; i < 4; i++) {
        size_t from = rows * i / 4, to = rows * (i + 1) / 4;
        bands[i] = (struct band){numbers + from * columns, to - from, columns, 0};
        pthread_create(&threads[i], NULL, smooth_band, &bands[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        sum += bands[i].sum;
    }
    return sum;
}

/* Relaxation until a step changes little; each step has a new array. */
static double relaxation(const double *numbers, size_t rows, size_t columns) {
    size_t bytes = rows * columns * sizeof *numbers;
    double *now = malloc(bytes), change = 1;
    memcpy(now, numbers, bytes);
    for (int step = 0; change > 1e-3 && step < 200; step++) {
        double *next = malloc(bytes);
        memcpy(next, now, bytes);
        change = 0;
        for (size_t i = 1; i + 1 < rows; i++)
            for (size_t j = 1; j + 1 < columns; j++) {
                size_t at = i * columns + j;
                next[at] = (now[at - 1] + now[at + 1] + now[at - columns] + now[at + columns]) / 4;
                change += fabs(next[at] - now[at]);
            }
        change /= (double)(rows * columns);
        free(now);
        now = next;
    }
    double middle = now[rows / 2 * columns + columns / 2];
    free(now);
    return middle;
}

double count_by_bin(const double *, size_t, size_t);
double label_components(const double *, size_t, size_t);
double flood(const double *, size_t, size_t);
double windowed(const double *, size_t, size_t);
double binned_mean(const double *, const size_t *, const size_t *);

static double binned(const double *numbers, size_t rows, size_t columns) {
    return binned_mean(numbers, &rows, &columns);
}

const struct kernel kernels[] = {
    {"box_variance", box_variance},
    {"rising_runs", rising_runs},
    {"median", median},
    {"smooth_in_threads", smooth_in_threads},
    {"relaxation", relaxation},
    {"count_by_bin", count_by_bin},
    {"label_components", label_components},
    {"flood", flood},
    {"windowed", windowed},
    {"binned_mean", binned},
    {NULL, NULL},
};
