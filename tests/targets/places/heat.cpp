// Heat in a plate: grids behind smart pointers, a template of the program's own, and a history.
#include <cstdio>
#include <deque>
#include <memory>
#include <vector>

template <typename T> class Grid {
  public:
    Grid(int rows, int columns) : columns(columns), cells(std::size_t(rows) * columns) {}
    T &at(int row, int column) { return cells[std::size_t(row) * columns + column]; }

  private:
    int columns;
    std::vector<T> cells;
};

using Plate = Grid<double>;

static std::shared_ptr<Plate> step(Plate &before, int rows, int columns) {
    auto after = std::make_shared<Plate>(rows, columns);
    for (int row = 1; row + 1 < rows; row++)
        for (int column = 1; column + 1 < columns; column++)
            after->at(row, column) = 0.25 * (before.at(row - 1, column) + before.at(row + 1, column) +
                                             before.at(row, column - 1) + before.at(row, column + 1));
    return after;
}

int main() {
    const int rows = 300, columns = 400;
    std::deque<std::shared_ptr<Plate>> history{std::make_shared<Plate>(rows, columns)};
    history.back()->at(150, 200) = 1e6;
    for (int time = 0; time < 12; time++) history.push_back(step(*history.back(), rows, columns));
    std::printf("%.3f\n", history.back()->at(149, 200));
}
