// Symmetric sweeps over the panels of a matrix: down and up again, with a working copy of each panel.
// A correction of each panel is zero until the first sweep reaches it.
//
// sweeps ROUNDS

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

constexpr size_t PANELS = 20, CELLS = 640 * 1024;

struct Release {
    void operator()(double *cells) const { std::free(cells); }
};
using Panel = std::unique_ptr<double, Release>;

static void relax(double *panel, double *correction, double &carried) {
    std::vector<double> copy(panel, panel + CELLS / 2);
    for (size_t i = 0; i < CELLS / 2; i++) {
        double residual = carried - 0.5 * (copy[i] + panel[CELLS - 1 - i]);
        correction[i] = 0.25 * correction[i] + 0.5 * residual;
        panel[i] += correction[i];
        carried = 0.999 * carried + 0.001 * panel[i];
    }
}

int main(int, char **arguments) {
    std::vector<Panel> panels, corrections;
    for (size_t n = 0; n < PANELS; n++) {
        panels.emplace_back(static_cast<double *>(std::malloc(CELLS * sizeof(double))));
        corrections.emplace_back(static_cast<double *>(std::calloc(CELLS / 2, sizeof(double))));
        for (size_t i = 0; i < CELLS; i++)
            panels[n].get()[i] = 1.0 / double(1 + (i * 7919 + n * 104729) % 1000);
    }
    double carried = 1;
    for (int round = 0; round < std::atoi(arguments[1]); round++) {
        for (size_t n = 0; n < PANELS; n++)
            relax(panels[n].get(), corrections[n].get(), carried);
        for (size_t n = PANELS; n-- > 0;)
            relax(panels[n].get(), corrections[n].get(), carried);
    }
    std::printf("%.12g\n", carried);
}
