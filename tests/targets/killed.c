/* Allocates a thousand blocks, then dies without a chance to say goodbye. */
#include <signal.h>
#include <stdlib.h>

int main(void) {
    for (int i = 0; i < 1000; i++)
        if (!malloc(20000 + i)) return 1;
    raise(SIGKILL);
    return 0;
}
