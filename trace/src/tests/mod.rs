mod arbitrary;
mod extracts;
mod labels;
mod round_trip;
mod settled;
mod spans;
