// Resident bytes of the process itself, as the kernel counts them when it is asked.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Without allocating: reading it must not change it.
static long resident(void) {
    static char text[1 << 14];
    int file = open("/proc/self/smaps_rollup", O_RDONLY);
    ssize_t length = 0, got;
    while ((got = read(file, text + length, sizeof text - 1 - length)) > 0) length += got;
    close(file);
    text[length] = 0;
    char *line = strstr(text, "Rss:");
    return line ? atol(line + 4) * 1024 : -1;
}
