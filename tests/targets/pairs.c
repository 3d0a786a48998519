/* pairs N: so many times malloc and free of 40 bytes, from one place, after one of each that was not counted. */
#include <stdlib.h>

int main(int argc, char **argv) {
    long pairs = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    for (long i = 0; i <= pairs; i++) {
        char *volatile block = malloc(40);
        *block = 1;
        free(block);
    }
    return 0;
}
