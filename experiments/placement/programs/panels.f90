! The largest eigenvalue of a matrix in panels, by the power method: each panel is used once in a turn.
!
!     panels ROUNDS
program panels
  implicit none
  integer, parameter :: n = 4096, width = 128, count = n / width
  type panel
    real(8), allocatable :: a(:, :)
  end type
  type(panel) :: matrix(count)
  real(8), allocatable :: x(:), y(:), part(:, :)
  real(8) :: length
  integer :: rounds, round, p, i, j
  character(len=16) :: argument
  call get_command_argument(1, argument)
  read (argument, *) rounds
  do p = 1, count
    allocate (matrix(p)%a(n, width))
    do j = 1, width
      do i = 1, n
        matrix(p)%a(i, j) = 1d0 / (1 + abs(i - (p - 1) * width - j)) + modulo(i * 7919 + j * 104729, 1009) * 1d-7
      end do
    end do
  end do
  allocate (x(n), y(n))
  x = 1
  length = 1
  do round = 1, rounds
    y = 0
    do p = 1, count
      allocate (part(n, 4))
      part = 0
      do j = 1, width
        part(:, 1 + modulo(j, 4)) = part(:, 1 + modulo(j, 4)) + matrix(p)%a(:, j) * x((p - 1) * width + j)
      end do
      y = y + part(:, 1) + part(:, 2) + part(:, 3) + part(:, 4)
      deallocate (part)
    end do
    length = sqrt(dot_product(y, y))
    x = y / length
  end do
  print '(es22.14)', length
end program
