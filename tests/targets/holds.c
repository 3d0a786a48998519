/* Holds 200 blocks of 1,000,000 to 1,000,199 bytes, after releasing 100 more, and prints "holding". Then, for each line
 * that comes, allocates one of 150,000,000 bytes and prints "more". Ends with 3 when no more lines come. */
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    void *volatile held[300];
    for (int i = 0; i < 300; i++) held[i] = malloc(1000000 + i);
    for (int i = 200; i < 300; i++) free(held[i]);
    puts("holding");
    fflush(stdout);
    void *volatile more;
    while (getchar() == '\n') {
        more = malloc(150000000);
        puts("more");
        fflush(stdout);
    }
    (void)more;
    puts("finished");
    return 3;
}
