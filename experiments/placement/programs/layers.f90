! Fields of a grid looked up through a table of neighbours, as in an ocean model's columns.
!     layers ROUNDS
program layers
  implicit none
  integer, parameter :: cells = 600000, levels = 6
  real(8), allocatable :: heat(:, :), salt(:, :), flow(:, :)
  integer, allocatable :: neighbour(:, :)
  integer :: rounds, round, cell, level, other
  character(len=12) :: text
  real(8) :: draw

  rounds = 4
  if (command_argument_count() > 0) then
    call get_command_argument(1, text)
    read (text, *) rounds
  end if
  allocate (heat(levels, cells), salt(levels, cells), flow(levels, cells), neighbour(4, cells))
  heat = 1
  salt = 0.5d0
  call random_seed(put=[(17, level=1, 64)])
  do cell = 1, cells
    do other = 1, 4
      call random_number(draw)
      neighbour(other, cell) = 1 + int(draw*cells)
    end do
  end do
  do round = 1, rounds
    do cell = 1, cells
      flow(:, cell) = 0
      do other = 1, 4
        flow(:, cell) = flow(:, cell) + heat(:, neighbour(other, cell)) - heat(:, cell)
      end do
    end do
    do cell = 1, cells
      heat(:, cell) = heat(:, cell) + 0.1d0*flow(:, cell)
      salt(:, cell) = salt(:, cell) + 0.01d0*heat(:, cell)
    end do
  end do
  print '(es12.5)', sum(salt)/cells
end program layers
