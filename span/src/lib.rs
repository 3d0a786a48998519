//! Names the operators that a Rust program runs, with their arrays and parameters: the Rust side of
//! `include/memtrace.h`.
//!
//! Depends on nothing, prints nothing, never panics. A program that uses it runs unchanged without
//! memtrace, where a span costs a test of a pointer.
//!
//! ```
//! use memtrace_span::{Array, begin};
//!
//! let volume = vec![0f32; 20 * 30];
//! let span = begin("double", &[Array::of("volume", &volume, &[20, 30])], &[("by", "2")]);
//! let doubled: Vec<f32> = volume.iter().map(|value| value * 2.0).collect();
//! span.end(&[Array::of("doubled", &doubled, &[20, 30])]);
//! ```

use std::ffi::{CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::mem;
use std::sync::OnceLock;

/// A type of elements, with its name in NumPy's notation.
pub trait Element {
    /// Byte order, kind and bytes: `<f4`.
    const DTYPE: &'static str;
}

macro_rules! elements {
    ($($of:ty = $name:literal),*) => { $(impl Element for $of { const DTYPE: &'static str = $name; })* };
}
// Little-endian, as all machines are that memtrace records on.
elements!(
    f32 = "<f4",
    f64 = "<f8",
    i16 = "<i2",
    u16 = "<u2",
    i32 = "<i4",
    u32 = "<u4",
    i64 = "<i8",
    u64 = "<u8"
);
elements!(i8 = "|i1", u8 = "|u1", bool = "|b1");

/// An array that goes into or comes out of an operator. Nothing of it is kept after the call.
#[derive(Debug, Clone, Copy)]
pub struct Array<'a> {
    name: &'a str,
    dtype: &'static str,
    shape: &'a [usize],
    first: *const c_void,
}

impl<'a> Array<'a> {
    /// Elements in C order: `shape` has the slowest axis first.
    pub fn of<T: Element>(name: &'a str, values: &'a [T], shape: &'a [usize]) -> Array<'a> {
        Array { name, dtype: T::DTYPE, shape, first: values.as_ptr().cast() }
    }
}

/// A running span; ends when it is dropped. It belongs to its thread: inner ones end first.
#[derive(Debug)]
#[must_use = "a span ends when it is dropped"]
pub struct Span {
    id: u64,
    /// Not `Send`.
    thread: PhantomData<*const ()>,
}

/// Begins a span. Parameters are what the memory that the operator needs may depend on, as text.
pub fn begin(name: &str, inputs: &[Array<'_>], params: &[(&str, &str)]) -> Span {
    let id = probe().map_or(0, |probe| probe.begin(name, inputs, params));
    Span { id, thread: PhantomData }
}

impl Span {
    /// Ends it and says what came out.
    pub fn end(self, outputs: &[Array<'_>]) {
        self.finish(outputs);
        mem::forget(self);
    }

    fn finish(&self, outputs: &[Array<'_>]) {
        if let (1.., Some(probe)) = (self.id, probe()) {
            let described = Described::of(outputs);
            // SAFETY: the probe's function, with as many arrays as said,
            // which live until it returns.
            unsafe { (probe.end)(self.id, described.arrays.as_ptr(), described.arrays.len()) };
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.finish(&[]);
    }
}

/// As in memtrace.h.
#[repr(C)]
struct CArray {
    name: *const c_char,
    dtype: *const c_char,
    axes: c_int,
    shape: *const u64,
    first: *const c_void,
}

#[repr(C)]
struct CParam {
    key: *const c_char,
    value: *const c_char,
}

/// What the preloaded probe exports.
struct Probe {
    begin: unsafe extern "C" fn(*const c_char, *const CArray, usize, *const CParam, usize) -> u64,
    end: unsafe extern "C" fn(u64, *const CArray, usize),
}

unsafe extern "C" {
    /// dlsym(3); a null handle is RTLD_DEFAULT.
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The probe, if this program is recorded.
fn probe() -> Option<&'static Probe> {
    static PROBE: OnceLock<Option<Probe>> = OnceLock::new();
    let find = || {
        // SAFETY: names that end in NUL, looked up among what is loaded.
        let (begin, end) = unsafe {
            let all = std::ptr::null_mut();
            (dlsym(all, c"memtrace_span_begin".as_ptr()), dlsym(all, c"memtrace_span_end".as_ptr()))
        };
        if begin.is_null() || end.is_null() {
            return None;
        }
        // SAFETY: the probe's functions have these types (include/memtrace.h).
        Some(unsafe {
            Probe {
                begin: mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*const c_char, *const CArray, usize, *const CParam, usize) -> u64,
                >(begin),
                end: mem::transmute::<*mut c_void, unsafe extern "C" fn(u64, *const CArray, usize)>(end),
            }
        })
    };
    PROBE.get_or_init(find).as_ref()
}

impl Probe {
    fn begin(&self, name: &str, inputs: &[Array<'_>], params: &[(&str, &str)]) -> u64 {
        let described = Described::of(inputs);
        let texts: Vec<(CString, CString)> =
            params.iter().map(|(key, value)| (text(key), text(value))).collect();
        let params: Vec<CParam> =
            texts.iter().map(|(key, value)| CParam { key: key.as_ptr(), value: value.as_ptr() }).collect();
        let (name, arrays) = (text(name), &described.arrays);
        // SAFETY: as many arrays and parameters as said, which live until the function returns.
        unsafe { (self.begin)(name.as_ptr(), arrays.as_ptr(), arrays.len(), params.as_ptr(), params.len()) }
    }
}

/// Arrays as the probe reads them, with what they point to.
struct Described {
    arrays: Vec<CArray>,
    _texts: Vec<(CString, CString)>,
    _shapes: Vec<Vec<u64>>,
}

impl Described {
    fn of(arrays: &[Array<'_>]) -> Described {
        let texts: Vec<_> = arrays.iter().map(|array| (text(array.name), text(array.dtype))).collect();
        let shapes: Vec<Vec<u64>> =
            arrays.iter().map(|array| array.shape.iter().map(|length| *length as u64).collect()).collect();
        let one = |((array, (name, dtype)), shape): ((&Array<'_>, &(CString, CString)), &Vec<u64>)| CArray {
            name: name.as_ptr(),
            dtype: dtype.as_ptr(),
            axes: shape.len() as c_int,
            shape: shape.as_ptr(),
            first: array.first,
        };
        let described = arrays.iter().zip(&texts).zip(&shapes).map(one).collect();
        Described { arrays: described, _texts: texts, _shapes: shapes }
    }
}

/// As C wants it: what comes after a NUL is left out.
fn text(words: &str) -> CString {
    CString::new(words.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_recorder_spans_do_nothing() {
        let values = [1u8, 2, 3];
        let span = begin("op\0erator", &[Array::of("values", &values, &[3])], &[("a", "b\0c")]);
        assert_eq!(span.id, 0);
        span.end(&[]);
        drop(begin("", &[], &[]));
    }
}
