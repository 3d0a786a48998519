//! The functions programs and language bindings call to say which operator
//! runs (`include/memtrace.h`).

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};

use memtrace_wire::event::{Kind, TEXT_MAX};

use crate::ring::record::{event, event_with_text};

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Spans that were begun and not ended. While there are none, threads inherit no span.
static RUNNING: AtomicU64 = AtomicU64::new(0);

/// An array as `memtrace.h` declares it.
#[repr(C)]
pub struct Array {
    name: *const c_char,
    dtype: *const c_char,
    dimensions: c_int,
    shape: *const u64,
    data: *const c_void,
}

/// A parameter as `memtrace.h` declares it.
#[repr(C)]
pub struct Parameter {
    key: *const c_char,
    value: *const c_char,
}

/// Begins a span described by JSON (see docs/python.md); its id, 0 for a text that is too long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtrace_span_begin_json(json: *const c_char, length: usize) -> u64 {
    if json.is_null() || length > TEXT_MAX {
        return 0;
    }
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    RUNNING.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the caller passes `length` readable bytes.
    event_with_text(Kind::SpanBegin, id, unsafe { core::slice::from_raw_parts(json.cast(), length) });
    id
}

/// Ends a span; a text that is too long is left out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtrace_span_end_json(id: u64, json: *const c_char, length: usize) {
    if id == 0 {
        return;
    }
    RUNNING.fetch_sub(1, Ordering::Relaxed);
    let length = if json.is_null() || length > TEXT_MAX { 0 } else { length };
    let json = if length == 0 { c"".as_ptr() } else { json };
    // SAFETY: the caller passes `length` readable bytes.
    event_with_text(Kind::SpanEnd, id, unsafe { core::slice::from_raw_parts(json.cast(), length) });
}

/// A token for the span that the calling thread is in: a thread that adopts it works for that span.
/// 0 if no span runs.
pub fn export() -> u64 {
    if RUNNING.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    let token = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    event(Kind::SpanExport, token as usize, 0, 0);
    token
}

/// The same with a token of the caller's own, which no span's id can be: an
/// address. False if no span runs.
pub fn export_as(token: u64) -> bool {
    let runs = RUNNING.load(Ordering::Relaxed) != 0;
    if runs {
        event(Kind::SpanExport, token as usize, 0, 0);
    }
    runs
}

/// The calling thread works for the span of a token from now on, or goes on with what it did before
/// if that is 0; `last`: no other thread will adopt it.
pub fn adopt(token: u64, last: bool) {
    event(Kind::SpanAdopt, token as usize, usize::from(last), 0);
}

/// [`export`], for language bindings.
#[unsafe(no_mangle)]
pub extern "C" fn memtrace_span_export() -> u64 {
    export()
}

/// [`adopt`], for the last time, for language bindings.
#[unsafe(no_mangle)]
pub extern "C" fn memtrace_span_adopt(token: u64) {
    adopt(token, true);
}

/// The calling thread goes on in a context that is in the span with this id, 0: in none of its own.
#[unsafe(no_mangle)]
pub extern "C" fn memtrace_span_activate(id: u64) {
    event(Kind::SpanActivate, id as usize, 0, 0);
}

/// Begins a span: `memtrace_span_begin` of `memtrace.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtrace_span_begin(
    name: *const c_char,
    inputs: *const Array,
    input_count: usize,
    parameters: *const Parameter,
    parameter_count: usize,
) -> u64 {
    let mut json = Json::new();
    // SAFETY: the caller passes valid strings and arrays of these lengths, as the header demands.
    unsafe {
        json.raw(b"{\"name\":");
        json.string(name);
        json.arrays(b",\"inputs\":[", inputs, input_count);
        json.raw(b",\"params\":{");
        for index in 0..if parameters.is_null() { 0 } else { parameter_count } {
            let parameter = &*parameters.add(index);
            json.raw(if index > 0 { b"," } else { b"" });
            json.string(parameter.key);
            json.raw(b":");
            json.string(parameter.value);
        }
        json.raw(b"}}");
        match json.text() {
            Some(text) => memtrace_span_begin_json(text.as_ptr().cast(), text.len()),
            None => 0,
        }
    }
}

/// Ends a span: `memtrace_span_end` of `memtrace.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtrace_span_end(id: u64, outputs: *const Array, output_count: usize) {
    let mut json = Json::new();
    // SAFETY: as for `memtrace_span_begin`.
    unsafe {
        json.arrays(b"{\"outputs\":[", outputs, output_count);
        json.raw(b"}");
        let text = json.text().unwrap_or(&[]);
        memtrace_span_end_json(id, text.as_ptr().cast(), text.len());
    }
}

/// A JSON text on the stack; too much of it makes it invalid as a whole, never wrong.
struct Json {
    buffer: [u8; Json::BYTES],
    used: usize,
}

impl Json {
    const BYTES: usize = 8 * 1024;

    fn new() -> Json {
        Json { buffer: [0; Json::BYTES], used: 0 }
    }

    fn text(&self) -> Option<&[u8]> {
        self.buffer.get(..self.used)
    }

    fn raw(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(to) = self.buffer.get_mut(self.used) {
                *to = *byte;
            }
            self.used += 1;
        }
    }

    fn number(&mut self, number: u64) {
        let mut digits = [0u8; 20];
        let mut rest = number;
        let mut count = 0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            count += 1;
            if rest == 0 {
                break;
            }
        }
        self.raw(digits.get(20 - count..).unwrap_or(&[]));
    }

    unsafe fn string(&mut self, text: *const c_char) {
        self.raw(b"\"");
        if !text.is_null() {
            // SAFETY: the caller passes a NUL-terminated string.
            for byte in unsafe { CStr::from_ptr(text) }.to_bytes() {
                match byte {
                    b'"' | b'\\' => self.raw(&[b'\\', *byte]),
                    0..=31 => self.raw(b" "),
                    _ => self.raw(&[*byte]),
                }
            }
        }
        self.raw(b"\"");
    }

    unsafe fn arrays(&mut self, opening: &[u8], arrays: *const Array, count: usize) {
        self.raw(opening);
        for index in 0..if arrays.is_null() { 0 } else { count } {
            // SAFETY: the caller passes `count` arrays, each with `dimensions` lengths.
            unsafe {
                let array = &*arrays.add(index);
                self.raw(if index > 0 { b",{\"name\":" } else { b"{\"name\":" });
                self.string(array.name);
                self.raw(b",\"dtype\":");
                self.string(array.dtype);
                self.raw(b",\"layout\":\"C\",\"address\":");
                self.number(array.data as u64);
                self.raw(b",\"shape\":[");
                for axis in 0..if array.shape.is_null() { 0 } else { array.dimensions.max(0) as usize } {
                    self.raw(if axis > 0 { b"," } else { b"" });
                    self.number(*array.shape.add(axis));
                }
                self.raw(b"]}");
            }
        }
        self.raw(b"]");
    }
}
