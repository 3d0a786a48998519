// Makes system calls by itself, without a C library, as Go programs do.
// gcc -nostdlib -static
#include <stddef.h>

#ifdef __aarch64__
static long call(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}

enum { MMAP = 222, MUNMAP = 215, MREMAP = 216, NANOSLEEP = 101, EXIT = 94 };
#else
static long call(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

enum { MMAP = 9, MUNMAP = 11, MREMAP = 25, NANOSLEEP = 35, EXIT = 231 };
#endif

enum { WRITABLE = 3, PRIVATE = 0x22, MAY_MOVE = 1, MIB = 1 << 20 };

static void touch(volatile char *place, long bytes) {
    for (long at = 0; at < bytes; at += 4096) place[at] = 1;
}

void _start(void) {
    // Of a program that ends at once only resident memory is known.
    long pause[2] = {0, 300000000};
    call(NANOSLEEP, (long)pause, 0, 0, 0, 0, 0);
    long first = call(MMAP, 0, 16 * MIB, WRITABLE, PRIVATE, -1, 0);
    touch((char *)first, 12 * MIB);
    long second = call(MMAP, 0, 4 * MIB, WRITABLE, PRIVATE, -1, 0);
    touch((char *)second, 4 * MIB);
    second = call(MREMAP, second, 4 * MIB, 8 * MIB, MAY_MOVE, 0, 0);
    touch((char *)second, 8 * MIB);
    call(MUNMAP, first, 16 * MIB, 0, 0, 0, 0);
    call(EXIT, 7, 0, 0, 0, 0, 0);
}
