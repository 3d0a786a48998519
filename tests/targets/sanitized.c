/* Allocates, and leaves with a status of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    char *block = malloc(100000);
    memset(block, 7, 100000);
    printf("%d\n", block[99999]);
    free(block);
    return 5;
}
