! The first set: a kernel in Fortran.

! Means of cells of eight by eight, of a copy that is padded to whole cells, and what is left of it.
function binned_mean(numbers, rows, columns) result(total) bind(c)
  use iso_c_binding, only: c_double, c_size_t
  implicit none
  integer(c_size_t), intent(in) :: rows, columns
  real(c_double), intent(in) :: numbers(columns, rows)
  real(c_double) :: total
  real(c_double), allocatable :: padded(:, :), means(:, :), rest(:, :)
  integer(c_size_t) :: i, j, wide, high

  wide = (columns + 7) / 8
  high = (rows + 7) / 8
  allocate (padded(8*wide, 8*high), means(wide, high))
  padded = 0
  padded(:columns, :rows) = numbers
  do j = 1, high
    do i = 1, wide
      means(i, j) = sum(padded(8*i - 7:8*i, 8*j - 7:8*j))/64
    end do
  end do
  allocate (rest(columns, rows))
  do j = 1, rows
    do i = 1, columns
      rest(i, j) = numbers(i, j) - means((i + 7)/8, (j + 7)/8)
    end do
  end do
  deallocate (padded)
  total = sum(matmul(rest, rest(1, :)))
end function
