/* Every function of the driver, with what it refuses.
 *
 *     all_calls ROAD [PHASE...]
 *
 * ROAD: linked (only where it is), dlsym, default, ask, ask_v2, ask_for_asking. Without phases, all of them. */
#include "calls.h"

static const struct {
    const char *name;
    void (*run)(void);
} phases[] = {
#define ROW(name) {#name, name##_phase},
    PHASES(ROW)
};

static bool is_wanted(const char *phase, int count, char **wanted) {
    for (int w = 0; w < count; w++)
        if (strcmp(wanted[w], phase) == 0) return true;
    return count == 0;
}

static bool is_known(const char *phase) {
    for (size_t p = 0; p < sizeof phases / sizeof *phases; p++)
        if (strcmp(phases[p].name, phase) == 0) return true;
    return false;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    for (int a = 2; a < count; a++) EXPECT(is_known(arguments[a]));
    open_road(arguments[1]);
    for (size_t p = 0; p < sizeof phases / sizeof *phases; p++) {
        if (!is_wanted(phases[p].name, count - 2, arguments + 2)) continue;
        /* Processes forked from one that uses the driver cannot, so that phase is the first and begins by itself. */
        if (phases[p].run != processes_phase) DO(cu.cuInit(0));
        phases[p].run();
        puts(phases[p].name);
    }
    return 0;
}
