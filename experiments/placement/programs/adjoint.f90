! The gradient of a wave field: forward in time, which keeps every wave field, then backward, which
! uses them from the last to the first.
!
!     adjoint ROUNDS
program adjoint
  implicit none
  integer, parameter :: n = 640, steps = 36
  type field
    real(8), allocatable :: u(:, :)
  end type
  type(field) :: kept(steps)
  real(8), allocatable :: speed(:, :), back(:, :), before(:, :), after(:, :), image(:, :)
  integer :: rounds, round, t, i, j
  character(len=16) :: argument
  call get_command_argument(1, argument)
  read (argument, *) rounds
  allocate (speed(n, n), back(n, n), before(n, n), after(n, n), image(n, n))
  do j = 1, n
    do i = 1, n
      speed(i, j) = 0.1d0 + modulo(i * 31 + j * 17, 101) * 1d-3
    end do
  end do
  do t = 1, steps
    allocate (kept(t)%u(n, n))
    kept(t)%u = 0
  end do
  image = 0
  do round = 1, rounds
    kept(1)%u(n / 2, n / 3 + round) = 1
    kept(2)%u = kept(1)%u
    do t = 3, steps
      call advance(kept(t - 2)%u, kept(t - 1)%u, kept(t)%u)
    end do
    back = kept(steps)%u
    before = 0
    do t = steps, 1, -1
      call advance(before, back, after)
      image = image + after * kept(t)%u
      before = back
      back = after
    end do
    kept(1)%u = image / (1 + maxval(abs(image)))
  end do
  print '(es22.14)', sum(abs(image))
contains
  subroutine advance(previous, current, next)
    real(8), intent(in) :: previous(n, n), current(n, n)
    real(8), intent(out) :: next(n, n)
    integer :: row, column
    next(:, 1) = 0
    next(:, n) = 0
    do column = 2, n - 1
      next(1, column) = 0
      next(n, column) = 0
      do row = 2, n - 1
        next(row, column) = 2 * current(row, column) - previous(row, column) + speed(row, column) &
          * (current(row - 1, column) + current(row + 1, column) + current(row, column - 1) &
          + current(row, column + 1) - 4 * current(row, column))
      end do
    end do
  end subroutine
end program
