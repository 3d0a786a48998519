/* The ways by which programs come to the driver's functions. */
#ifndef ROADS_H
#define ROADS_H
#include "../cuda.h"
#include "../standin.h"

struct driver {
#define POINTER(symbol, base, version, per_thread, parameters) CUresult(*symbol) parameters;
    CUDA_FUNCTIONS(POINTER)
#undef POINTER
    __typeof__(standin_report) *report;
    __typeof__(standin_fail) *fail;
};
extern struct driver cu;

/* Fills `cu`; ends the program where the road does not lead there. */
void open_road(const char *road);
#endif
