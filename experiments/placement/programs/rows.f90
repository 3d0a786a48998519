! Sums along the rows of a matrix that is stored by columns, and scales the result: the matrix takes
! the time.
!     rows ROUNDS
program rows
  implicit none
  integer, parameter :: side = 5000
  real(8), allocatable :: matrix(:, :), sums(:)
  integer :: rounds, round, i, j
  character(16) :: text
  rounds = 5
  if (command_argument_count() > 0) then
    call get_command_argument(1, text)
    read (text, *) rounds
  end if
  allocate (matrix(side, side), sums(side))
  do j = 1, side
    do i = 1, side
      matrix(i, j) = mod(i * 7 + j, 13)
    end do
  end do
  sums = 0
  do round = 1, rounds
    do i = 1, side
      do j = 1, side
        sums(i) = sums(i) + matrix(i, j)
      end do
    end do
    sums = sums * 0.5d0
  end do
  print *, sum(sums)
end program
