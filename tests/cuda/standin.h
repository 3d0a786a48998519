/* What the stand-in exports beside the driver's functions, for the programs that test it and for those of NVML and CUPTI. */
#ifndef STANDIN_H
#define STANDIN_H
#include <stdint.h>

/* Appends the oracle's line to the file. At exit it is appended to the one that STANDIN_REPORT names. */
void standin_report(const char *path);
/* The nth call of a function from now on (1: the next) does nothing and returns this. STANDIN_FAIL sets the same as
 * function:nth:result, with commas. */
void standin_fail(const char *function, unsigned nth, int result);
/* Bytes that the driver has taken from a device, from the first block on with a page for itself, and contexts that this process
 * has there. */
void standin_device(int device, uint64_t *bytes, unsigned *contexts);
/* Each block as it is made (1) and as it ends (0), with what the oracle calls its kind. */
typedef void standin_watcher(int made, const char *kind, uint64_t address, uint64_t bytes);
void standin_watch(standin_watcher *watcher);
#endif
