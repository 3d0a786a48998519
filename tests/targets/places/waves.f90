! A wave on a string: allocatable arrays in a module, an array result, and a list that grows.
module string_state
  implicit none
  real(8), allocatable :: before(:), now(:), history(:, :)
contains
  subroutine prepare(cells, steps)
    integer, intent(in) :: cells, steps
    allocate(before(cells), now(cells))
    allocate(history(cells, steps))
    before = 0
    now = 0
    now(cells / 2) = 1
  end subroutine

  function following() result(after)
    real(8), allocatable :: after(:)
    integer :: cell
    allocate(after(size(now)))
    after = 0
    do cell = 2, size(now) - 1
      after(cell) = now(cell - 1) + now(cell + 1) - before(cell)
    end do
  end function
end module

program waves
  use string_state
  implicit none
  real(8), allocatable :: after(:), energies(:)
  integer :: step
  call prepare(20000, 40)
  allocate(energies(0))
  do step = 1, 40
    after = following()
    before = now
    now = after
    history(:, step) = now
    energies = [energies, sum(now ** 2)]
  end do
  print '(f12.3)', sum(energies)
end program
