// Short threads that allocate in their last moments, and release what another thread allocated.
// Usage: farewells COUNT
#include <cstdlib>
#include <pthread.h>
#include <thread>
#include <vector>

static pthread_key_t key;

struct Farewell {
    bool used = false;
    ~Farewell() { std::free(std::malloc(4001)); }
};
static thread_local Farewell farewell;

static void at_key(void *block) { std::free(block); }

static void work(void *from, void **to) {
    farewell.used = true;
    std::free(from);
    *to = std::malloc(4003);
    pthread_setspecific(key, std::malloc(4004)); // released after C++ destructors: pthread_key_create(3)
}

int main(int argc, char **argv) {
    const int count = argc > 1 ? std::atoi(argv[1]) : 100, together = 8;
    pthread_key_create(&key, at_key);
    for (int done = 0; done < count; done += together) {
        std::vector<std::thread> threads;
        void *results[together];
        for (auto &result : results) threads.emplace_back(work, std::malloc(4002), &result);
        for (auto &thread : threads) thread.join();
        for (void *result : results) std::free(result);
    }
}
