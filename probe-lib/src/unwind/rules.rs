//! Which rule unwinds a program counter: looked up in the module it lies in, and remembered.

use core::ffi::{c_int, c_void};
use core::mem::{MaybeUninit, transmute};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::cfi::{self, Rule};
use crate::next::look_up;
use crate::process;

/// Rules that are remembered; each program counter has one place.
const PLACES: usize = 512;

/// The rules a thread has used. All zeroes is none.
#[repr(C)]
pub struct Rules {
    counters: [usize; PLACES],
    rules: [Rule; PLACES],
    /// A rule was looked up that was not remembered.
    pub met_new_code: bool,
}

impl Rules {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counters.fill(0);
    }

    /// The rule for an instruction.
    #[inline]
    pub fn of(&mut self, counter: usize) -> Rule {
        let place = counter.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - PLACES.trailing_zeros());
        let (Some(known), Some(rule)) = (self.counters.get_mut(place), self.rules.get_mut(place)) else {
            return Rule::UNKNOWN;
        };
        if *known != counter || counter == 0 {
            *rule = find(counter);
            *known = counter;
            self.met_new_code = true;
        }
        *rule
    }
}

#[cold]
#[inline(never)]
fn find(counter: usize) -> Rule {
    match index_of(counter) {
        // SAFETY: the dynamic linker says that this is a mapped module's `.eh_frame_hdr`.
        Some(index) => unsafe { cfi::rule(index, counter) },
        None => Rule::UNKNOWN,
    }
}

/// `_dl_find_object` (dl_find_object(3), glibc from 2.35): takes no lock.
static FIND_OBJECT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Looks for what the C library has to find modules by.
pub fn find_linker() {
    FIND_OBJECT.store(look_up(libc::RTLD_DEFAULT, b"_dl_find_object\0"), Ordering::Relaxed);
}

/// glibc's `struct dl_find_object` on x86-64.
#[repr(C)]
struct Object {
    flags: u64,
    map_start: usize,
    map_end: usize,
    link_map: usize,
    eh_frame_hdr: usize,
    reserved: [u64; 7],
}

/// Where the module that an address lies in has its `.eh_frame_hdr`.
fn index_of(address: usize) -> Option<usize> {
    let function = FIND_OBJECT.load(Ordering::Relaxed);
    let index = if function.is_null() {
        index_by_list(address)
    } else {
        let mut object = MaybeUninit::<Object>::uninit();
        // SAFETY: the C library's function, which fills the object in if it returns 0.
        unsafe {
            let find_object: unsafe extern "C" fn(usize, *mut Object) -> c_int = transmute(function);
            if find_object(address, object.as_mut_ptr()) == 0 { object.assume_init().eh_frame_hdr } else { 0 }
        }
    };
    (index != 0).then_some(index)
}

/// What is asked of each module, and the answer.
struct Question {
    address: usize,
    index: usize,
}

/// The same without that function, by a list that is locked. Not in a forked child: another thread of its parent
/// may have held the lock.
#[cold]
fn index_by_list(address: usize) -> usize {
    let mut question = Question { address, index: 0 };
    if !process::is_forked_copy() {
        // SAFETY: the callback has the signature dl_iterate_phdr(3) demands; the question outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(ask), (&raw mut question).cast()) };
    }
    question.index
}

unsafe extern "C" fn ask(module: *mut libc::dl_phdr_info, _: usize, question: *mut c_void) -> c_int {
    // SAFETY: the module and its headers are valid during the callback, the question is the caller's.
    unsafe {
        let question = &mut *question.cast::<Question>();
        let (mut inside, mut index) = (false, 0);
        for number in 0..usize::from((*module).dlpi_phnum) {
            let header = &*(*module).dlpi_phdr.add(number);
            let start = ((*module).dlpi_addr + header.p_vaddr) as usize;
            match header.p_type {
                libc::PT_LOAD => inside |= question.address.wrapping_sub(start) < header.p_memsz as usize,
                libc::PT_GNU_EH_FRAME => index = start,
                _ => {}
            }
        }
        if inside {
            question.index = index;
        }
        c_int::from(inside)
    }
}
