// Factors of a matrix in panels: each panel, from its diagonal down, changes all that follow it.
//
// factors ROUNDS

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

constexpr size_t PANELS = 16, WIDTH = 256, ROWS = PANELS * WIDTH;

struct Release {
    void operator()(double *cells) const { std::free(cells); }
};
using Panel = std::unique_ptr<double, Release>;

// Panels are stored row by row.
static void change(double *panel, const std::vector<double> &pivot, size_t first, size_t from) {
    for (size_t row = first; row < ROWS; row++) {
        const double *factors = &pivot[(row - first) * WIDTH];
        double factor = factors[(row + from) % WIDTH];
        for (size_t column = 0; column < WIDTH; column++)
            panel[row * WIDTH + column] -= 1e-4 * factor * factors[column];
    }
}

int main(int, char **arguments) {
    std::vector<Panel> panels;
    for (size_t n = 0; n < PANELS; n++) {
        panels.emplace_back(static_cast<double *>(std::malloc(ROWS * WIDTH * sizeof(double))));
        for (size_t i = 0; i < ROWS * WIDTH; i++)
            panels[n].get()[i] = 1.0 / double(1 + (i * 7919 + n * 104729) % 1000);
    }
    for (int round = 0; round < std::atoi(arguments[1]); round++)
        for (size_t n = 0; n + 1 < PANELS; n++) {
            size_t first = n * WIDTH;
            const double *own = panels[n].get();
            std::vector<double> pivot(own + first * WIDTH, own + ROWS * WIDTH);
            for (size_t other = n + 1; other < PANELS; other++)
                change(panels[other].get(), pivot, first, other);
        }
    double sum = 0;
    for (const Panel &panel : panels)
        for (size_t i = 0; i < ROWS * WIDTH; i += 97) sum += panel.get()[i];
    std::printf("%.12g\n", sum);
}
