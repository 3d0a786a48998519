/* A random program that knows what memtrace must record of it.
 *
 *     random_program SEED STEPS ORACLE [GENERATION]
 *
 * It calls the malloc and mmap families on several threads, in children it forks and in images it execs,
 * and appends to the file ORACLE one line of JSON per process image. Two modes, drawn per image: in
 * lock-step, threads take turns, so that every peak is known; running freely, only what is left and what
 * was done in all is. What libc allocates by itself (for thread stacks) comes before the marker, a block of
 * MARKER bytes that lives to the end; nothing else but the oracle's own calls comes after it.
 *
 * To add an operation, write a function that counts what it does and add a row to `operations`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>
#include <spawn.h>
#include <sys/wait.h>

#include "random/heap_calls.h"
#include "random/map_calls.h"

#define MARKER 1234567
#define THREADS 4
#define GENERATIONS 3

struct worker {
    pthread_t id;
    sem_t go, done;
    bool stop;
    struct world *world;
};

extern char **environ;
static struct world worlds[THREADS + 1];
static struct worker workers[THREADS];
static int worker_count;
static pthread_attr_t small_stack;
static pthread_key_t last_words_key;
static __thread bool short_lived;

static const char *program, *oracle_path;
static int oracle_file, generation, steps, children;
static uint64_t seed;
static const char *origin = "exec";
static bool lock_step, alone;

static void run_image(void) __attribute__((noreturn));
static void operate(struct world *world);

/* The arguments of a new image; they lie in static memory. */
static char **new_arguments(struct world *world) {
    static char text[3][24];
    static char *arguments[6];
    snprintf(text[0], sizeof text[0], "%llu", (unsigned long long)below(world, INT_MAX));
    snprintf(text[1], sizeof text[1], "%d", steps / 2);
    snprintf(text[2], sizeof text[2], "%d", generation + 1);
    char *all[] = {(char *)program, text[0], text[1], (char *)oracle_path, text[2], NULL};
    return memcpy(arguments, all, sizeof all);
}

static void wait_for_child(pid_t child) {
    int status;
    EXPECT(waitpid(child, &status, 0) > 0 && status == 0);
    children--;
}

/* A child that runs on with a program of its own: by fork, or a new image by vfork or posix_spawn. */
static void make_child(struct world *world) {
    if (!alone || generation == GENERATIONS || below(world, 3)) return;
    uint64_t child_seed = below(world, INT_MAX);
    char **arguments = new_arguments(world);
    pid_t child;
    switch (below(world, 4)) {
    case 0: EXPECT(posix_spawn(&child, program, NULL, NULL, arguments, environ) == 0); break;
    case 1:
        if ((child = vfork()) == 0) {
            execv(program, arguments);
            _exit(71);
        }
        break;
    default:
        if ((child = fork()) == 0) {
            for (int w = 0; w <= THREADS; w++) inherit(&worlds[w], child_seed + w);
            seed = child_seed;
            origin = "fork";
            generation++;
            steps = below(world, steps / 2 + 1);
            children = 0;
            short_lived = false;
            run_image();
        }
    }
    EXPECT(child > 0);
    children++;
    if (below(world, 2)) wait_for_child(child);
}

static void *run_short_thread(void *world) {
    pthread_setspecific(last_words_key, world);
    short_lived = true;
    for (int left = below(world, 8); left; left--) operate(world);
    return NULL;
}

static void start(pthread_t *id, void *(*run)(void *), void *argument) {
    EXPECT(pthread_create(id, &small_stack, run, argument) == 0);
}

static void make_short_thread(struct world *world) {
    if (short_lived) return;
    pthread_t id;
    start(&id, run_short_thread, world);
    pthread_join(id, NULL);
}

static const struct operation {
    int weight;
    void (*run)(struct world *world);
} operations[] = {
    {16, call_malloc},
    {8, call_calloc},
    {8, call_aligned},
    {12, call_realloc},
    {5, call_strdup},
    {24, call_free},
    {4, call_heap_in_vain},
    {6, give_block},
    {6, take_block},
    {16, call_mmap},
    {12, call_munmap},
    {9, call_mremap},
    {4, call_mremap_fixed},
    {9, call_mprotect},
    {6, call_map_in_vain},
    {2, make_child},
    {2, make_short_thread},
};
#define OPERATIONS (sizeof operations / sizeof *operations)

/* One operation, drawn by weight. */
static void operate(struct world *world) {
    int weights = 0;
    for (unsigned i = 0; i < OPERATIONS; i++) weights += operations[i].weight;
    int drawn = below(world, weights);
    const struct operation *operation = operations;
    while (drawn >= operation->weight) drawn -= operation++->weight;
    operation->run(world);
}

/* Runs in the destructor of a thread's specific data, when the thread has returned already. */
static void last_words(void *world) {
    call_free(world);
    call_malloc(world);
    call_realloc(world);
}

static void *run_worker(void *argument) {
    struct worker *worker = argument;
    pthread_setspecific(last_words_key, worker->world);
    if (!lock_step) {
        for (int left = steps; left; left--) operate(worker->world);
        return NULL;
    }
    for (sem_wait(&worker->go); !worker->stop; sem_wait(&worker->go)) {
        operate(worker->world);
        sem_post(&worker->done);
    }
    return NULL;
}

static void take_turns(void) {
    for (int left = steps; left; left--) {
        int turn = below(worlds, worker_count + 1);
        if (turn == worker_count) {
            operate(worlds);
        } else {
            sem_post(&workers[turn].go);
            sem_wait(&workers[turn].done);
        }
    }
}

static void run_threads(void) {
    worker_count = below(worlds, THREADS + 1);
    for (int i = 0; i < worker_count; i++) {
        struct worker *worker = &workers[i];
        worker->stop = false;
        worker->world = lock_step ? worlds : &worlds[i + 1];
        if (!worker->world->field) make_field(worker->world, i + 1);
        sem_init(&worker->go, 0, 0);
        sem_init(&worker->done, 0, 0);
        alone = lock_step;
        start(&worker->id, run_worker, worker);
    }
    if (lock_step) take_turns();
    if (lock_step && below(worlds, 4) == 0) return; /* they wait for a turn until the image ends */
    for (int i = 0; i < worker_count; i++) {
        workers[i].stop = true;
        sem_post(&workers[i].go);
        pthread_join(workers[i].id, NULL);
    }
    alone = true;
}

static void *meet(void *barrier) {
    pthread_barrier_wait(barrier);
    return NULL;
}

/* As many threads at once as there will ever be. Their stacks stay with libc, which allocates with calloc
 * for each new one, and takes those again for later threads. */
static void warm_up(void) {
    pthread_t ids[2 * THREADS + 1];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 2 * THREADS + 1);
    for (int i = 0; i <= 2 * THREADS; i++) start(&ids[i], meet, &barrier);
    for (int i = 0; i <= 2 * THREADS; i++) pthread_join(ids[i], NULL);
}

/* The first block of an image, at index 0, where it stays. */
static void mark(struct world *world) {
    make_room(world);
    acquired(world, malloc(MARKER), MARKER, MALLOC);
    struct block *marker = &world->blocks[world->block_count - 1], first = world->blocks[0];
    world->blocks[0] = *marker;
    *marker = first;
}

/* What main does in a new image, and a forked child where it finds itself. */
static void run_image(void) {
    lock_step = below(worlds, 4) > 0;
    alone = true;
    warm_up();
    mark(worlds);
    if (!worlds->field) make_field(worlds, 0);
    for (int left = steps / 4; left; left--) operate(worlds);
    run_threads();
    for (int left = steps / 4; left; left--) operate(worlds);
    while (children) wait_for_child(-1);
    char **arguments = new_arguments(worlds);
    bool again = generation < GENERATIONS && below(worlds, 4) == 0, quick = below(worlds, 2);
    write_oracle(oracle_file, origin, seed, lock_step, worlds, THREADS + 1);
    if (again) {
        execv(program, arguments);
        _exit(71);
    }
    if (quick) _exit(0);
    exit(0);
}

int main(int argc, char **argv) {
    if (argc < 4) return 64;
    program = argv[0];
    seed = strtoull(argv[1], NULL, 10);
    steps = atoi(argv[2]);
    oracle_path = argv[3];
    generation = argc > 4 ? atoi(argv[4]) : 0;
    char data_path[PATH_MAX];
    snprintf(data_path, sizeof data_path, "%s.%d", oracle_path, getpid());
    oracle_file = open(oracle_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    data_file = open(data_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT(oracle_file >= 0 && data_file >= 0);
    EXPECT(unlink(data_path) == 0 && ftruncate(data_file, 1 << 22) == 0);
    for (int w = 0; w <= THREADS; w++) worlds[w].random = seed + w;
    EXPECT(pthread_attr_init(&small_stack) == 0 && pthread_attr_setstacksize(&small_stack, 256 << 10) == 0);
    EXPECT(pthread_key_create(&last_words_key, last_words) == 0);
    run_image();
}
