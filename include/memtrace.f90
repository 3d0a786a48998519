! memtrace.f90: name the operators that your program runs, from Fortran 2018.
!
! Compile this file with your own; nothing has to be linked. A program that uses the module runs unchanged
! without memtrace, where a span costs one test of a pointer. Under `memtrace -- program` each pair of
! memtrace_begin and memtrace_end becomes a span in the trace.
!
!     use memtrace
!     integer(memtrace_id) :: span
!     span = memtrace_begin("smooth", [memtrace_array("volume", volume)], [memtrace_param("width", "9")])
!     ... run the operator ...
!     call memtrace_end(span, [memtrace_array("result", smoothed)])
!
! Arrays are contiguous, of real(4), real(8), integer(4), integer(8), complex(4) or complex(8); the trace names their axes slowest
! first, so volume(nz, ny, nx) is nx x ny x nz there, as the same memory would be in C or NumPy. Spans nest, per
! thread: end the inner one first, on the thread that began it. Nothing is kept of what the arguments point to.
!
! Licence: MIT OR Apache-2.0.
module memtrace
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
    implicit none
    private

    integer, parameter, public :: memtrace_id = c_int64_t
    integer, parameter :: longest = 64, most_axes = 15
    public :: memtrace_begin, memtrace_end, memtrace_array, memtrace_param

    ! An array that goes into or comes out of an operator.
    type :: memtrace_array
        private
        character(longest) :: name = ""
        character(4) :: dtype = ""
        integer :: axes = 0
        integer(c_int64_t) :: lengths(most_axes) = 0
        type(c_ptr) :: first = c_null_ptr
    end type

    interface memtrace_array
        module procedure of_real32, of_real64, of_int32, of_int64, of_complex32, of_complex64
    end interface

    ! A parameter that the memory an operator needs may depend on, as text.
    type :: memtrace_param
        character(longest) :: key = ""
        character(longest) :: text = ""
    end type

    ! As in memtrace.h.
    type, bind(c) :: c_array
        type(c_ptr) :: name, dtype
        integer(c_int) :: axes
        type(c_ptr) :: lengths, first
    end type
    type, bind(c) :: c_param
        type(c_ptr) :: key, text
    end type

    ! A name or a text, ended as C wants it.
    type :: c_text
        character(kind=c_char) :: letters(longest + 1)
    end type

    abstract interface
        function begin_function(name, inputs, input_count, params, param_count) bind(c) result(id)
            import :: c_int64_t, c_ptr, c_size_t
            type(c_ptr), value :: name, inputs, params
            integer(c_size_t), value :: input_count, param_count
            integer(c_int64_t) :: id
        end function
        subroutine end_function(id, outputs, output_count) bind(c)
            import :: c_int64_t, c_ptr, c_size_t
            integer(c_int64_t), value :: id
            type(c_ptr), value :: outputs
            integer(c_size_t), value :: output_count
        end subroutine
    end interface

    interface
        ! dlsym(3); a null handle is RTLD_DEFAULT.
        function dlsym(handle, name) bind(c) result(address)
            import :: c_char, c_funptr, c_ptr
            type(c_ptr), value :: handle
            character(kind=c_char), intent(in) :: name(*)
            type(c_funptr) :: address
        end function
    end interface

contains

    ! Begins a span; 0 if it is not recorded.
    function memtrace_begin(name, inputs, params) result(id)
        character(*), intent(in) :: name
        type(memtrace_array), intent(in), optional, target :: inputs(:)
        type(memtrace_param), intent(in), optional :: params(:)
        integer(memtrace_id) :: id
        procedure(begin_function), pointer :: begin
        type(memtrace_array), allocatable, target :: arrays(:)
        type(c_array), allocatable, target :: described(:)
        type(c_param), allocatable, target :: settings(:)
        type(c_text), allocatable, target :: texts(:)
        type(c_text), target :: title
        type(c_funptr) :: address
        integer :: i, count

        id = 0
        address = dlsym(c_null_ptr, "memtrace_span_begin" // c_null_char)
        if (.not. c_associated(address)) return
        call c_f_procpointer(address, begin)
        if (present(inputs)) arrays = inputs
        if (.not. allocated(arrays)) allocate(arrays(0))
        count = 0
        if (present(params)) count = size(params)
        allocate(settings(count), texts(2 * size(arrays) + 2 * count))
        do i = 1, count
            settings(i)%key = pointer_to(texts(2 * size(arrays) + 2 * i - 1), params(i)%key)
            settings(i)%text = pointer_to(texts(2 * size(arrays) + 2 * i), params(i)%text)
        end do
        call describe(arrays, texts, described)
        id = begin(pointer_to(title, name), start_of(described), size(described, kind=c_size_t), &
            merge(c_loc(settings), c_null_ptr, count > 0), int(count, c_size_t))
    end function

    ! Ends a span and says what came out; 0 is ignored.
    subroutine memtrace_end(id, outputs)
        integer(memtrace_id), intent(in) :: id
        type(memtrace_array), intent(in), optional :: outputs(:)
        procedure(end_function), pointer :: finish
        type(memtrace_array), allocatable, target :: arrays(:)
        type(c_array), allocatable, target :: described(:)
        type(c_text), allocatable, target :: texts(:)
        type(c_funptr) :: address

        if (id == 0) return
        address = dlsym(c_null_ptr, "memtrace_span_end" // c_null_char)
        if (.not. c_associated(address)) return
        call c_f_procpointer(address, finish)
        if (present(outputs)) arrays = outputs
        if (.not. allocated(arrays)) allocate(arrays(0))
        allocate(texts(2 * size(arrays)))
        call describe(arrays, texts, described)
        call finish(id, start_of(described), size(described, kind=c_size_t))
    end subroutine

    ! Arrays as the probe reads them; `texts` holds their names.
    subroutine describe(arrays, texts, described)
        type(memtrace_array), intent(in), target :: arrays(:)
        type(c_text), intent(inout), target :: texts(:)
        type(c_array), allocatable, intent(out) :: described(:)
        integer :: i

        allocate(described(size(arrays)))
        do i = 1, size(arrays)
            described(i)%name = pointer_to(texts(2 * i - 1), arrays(i)%name)
            described(i)%dtype = pointer_to(texts(2 * i), arrays(i)%dtype)
            described(i)%axes = int(arrays(i)%axes, c_int)
            described(i)%lengths = c_loc(arrays(i)%lengths)
            described(i)%first = arrays(i)%first
        end do
    end subroutine

    function start_of(described) result(address)
        type(c_array), intent(in), target :: described(:)
        type(c_ptr) :: address

        address = c_null_ptr
        if (size(described) > 0) address = c_loc(described)
    end function

    function pointer_to(text, from) result(address)
        type(c_text), intent(inout), target :: text
        character(*), intent(in) :: from
        type(c_ptr) :: address
        integer :: i, length

        length = min(len_trim(from), longest)
        do i = 1, length
            text%letters(i) = from(i:i)
        end do
        text%letters(length + 1) = c_null_char
        address = c_loc(text%letters)
    end function

    ! Axes slowest first: Fortran's first axis is the fastest.
    function of(name, dtype, lengths, first) result(array)
        character(*), intent(in) :: name, dtype
        integer(c_int64_t), intent(in) :: lengths(:)
        type(c_ptr), intent(in) :: first
        type(memtrace_array) :: array

        array%name = name
        array%dtype = dtype
        array%axes = size(lengths)
        array%lengths(:array%axes) = lengths(array%axes:1:-1)
        array%first = first
    end function

    function of_real32(name, values) result(array)
        character(*), intent(in) :: name
        real(real32), intent(in), target, contiguous :: values(..)
        type(memtrace_array) :: array
        array = of(name, "<f4", shape(values, c_int64_t), c_loc(values))
    end function

    function of_real64(name, values) result(array)
        character(*), intent(in) :: name
        real(real64), intent(in), target, contiguous :: values(..)
        type(memtrace_array) :: array
        array = of(name, "<f8", shape(values, c_int64_t), c_loc(values))
    end function

    function of_int32(name, values) result(array)
        character(*), intent(in) :: name
        integer(int32), intent(in), target, contiguous :: values(..)
        type(memtrace_array) :: array
        array = of(name, "<i4", shape(values, c_int64_t), c_loc(values))
    end function

    function of_int64(name, values) result(array)
        character(*), intent(in) :: name
        integer(int64), intent(in), target, contiguous :: values(..)
        type(memtrace_array) :: array
        array = of(name, "<i8", shape(values, c_int64_t), c_loc(values))
    end function

    function of_complex32(name, values) result(array)
        character(*), intent(in) :: name
        complex(real32), intent(in), target, contiguous :: values(..)
        type(memtrace_array) :: array
        array = of(name, "<c8", shape(values, c_int64_t), c_loc(values))
    end function

    function of_complex64(name, values) result(array)
        character(*), intent(in) :: name
        complex(real64), intent(in), target, contiguous :: values(..)
        type(memtrace_array) :: array
        array = of(name, "<c16", shape(values, c_int64_t), c_loc(values))
    end function
end module
