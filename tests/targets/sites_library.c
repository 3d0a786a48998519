/* Loaded by sites.c while it runs. */
#include <stdlib.h>

static void *kept;

__attribute__((noinline)) static void in_library(void (*back)(size_t)) {
    kept = malloc(500051);
    back(500053);
    __asm__ volatile("" ::: "memory");
}

void from_library(void (*back)(size_t)) {
    in_library(back);
    __asm__ volatile("" ::: "memory");
}
