! The third set: a kernel in Fortran.

! A recursive filter over columns, then the rows whose mean is above that of all, appended one by one.
function decayed_sum(numbers, rows, columns) result(total) bind(c)
  use iso_c_binding, only: c_double, c_float, c_size_t
  implicit none
  integer(c_size_t), intent(in) :: rows, columns
  real(c_double), intent(in) :: numbers(columns, rows)
  real(c_double) :: total
  real(c_double), allocatable :: state(:, :), chosen(:)
  real(c_float), allocatable :: single(:, :)
  integer(c_size_t) :: j

  allocate (state(columns, rows))
  state(:, 1) = numbers(:, 1)
  do j = 2, rows
    state(:, j) = 0.9*state(:, j - 1) + 0.1*numbers(:, j)
  end do
  single = real(state, c_float)
  total = sum(state)/size(state)
  chosen = [real(c_double) ::]
  do j = 1, rows, 16
    if (sum(state(:, j))/columns > total) chosen = [chosen, state(:, j)]
  end do
  deallocate (state)
  total = total + sum(single) + sum(chosen)
end function
