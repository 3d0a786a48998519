//! Placeholders in the name of a trace's directory: what differs between the processes of a job.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::record::Whereabouts;

/// All of them, in words.
const KNOWN: &str =
    "%h is the host, %j the job, %r the rank, %p the process id of memtrace, and %% a percent sign";

/// The directory that a name with placeholders means here.
///
/// # Errors
/// A sentence: a placeholder is not known, or stands for nothing here.
pub fn filled_in(name: &Path) -> Result<PathBuf, String> {
    filled(name, &Whereabouts::own())
}

fn filled(name: &Path, here: &Whereabouts) -> Result<PathBuf, String> {
    let mut bytes = name.as_os_str().as_bytes().iter();
    let mut path = Vec::new();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'%' => path.extend(value(bytes.next().copied(), here)?.as_bytes()),
            byte => path.push(byte),
        }
    }
    Ok(OsString::from_vec(path).into())
}

/// What a placeholder stands for.
fn value(letter: Option<u8>, here: &Whereabouts) -> Result<String, String> {
    match letter {
        Some(b'%') => Ok("%".into()),
        Some(b'p') => Ok(std::process::id().to_string()),
        Some(b'h') => part_of_name('h', "host", &here.host),
        Some(b'j') => {
            let none = "%j: this runs in no job; submit it as one, or name the directory by %p instead";
            part_of_name('j', "job", here.job.as_ref().ok_or(none)?)
        }
        Some(b'r') => {
            let none = "%r: there is no rank here; start memtrace itself by mpirun or srun, or name the \
                        directory by %p instead";
            Ok(here.rank.ok_or(none)?.to_string())
        }
        Some(letter) if letter.is_ascii_graphic() => {
            Err(format!("%{} is no placeholder: {KNOWN}", letter as char))
        }
        _ => Err(format!("a % stands by itself: {KNOWN}")),
    }
}

/// The environment must not choose where else the trace goes.
fn part_of_name(letter: char, what: &str, value: &str) -> Result<String, String> {
    if value.is_empty() || value.starts_with('.') || value.contains(|c: char| c == '/' || c.is_control()) {
        return Err(format!(
            "%{letter}: the {what} {value:?} cannot be part of a directory's name; leave %{letter} out"
        ));
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Whereabouts {
        Whereabouts { host: "node7".into(), job: Some("4711_3".into()), rank: Some(12) }
    }

    #[test]
    fn a_name_says_host_job_rank_and_process() {
        let name = |text: &str| filled(text.as_ref(), &here()).map(|path| path.display().to_string());
        assert_eq!(name("traces/%j.%r"), Ok("traces/4711_3.12".into()));
        let process = std::process::id();
        assert_eq!(name("%h/100%%-%p"), Ok(format!("node7/100%-{process}")));
        assert_eq!(name("plain"), Ok("plain".into()));
    }

    #[test]
    fn what_stands_for_nothing_is_refused_in_a_sentence() {
        let refused = |text: &str, here: &Whereabouts| filled(text.as_ref(), here).unwrap_err();
        let nowhere = Whereabouts { host: "x".into(), ..Whereabouts::default() };
        assert!(refused("a%x", &here()).starts_with("%x is no placeholder: %h is the host"));
        assert!(refused("a%", &here()).starts_with("a % stands by itself"));
        assert!(refused("a%é", &here()).starts_with("a % stands by itself"));
        assert!(refused("%r", &nowhere).contains("start memtrace itself by mpirun or srun"));
        assert!(refused("%j", &nowhere).contains("no job"));
    }

    #[test]
    fn the_environment_does_not_choose_another_directory() {
        for job in ["../x", "a/b", ".", "..", "a\nb", ""] {
            let there = Whereabouts { job: Some(job.into()), ..here() };
            let refusal = filled("traces/%j".as_ref(), &there).unwrap_err();
            assert!(refusal.ends_with("cannot be part of a directory's name; leave %j out"), "{refusal}");
        }
    }
}
