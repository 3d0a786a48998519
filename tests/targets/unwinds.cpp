// The same in C++: virtual calls, templates, lambdas called by libstdc++, exceptions on their way.
#define UNWINDS_MAIN
#include "unwinds.h"

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

struct Shape {
    virtual ~Shape() { check(); }
    virtual void draw(int depth) = 0;
};

void some(int depth, unsigned kind);

template <typename T> struct Box : Shape {
    T content[7];
    void draw(int depth) override { some(depth - 1, static_cast<unsigned>(depth) * sizeof(T)); }
};

NOINLINE void throws(int depth) {
    try {
        some(depth - 1, static_cast<unsigned>(depth) * 7);
        throw std::runtime_error(std::to_string(depth));
    } catch (const std::exception &) {
        check();
    }
}

NOINLINE void some(int depth, unsigned kind) {
    if (depth <= 0)
        return check();
    switch (kind % 5) {
    case 0: Box<double>().draw(depth); break;
    case 1: Box<char>().draw(depth); break;
    case 2: throws(depth); break;
    case 3: {
        std::vector<int> numbers{5, 3, 9, 1, 7};
        std::function<void()> once = [&] { some(depth - 1, kind * 3 + 1); };
        std::sort(numbers.begin(), numbers.end(), [&](int a, int b) {
            if (once)
                std::exchange(once, nullptr)();
            return a < b;
        });
        break;
    }
    default: std::for_each_n(&depth, 1, [&](int it) { some(it - 1, kind + 2); });
    }
}

} // namespace

int main(int, char **arguments) {
    int rounds = std::atoi(arguments[1]);
    auto work = [=] {
        for (int round = 0; round < rounds; round++)
            for (unsigned kind = 0; kind < 5; kind++)
                some(1 + round % 9, kind);
    };
    std::thread other(work);
    work();
    other.join();
    printf("{\"checked\": %lu, \"remembered\": %lu, \"wrong\": %lu, \"cut\": %lu}\n", checked, remembered, wrong, cut);
}
