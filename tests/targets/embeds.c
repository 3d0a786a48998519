/* Loads an interpreter while it runs, as frozen applications do, and runs a program in it. */
#include <dlfcn.h>

int main(int argc, char **argv) {
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    if (!library || argc < 3) {
        return 2;
    }
    ((void (*)(void))dlsym(library, "Py_Initialize"))();
    int failed = ((int (*)(const char *))dlsym(library, "PyRun_SimpleString"))(argv[2]);
    ((void (*)(void))dlsym(library, "Py_Finalize"))();
    return failed != 0;
}
