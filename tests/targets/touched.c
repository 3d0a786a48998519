// Touches three of eight parts of a large mapping and is killed at once: there is no time to read it.
#include <signal.h>
#include <sys/mman.h>

enum { PART = 8 << 20 };

int main(void) {
    char *place = mmap(0, 8 * PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int parts[] = {0, 3, 7};
    for (int i = 0; i < 3; i++)
        for (int at = 0; at < PART; at += 4096) ((volatile char *)place)[(long)parts[i] * PART + at] = 1;
    raise(SIGKILL);
}
