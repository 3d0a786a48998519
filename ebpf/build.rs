//! Compiles the BPF programs with whatever clang there is. Without one the crate is built all the
//! same and says at run time that the programs are missing.

use std::path::PathBuf;
use std::process::Command;

const NEWEST: u32 = 25;
const OLDEST: u32 = 14;

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rustc-check-cfg=cfg(programs_built)");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("memtrace.bpf.o");
    let named = std::env::var("CLANG").ok();
    let versions = (OLDEST..=NEWEST).rev().map(|version| format!("clang-{version}"));
    let mut found = named.into_iter().chain(["clang".to_string()]).chain(versions);
    if found.any(|clang| compiles(&clang, &out)) {
        println!("cargo::rustc-cfg=programs_built");
    } else {
        println!("cargo::warning=no clang that compiles for BPF: memtrace is built without its kernel side");
    }
}

fn compiles(clang: &str, out: &PathBuf) -> bool {
    // -mcpu=v3: compare-and-exchange (Linux 5.12), which only programs for Linux 6.2 may use.
    // -g: the BTF that CO-RE needs.
    let flags =
        ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Wno-unused-parameter", "-c"];
    let architecture = std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let registers = format!("-Ibpf/arch/{architecture}");
    let done = Command::new(clang)
        .args(flags)
        .args([&registers, "-Ibpf"])
        .arg("bpf/memtrace.bpf.c")
        .arg("-o")
        .arg(out)
        .output();
    match done {
        Ok(done) if done.status.success() => true,
        Ok(done) => {
            for line in String::from_utf8_lossy(&done.stderr).lines().take(20) {
                println!("cargo::warning={clang}: {line}");
            }
            false
        }
        Err(_) => false,
    }
}
