/* Ends at once; its child sleeps, and only then allocates. */
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    if (fork() == 0) {
        usleep(300000);
        return malloc(5000000) == NULL;
    }
    return 0;
}
