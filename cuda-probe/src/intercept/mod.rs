//! The functions that this library exports, and the look-ups by which programs come to them.

mod call;
mod calls;
mod dlsym;
mod proc_address;
mod torch;
