/* Allocates before main; with -DLIBRARY as a library, to be preloaded. */
#include <stdlib.h>

#ifdef LIBRARY
__attribute__((constructor)) static void loaded(void) { free(malloc(60001)); }
__attribute__((destructor)) static void unloaded(void) { free(malloc(60004)); }
#else
static void *held;
__attribute__((constructor(101))) static void first(void) { held = malloc(60002); }
__attribute__((destructor(101))) static void last(void) { free(held); }
int main(void) {
    free(malloc(60003));
    return 6;
}
#endif
