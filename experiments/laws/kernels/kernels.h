/* A set of kernels: each takes rows and columns of numbers, and returns one that depends on all. */
#ifndef KERNELS_H
#define KERNELS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kernel {
    const char *name;
    double (*run)(const double *numbers, size_t rows, size_t columns);
};

/* The last one has no name. */
extern const struct kernel kernels[];

#ifdef __cplusplus
}
#endif

#endif
