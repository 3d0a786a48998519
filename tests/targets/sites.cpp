// Large blocks in C++: names with namespaces, templates and lambdas.
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <vector>

#define NOINLINE __attribute__((noinline))

namespace shop {
template <typename Item>
struct Cart {
    std::vector<Item> items;
    NOINLINE void fill(std::size_t count) {
        items.reserve(count);
        asm volatile("" ::: "memory");
    }
};

NOINLINE char *order(std::size_t bytes) {
    char *block = new char[bytes];
    asm volatile("" ::"r"(block) : "memory");
    return block;
}
}  // namespace shop

NOINLINE void throws(std::size_t bytes) {
    try {
        throw bytes;
    } catch (std::size_t caught) {
        shop::order(caught);
        asm volatile("" ::: "memory");
    }
}

int main() {
    shop::Cart<double> cart;
    cart.fill(50001);
    shop::order(500007);
    throws(500009);
    std::function<void(std::size_t)> call = [](std::size_t bytes) {
        shop::order(bytes);
        asm volatile("" ::: "memory");
    };
    call(500011);
    asm volatile("" ::: "memory");
    return 0;
}
