/* Loads and unloads a library again and again. Usage: plugins LIBRARY COUNT; with -DLIBRARY: the library. */
#include <dlfcn.h>
#include <stdlib.h>

#ifdef LIBRARY
static void *held;
__attribute__((constructor)) static void loaded(void) { held = malloc(50001); }
__attribute__((destructor)) static void unloaded(void) { free(held); }
void *allocate(void) { return malloc(50002); }
#else
int main(int argc, char **argv) {
    if (argc < 3) return 2;
    for (int i = atoi(argv[2]); i > 0; i--) {
        void *library = dlopen(argv[1], i % 2 ? RTLD_NOW : RTLD_LAZY);
        void *(*allocate)(void) = (void *(*)(void))dlsym(library, "allocate");
        void *block = allocate();
        if (dlclose(library)) return 1;
        free(block);
    }
    return 0;
}
#endif
