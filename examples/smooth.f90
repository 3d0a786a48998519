! A running mean along the first axis of a volume, as an operator that memtrace sees.
!
!     gfortran -O2 ../include/memtrace.f90 smooth.f90 -o smooth
!     memtrace -- ./smooth 100 120 140
program smooth
    use memtrace
    use, intrinsic :: iso_fortran_env, only: real32
    implicit none
    integer :: n(3), i
    character(20) :: argument
    real(real32), allocatable :: volume(:, :, :), result(:, :, :)
    integer(memtrace_id) :: span

    do i = 1, 3
        call get_command_argument(i, argument)
        read (argument, *) n(i)
    end do
    allocate(volume(n(1), n(2), n(3)))
    volume = 1
    span = memtrace_begin("smooth", [memtrace_array("volume", volume)], [memtrace_param("width", "9")])
    result = running_mean(volume, 9)
    call memtrace_end(span, [memtrace_array("result", result)])
    print "(a, f8.4)", "mean ", sum(result) / size(result)

contains

    ! Sums from the beginning take 8 bytes for each cell, beside the result's 4.
    function running_mean(volume, width) result(mean)
        real(real32), intent(in) :: volume(:, :, :)
        integer, intent(in) :: width
        real(real32), allocatable :: mean(:, :, :)
        double precision, allocatable :: sums(:, :, :)
        integer :: i, last, first

        allocate(sums(0:size(volume, 1), size(volume, 2), size(volume, 3)))
        allocate(mean, mold=volume)
        sums(0, :, :) = 0
        do i = 1, size(volume, 1)
            sums(i, :, :) = sums(i - 1, :, :) + volume(i, :, :)
        end do
        do i = 1, size(volume, 1)
            first = max(i - width / 2, 1)
            last = min(i + width / 2, size(volume, 1))
            mean(i, :, :) = real((sums(last, :, :) - sums(first - 1, :, :)) / (last - first + 1), real32)
        end do
    end function
end program
