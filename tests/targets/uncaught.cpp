// Dies of an exception that is not caught, thrown through frames that hold memory.
#include <stdexcept>
#include <vector>

static void thrower(int depth) {
    std::vector<char> held(20000 + depth);
    if (depth == 0) throw std::runtime_error("nobody catches this");
    thrower(depth - 1);
}

int main() { thrower(9); }
