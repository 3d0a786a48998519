/* An allocator that no symbol names, in a library (-DLIBRARY), and a program that takes 40 of its 64 MiB in blocks
 * of 4 KiB. */
#include <stddef.h>
#include <sys/mman.h>

char *bump(size_t bytes);

#ifdef LIBRARY
char *bump(size_t bytes) {
    static char *next;
    if (!next) {
        next = mmap(0, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (next == MAP_FAILED) return 0;
        madvise(next, 64 << 20, MADV_NOHUGEPAGE); /* so that what is touched is what was requested */
    }
    char *block = next;
    next += bytes;
    return block;
}
#else
int main(void) {
    for (int i = 0; i < 10 << 10; i++) *bump(4 << 10) = 1;
    return 0;
}
#endif
