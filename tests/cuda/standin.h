/* What the stand-in exports beside the driver's functions, for the programs that test it. */
#ifndef STANDIN_H
#define STANDIN_H

/* Appends the oracle's line to the file. At exit it is appended to the one that STANDIN_REPORT names. */
void standin_report(const char *path);
/* The nth call of a function from now on (1: the next) does nothing and returns this. STANDIN_FAIL sets the same as
 * function:nth:result, with commas. */
void standin_fail(const char *function, unsigned nth, int result);
#endif
