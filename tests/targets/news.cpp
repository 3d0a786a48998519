// operator new and delete in their forms, containers, and an exception through allocating frames.
#include <cstdio>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

struct alignas(128) Wide {
    char bytes[1280];
};

static void thrower(int depth) {
    std::vector<double> held(4000);
    if (depth == 0) throw std::runtime_error("thrown");
    thrower(depth - 1);
}

int main() {
    auto *array = new char[300007];
    delete[] array;
    auto *wide = new Wide[100];
    delete[] wide;
    char *maybe = new (std::nothrow) char[300017];
    delete[] maybe;
    auto shared = std::make_shared<std::vector<int>>(100000);
    try {
        thrower(10);
    } catch (const std::runtime_error &error) {
        std::puts(error.what());
    }
    return 5;
}
