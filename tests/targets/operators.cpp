// Every form of operator new and delete, 100 times each, with sizes of their own; then malloc and friends. With the
// argument `huge`: what no allocator can give; prints how often that was refused.
#include <cstdio>
#include <cstdlib>
#include <new>

template <class Make, class Unmake> static void each(std::size_t bytes, Make make, Unmake unmake) {
    for (int i = 0; i < 100; i++) {
        void *block = make(bytes);
        if (!block) std::exit(1);
        static_cast<char *>(block)[bytes - 1] = 1;
        unmake(block, bytes);
    }
}

static int huge() {
    constexpr auto wide = std::align_val_t{256};
    volatile std::size_t huge = std::size_t{1} << 62;
    int refused = 0;
    try {
        operator delete(operator new(huge));
    } catch (const std::bad_alloc &) {
        refused += 1;
    }
    try {
        operator delete[](operator new[](huge, wide), wide);
    } catch (const std::bad_alloc &) {
        refused += 1;
    }
    if (!operator new(huge, std::nothrow)) refused += 1;
    if (!operator new[](huge, wide, std::nothrow)) refused += 1;
    if (!std::malloc(huge)) refused += 1;
    std::printf("%d refused\n", refused);
    return 5;
}

int main(int argc, char **) {
    if (argc > 1) return huge();
    constexpr auto wide = std::align_val_t{256};
    using size = std::size_t;
    each(20001, [](size n) { return operator new(n); }, [](void *p, size) { operator delete(p); });
    each(20002, [](size n) { return operator new[](n); }, [](void *p, size) { operator delete[](p); });
    each(20003, [](size n) { return operator new(n); }, [](void *p, size n) { operator delete(p, n); });
    each(20004, [](size n) { return operator new[](n); }, [](void *p, size n) { operator delete[](p, n); });
    each(20005, [](size n) { return operator new(n, std::nothrow); },
         [](void *p, size) { operator delete(p, std::nothrow); });
    each(20006, [](size n) { return operator new[](n, std::nothrow); },
         [](void *p, size) { operator delete[](p, std::nothrow); });
    each(20007, [](size n) { return operator new(n, wide); }, [](void *p, size) { operator delete(p, wide); });
    each(20008, [](size n) { return operator new[](n, wide); }, [](void *p, size) { operator delete[](p, wide); });
    each(20009, [](size n) { return operator new(n, wide); }, [](void *p, size n) { operator delete(p, n, wide); });
    each(20010, [](size n) { return operator new[](n, wide); },
         [](void *p, size n) { operator delete[](p, n, wide); });
    each(20011, [](size n) { return operator new(n, wide, std::nothrow); },
         [](void *p, size) { operator delete(p, wide, std::nothrow); });
    each(20012, [](size n) { return operator new[](n, wide, std::nothrow); },
         [](void *p, size) { operator delete[](p, wide, std::nothrow); });
    each(20013, [](size n) { return std::malloc(n); }, [](void *p, size) { std::free(p); });
    each(20014, [](size n) { return std::calloc(1, n); }, [](void *p, size) { std::free(p); });
    each(20015, [](size n) { return std::aligned_alloc(64, n); }, [](void *p, size) { std::free(p); });
    each(20016, [](size n) { return std::realloc(std::malloc(19999), n); }, [](void *p, size) { std::free(p); });

    void *volatile held = operator new(30000000);
    static_cast<char *>(held)[29999999] = 1;
    return 5;
}
