// Static objects, one of them local to a function, hold memory until main has returned.
#include <vector>

static std::vector<char> global;

static std::vector<char> &local() {
    static std::vector<char> held;
    return held;
}

__attribute__((noinline)) static void keep_global() { global.resize(20000000); }
__attribute__((noinline)) static void keep_local() { local().resize(10000000); }

int main() {
    { std::vector<char> gone(60000000); }
    keep_global();
    keep_local();
    return 0;
}
